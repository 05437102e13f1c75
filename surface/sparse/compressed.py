"""The data of sparse tensors that are compressed by rows or columns: matrices, batches of them, and such of blocks."""

from __future__ import annotations

import math

import numpy

from plugrad.sparse.arrays import SparseArray, whole

BLOCKS = ("sparse_bsr", "sparse_bsc")


def compressed_dim(layout) -> int:
    """Return which dimension of a matrix a layout compresses: 0, its rows, or 1, its columns."""
    return 0 if layout in ("sparse_csr", "sparse_bsr") else 1


class CompressedArray(SparseArray):
    """Matrices compressed by rows (`sparse_csr`, `sparse_bsr`) or columns (`sparse_csc`, `sparse_bsc`).

    `starts`, (*batch, rows + 1), says for each row, or column, where its entries begin, and where the last one's end;
    `others`, (*batch, entries), are the entries' columns, or rows. `values` are (*batch, entries, *blocksize, *dense).
    The `blocksize` is (height, width) in the layouts of blocks, where rows and columns count blocks, and () in others.
    """

    sparse_dim = 2
    is_coalesced = True

    def __init__(self, layout, starts, others, values, shape, blocksize=()):
        self.layout, self.starts, self.others, self.blocksize = layout, starts, others, tuple(blocksize)
        self.values, self.shape = values, whole(shape)

    @property
    def by(self) -> int:
        """The dimension of the matrices that is compressed."""
        return compressed_dim(self.layout)

    @property
    def batch_dim(self) -> int:
        """How many dimensions stand before those of the matrices."""
        return self.starts.ndim - 1

    @property
    def is_matrix(self) -> bool:
        """Whether it is one matrix of single numbers, whose entries are in coordinate form what they are here."""
        return not self.blocksize and len(self.shape) == 2

    @property
    def entries(self) -> int:
        """How many entries, or blocks, each matrix has."""
        return self.others.shape[-1]

    @property
    def places(self):
        """The places of the entries in the batch, and their rows and columns, counted in blocks."""
        batch, n = self.others.shape[:-1], self.starts.shape[-1] - 1
        numbers = numpy.tile(numpy.arange(n), math.prod(batch))
        numbers = numpy.repeat(numbers, numpy.diff(self.starts).reshape(-1)).reshape(self.others.shape)
        lead = numpy.indices(self.others.shape)[:-1]
        return numpy.stack([*lead, *((numbers, self.others) if self.by == 0 else (self.others, numbers))])

    @property
    def indices(self):
        """The places in batch, row and column of all elements: (batch dimensions + 2, *batch, entries, *blocksize)."""
        places = self.places
        if not self.blocksize:
            return places
        places = places[..., None, None]
        rows, columns = places[-2:] * numpy.array(self.blocksize).reshape(2, *[1] * (places.ndim - 1))
        height, width = map(numpy.arange, self.blocksize)
        return numpy.stack(numpy.broadcast_arrays(*places[:-2], rows + height[:, None], columns + width))

    def parts(self):
        return self.starts, self.others

    def with_values(self, values):
        count = self.batch_dim + 2
        shape = self.shape
        if values is not None:
            shape = shape[:count] + tuple(values.shape[self.others.ndim + len(self.blocksize) :])
        return CompressedArray(self.layout, self.starts, self.others, values, shape, self.blocksize)

    def copy(self):
        parts = (self.starts.copy(), self.others.copy(), self.values.copy())
        return CompressedArray(self.layout, *parts, self.shape, self.blocksize)

    def flat(self, values):
        """Return the values of the elements, (all elements, *dense): those of a batch, and of a block, in one row."""
        count = self.others.ndim + len(self.blocksize)
        return values.reshape(self.others.size * math.prod(self.blocksize), *values.shape[count:])

    def order(self):
        if not self.blocksize:
            return None
        return numpy.lexsort(self.indices.reshape(self.batch_dim + 2, -1)[::-1])

    def coordinates(self):
        values = None if self.values is None else self.flat(self.values)
        indices, order = self.indices, self.order()
        indices = indices.reshape(len(indices), -1)
        if order is not None:
            indices, values = indices[:, order], None if values is None else values[order]
        return SparseArray(indices, values, self.shape, order is not None or self.by == 0)

    def is_like(self, other) -> bool:
        return super().is_like(other) and self.blocksize == other.blocksize

    def transposed(self):
        """Return the pattern of the transposed matrices: the same memory, seen by the other dimension."""
        mirror = {"r": "c", "c": "r"}
        layout, k = self.layout[:-1] + mirror[self.layout[-1]], self.batch_dim
        shape = (*self.shape[:k], self.shape[k + 1], self.shape[k], *self.shape[k + 2 :])
        return CompressedArray(layout, self.starts, self.others, None, shape, self.blocksize[::-1])

    def __iadd__(self, other):
        if not self.is_like(other):
            return NotImplemented
        self.values = self.values + other.values
        return self


def compressed(indices, layout, shape, blocksize=(), dtype=numpy.int64) -> tuple:
    """Return (the pattern of the entries at some places; for each place its entry, and its row and column in a block).

    Args:
        indices: (batch dimensions + 2, places), each place once.
        layout: `sparse_csr`, `sparse_csc`, `sparse_bsr` or `sparse_bsc`.
        shape: of the tensor; dimensions that the indices are not for are dense.
        blocksize: (height, width) in the layouts of blocks.
        dtype: of the indices.

    Entries are counted through all matrices of a batch. Raises RuntimeError if these have not as many entries each.
    """
    by, batch = compressed_dim(layout), tuple(shape[: len(indices) - 2])
    size = numpy.array(blocksize or (1, 1))[:, None]
    (rows, columns), within = indices[-2:] // size, indices[-2:] % size
    many = [n // b for n, b in zip(shape[len(batch) : len(batch) + 2], size.ravel().tolist())]
    major, minor = (rows, columns) if by == 0 else (columns, rows)
    number, width = numpy.zeros(len(major), numpy.int64), max(many[1 - by], 1)
    for index, n in zip((*indices[:-2], major, minor), (*batch, many[by], width)):
        number = number * n + index
    places, entry = numpy.unique(number, return_inverse=True)
    matrices = math.prod(batch)
    counts = numpy.bincount(places // width, minlength=matrices * many[by]).reshape(*batch, many[by])
    starts = numpy.zeros((*batch, many[by] + 1), dtype)
    starts[..., 1:] = numpy.cumsum(counts, -1)
    each = len(places) // max(matrices, 1)
    if (starts[..., -1] != each).any():
        raise RuntimeError(
            "Expect the same number of specified elements per batch: the matrices of a compressed tensor have one "
            f"number of entries, these have {starts[..., -1].tolist()}; write x.to_sparse(), which has no such limit"
        )
    others = (places % width).astype(dtype).reshape(*batch, each)
    return CompressedArray(layout, starts, others, None, shape, blocksize), (entry.reshape(-1), *within)
