"""The data of sparse tensors: NumPy arrays of indices and values, in coordinate form or compressed by rows or columns.

Like an array it has `shape` and `dtype`, can be copied, cast and added: what a walk backward asks of a gradient.
"""

from __future__ import annotations

import math

import numpy

from plugrad.subclasses.held import HeldArray, adds_to_dense


def _whole(shape) -> tuple:
    """Return a shape whose places can be numbered in 64 bits; RuntimeError for one that has more."""
    shape = tuple(shape)
    if math.prod([n or 1 for n in shape]) >= 1 << 63:
        raise RuntimeError(f"numel: integer multiplication overflow: the shape {shape} has 2 ** 63 places or more")
    return shape


class SparseArray(HeldArray):
    """Indices, values and a shape; `values` may be None in what is only a pattern.

    `indices` are (sparse dimensions, entries), in any order and with duplicates unless `is_coalesced`. Dimensions
    beyond those are dense: `values` is (entries, *dense dimensions).
    """

    home = "cpu"  # the device type that these arrays are on
    layout = "sparse_coo"

    def __init__(self, indices, values, shape, is_coalesced=False):
        self.indices, self.values, self.shape = indices, values, _whole(shape)
        self.is_coalesced = is_coalesced or indices.shape[1] < 2

    @property
    def size(self) -> int:
        """How many elements a dense array of the shape has."""
        return int(numpy.prod(self.shape, dtype=numpy.int64))

    @property
    def entries(self) -> int:
        """How many entries are stored."""
        return self.indices.shape[1]

    @property
    def sparse_dim(self) -> int:
        """How many of the dimensions the indices are for."""
        return len(self.indices)

    def parts(self) -> tuple:
        """Return the arrays of indices."""
        return (self.indices,)

    def pattern(self):
        """Return the same without values."""
        return self.with_values(None)

    def with_values(self, values):
        """Return an array of the same pattern with other values, which may have other dense dimensions."""
        shape = self.shape if values is None else self.shape[: self.sparse_dim] + values.shape[1:]
        return SparseArray(self.indices, values, shape, self.is_coalesced)

    def is_like(self, other) -> bool:
        """Whether another array has the very same indices."""
        alike = type(other) is type(self) and other.layout == self.layout
        return alike and all(map(numpy.array_equal, self.parts(), other.parts()))

    def copy(self):
        """Return an array that shares no memory with this one."""
        return SparseArray(self.indices.copy(), self.values.copy(), self.shape, self.is_coalesced)

    # ------------------------------------------------------------------------------------------ forms

    def coordinates(self):
        """Return the array in coordinate form."""
        return self

    def order(self):
        """Return which of the values, in one row, is which entry in coordinate form; None if they are in that order."""
        return None

    def place(self, dims=None):
        """Return for each entry one number that says where it is, in some of the sparse dimensions or all."""
        dims = range(self.sparse_dim) if dims is None else dims
        number = numpy.zeros(self.entries, numpy.int64)
        for dim in dims:
            number *= self.shape[dim]
            number += self.indices[dim]
        return number

    def merged(self) -> tuple:
        """Return (the pattern with each place once, in order; for each entry the number of its place there)."""
        _, first, inverse = numpy.unique(self.place(), return_index=True, return_inverse=True)
        return SparseArray(self.indices[:, first], None, self.shape, True), inverse.reshape(-1)

    def coalesced(self):
        """Return the array with each place once, in order."""
        if self.is_coalesced:
            return self
        pattern, inverse = self.merged()
        values = numpy.zeros((pattern.entries, *self.values.shape[1:]), self.values.dtype)
        numpy.add.at(values, inverse, self.values)
        return pattern.with_values(values)

    def dense(self):
        """Return a dense NumPy array."""
        array = numpy.zeros(self.shape, self.dtype)
        self.add_to(array)
        return array

    def add_to(self, array) -> None:
        """Add the entries to a dense array, in place."""
        if self.sparse_dim:
            numpy.add.at(array, tuple(self.indices), self.values)
        else:  # each entry is of the whole shape
            array += self.values.sum(0, dtype=self.values.dtype)

    # ------------------------------------------------------------------------------------------ sums of gradients

    def __add__(self, other):
        if not isinstance(other, SparseArray):
            array = numpy.array(other, numpy.result_type(other, self.dtype))
            self.add_to(array)
            return array
        if self.is_like(other) and self.is_coalesced:
            return self.with_values(self.values + other.values)
        indices = numpy.concatenate([self.indices, other.indices], 1)
        return SparseArray(indices, numpy.concatenate([self.values, other.values]), self.shape)

    __radd__ = __add__

    def __iadd__(self, other):
        """Add in place, as to a `.grad`; the sum with a dense array is another array, a dense one."""
        if not isinstance(other, SparseArray):
            return NotImplemented
        total = self + other
        self.indices, self.values, self.is_coalesced = total.indices, total.values, total.is_coalesced
        return self

    __array_ufunc__ = adds_to_dense


class CompressedArray(SparseArray):
    """A matrix compressed by rows (`sparse_csr`) or columns (`sparse_csc`).

    `starts` says for each row, or column, where its entries begin, and where the last one's end; `others` are the
    entries' columns, or rows.
    """

    def __init__(self, layout, starts, others, values, shape):
        self.layout, self.starts, self.others = layout, starts, others
        self.values, self.shape, self.is_coalesced = values, _whole(shape), True

    @property
    def by(self) -> int:
        """The dimension that is compressed."""
        return 0 if self.layout == "sparse_csr" else 1

    sparse_dim = 2

    @property
    def entries(self) -> int:
        return len(self.others)

    @property
    def indices(self):
        """The indices in coordinate form."""
        numbers = numpy.repeat(numpy.arange(len(self.starts) - 1), numpy.diff(self.starts))
        return numpy.stack([numbers, self.others] if self.by == 0 else [self.others, numbers])

    def parts(self):
        return self.starts, self.others

    def with_values(self, values):
        return CompressedArray(self.layout, self.starts, self.others, values, self.shape)

    def copy(self):
        return CompressedArray(self.layout, self.starts.copy(), self.others.copy(), self.values.copy(), self.shape)

    def coordinates(self):
        return SparseArray(self.indices, self.values, self.shape, self.by == 0)

    def __iadd__(self, other):
        if not self.is_like(other):
            return NotImplemented
        self.values = self.values + other.values
        return self


class BlockArray(CompressedArray):
    """A matrix in blocks, compressed by rows (`sparse_bsr`) or columns (`sparse_bsc`) of blocks.

    `values` are (blocks, height, width), and `blocksize` is (height, width).
    """

    def __init__(self, layout, starts, others, values, shape, blocksize):
        super().__init__(layout, starts, others, values, shape)
        self.blocksize = tuple(blocksize)

    @property
    def by(self) -> int:
        return 0 if self.layout == "sparse_bsr" else 1

    @property
    def blocks(self):
        """The rows of blocks, and the columns of blocks, in which the blocks stand."""
        return super().indices

    @property
    def indices(self):
        """The rows, and the columns, of all elements of the blocks: (2, blocks, height, width)."""
        rows, columns = self.blocks[:, :, None, None] * numpy.array(self.blocksize)[:, None, None, None]
        height, width = map(numpy.arange, self.blocksize)
        return numpy.stack(numpy.broadcast_arrays(rows + height[:, None], columns + width))

    def with_values(self, values):
        return BlockArray(self.layout, self.starts, self.others, values, self.shape, self.blocksize)

    def copy(self):
        parts = (self.starts.copy(), self.others.copy(), self.values.copy())
        return BlockArray(self.layout, *parts, self.shape, self.blocksize)

    def order(self):
        rows, columns = self.indices.reshape(2, -1)
        return numpy.lexsort((columns, rows))

    def coordinates(self):
        order = self.order()
        values = None if self.values is None else self.values.reshape(-1)[order]
        return SparseArray(self.indices.reshape(2, -1)[:, order], values, self.shape, True)

    def is_like(self, other) -> bool:
        return super().is_like(other) and self.blocksize == other.blocksize

    def transposed(self):
        """Return the pattern of the transpose: the same blocks, seen by the other dimension."""
        other = "sparse_bsc" if self.layout == "sparse_bsr" else "sparse_bsr"
        return BlockArray(other, self.starts, self.others, None, self.shape[::-1], self.blocksize[::-1])


def blocked(indices, layout, shape, blocksize) -> tuple:
    """Return (the pattern of the blocks in which some elements are; for each element its block, row and column there).

    `indices` are (2, elements).
    """
    by, size = 0 if layout == "sparse_bsr" else 1, numpy.array(blocksize)[:, None]
    many = [n // b for n, b in zip(shape, blocksize)]
    blocks, within = indices // size, indices % size
    places, number = numpy.unique(blocks[by] * max(many[1 - by], 1) + blocks[1 - by], return_inverse=True)
    starts = numpy.zeros(many[by] + 1, numpy.int64)
    numpy.cumsum(numpy.bincount(places // max(many[1 - by], 1), minlength=many[by]), out=starts[1:])
    pattern = BlockArray(layout, starts, places % max(many[1 - by], 1), None, shape, blocksize)
    return pattern, (number.reshape(-1), *within)


def compressed(array, layout) -> tuple:
    """Return (the pattern of a coalesced matrix in a compressed layout, the order of its entries there)."""
    by = 0 if layout == "sparse_csr" else 1
    order = numpy.lexsort((array.indices[1 - by], array.indices[by]))
    starts = numpy.zeros(array.shape[by] + 1, numpy.int64)
    numpy.cumsum(numpy.bincount(array.indices[by], minlength=array.shape[by]), out=starts[1:])
    return CompressedArray(layout, starts, array.indices[1 - by][order], None, array.shape), order
