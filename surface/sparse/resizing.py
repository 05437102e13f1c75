"""Sparse tensors without entries, of other sizes, and parts of them: `zeros(layout=...)`, `sparse_resize_`..."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.extend import axes, from_raw
from plugrad.sparse import creation
from plugrad.sparse.arrays import SparseArray
from plugrad.sparse.tensors import SparseTensor, build, coordinates, factory, rule, values_of, wrap


def without_entries(
    size, dense_dim=0, *, dtype=None, layout=None, requires_grad=False, blocksize=(), index_dtype=numpy.int64
):
    """Return a sparse tensor of zeros; the last `dense_dim` dimensions are dense."""
    size = tuple(size)
    count = len(size) - dense_dim
    dtype = plugrad.get_default_dtype() if dtype is None else dtype
    if layout in (None, plugrad.sparse_coo):
        pattern = SparseArray(numpy.zeros((count, 0), numpy.int64), None, size, True)
    else:
        pattern = creation.compressed_without_entries(layout, size, count - 2, blocksize, index_dtype)
    values = numpy.zeros((*size[: pattern.batch_dim], 0, *blocksize, *size[count:]), dtype.numpy)
    return wrap(pattern.with_values(values)).requires_grad_(requires_grad)


@factory("zeros", "empty")
def zeros(values, dtype, place, requires_grad, layout):
    if place is not None and plugrad.device(place).type != "cpu":
        raise NotImplementedError(f"sparse tensors are on the CPU only, not on {place}: SciPy and NumPy compute them")
    (size,) = values[:1]
    size = (size,) if isinstance(size, int) else size
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    return without_entries(map(int, size), dtype=dtype, layout=layout, requires_grad=bool(requires_grad))


@rule("new_empty", "new_zeros")
def new_zeros(sparse, *size, dtype=None, device=None, layout=None, pin_memory=False, requires_grad=False):
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return plugrad.zeros(
        tuple(size), dtype=dtype or sparse.dtype, device=device, layout=layout or sparse.layout,
        requires_grad=requires_grad,
    )  # fmt: skip


@rule("narrow_copy")
def narrow_copy(input, dim, start, length):
    dim = axes(dim, input.ndim)
    if length < 0 or not 0 <= start <= input.shape[dim] - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({input.shape[dim]}).")
    array = coordinates(input)._raw
    shape = (*array.shape[:dim], length, *array.shape[dim + 1 :])
    if dim >= array.sparse_dim:
        values = values_of(input).narrow(dim - array.sparse_dim + 1, start, length)
        return build(values, SparseArray(array.indices, None, shape, array.is_coalesced))
    (inside,) = numpy.nonzero((array.indices[dim] >= start) & (array.indices[dim] < start + length))
    indices = array.indices[:, inside]
    indices[dim] -= start
    return build(values_of(input)[from_raw(inside)], SparseArray(indices, None, shape, array.is_coalesced))


# ---------------------------------------------------------------------------------------------------- in place


def sparse_resize_(self, size, sparse_dim, dense_dim):
    """Make a sparse tensor one of another size, in place; its entries stay.

    Args:
        size: the shape; sparse dimensions of a tensor with entries can only become longer.
        sparse_dim, dense_dim: how many of the dimensions are sparse, and dense.

    Raises RuntimeError if entries would have no place.

    >>> import plugrad as torch
    >>> torch.eye(2).to_sparse().sparse_resize_((2, 3), 2, 0).to_dense()
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    array, size = _own_array(self, "sparse_resize_"), tuple(size)
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    if not array.entries:
        return sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)
    count = array.sparse_dim
    for kind, mine, wanted in (("sparse", count, sparse_dim), ("dense", array.ndim - count, dense_dim)):
        if mine != wanted:
            _refuse(f"changing the number of {kind} dimensions (from {mine} to {wanted})")
    before, after = array.shape, size
    if any(n < m for n, m in zip(after[:count], before[:count])):
        _refuse(f"shrinking the size of sparse dimensions (from {list(before[:count])} to {list(after[:count])})")
    if any(n < m for n, m in zip(after[count:], before[count:])):
        _refuse(f"shrinking the size of dense dimensions (from {list(before[count:])} to {list(after[count:])})")
    values = array.values
    if after[count:] != before[count:]:
        values = numpy.zeros((array.entries, *after[count:]), values.dtype)
        values[tuple(slice(n) for n in array.values.shape)] = array.values
    self._raw = SparseArray(array.indices, values, size, array.is_coalesced)
    return self


def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
    """Make a sparse tensor one of another size without entries, in place.

    >>> import plugrad as torch
    >>> torch.eye(2).to_sparse().sparse_resize_and_clear_((4, 3), 1, 1)._nnz()
    0
    """
    _own_array(self, "sparse_resize_and_clear_")
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {len(size)}"
        )
    self._raw = without_entries(size, dense_dim, dtype=self.dtype)._raw
    return self


def resize_as_sparse_(self, the_template):
    """Make a sparse tensor one of the size of another, in place; see sparse_resize_.

    >>> import plugrad as torch
    >>> torch.eye(2).to_sparse().resize_as_sparse_(torch.eye(3).to_sparse()).shape
    torch.Size([3, 3])
    """
    for name, one in (("self", self), ("src", the_template)):
        if not isinstance(one, SparseTensor):
            raise RuntimeError(
                f"resize_as_sparse_compressed_: {name}  expected sparse compressed tensor layout but got Strided: "
                "convert it by .to_sparse()"
            )
    if not (self.is_sparse and the_template.is_sparse):
        return _resize_compressed(self, the_template)
    return sparse_resize_(self, tuple(the_template.shape), the_template.sparse_dim(), the_template.dense_dim())


def _resize_compressed(self, template):
    """Give a compressed tensor the pattern of another, if that has another shape; what it stored is lost."""
    mine, other = self._raw, template._raw
    if mine.layout != other.layout:
        raise RuntimeError(
            "resize_as_sparse_compressed_tensor_: self and src must have the same layout, but got: self "
            f"({self.layout}) and source ({template.layout})"
        )
    if mine.shape != other.shape or mine.values.shape != other.values.shape:
        pattern = other.pattern()
        pattern.starts, pattern.others = (part.astype(mine.starts.dtype) for part in other.parts())
        self._raw = pattern.with_values(numpy.zeros(other.values.shape, mine.values.dtype))
    return self


@rule("resize_as_")
def _resize_as(self, the_template, *, memory_format=None):
    return resize_as_sparse_(self, the_template)


def _own_array(tensor, name):
    """Return the data of a tensor in coordinate form; RuntimeError for others, and where it would have a gradient."""
    if not isinstance(tensor, SparseTensor) or not tensor.is_sparse:
        wanted = "sparse coordinate tensor layout"
        raise RuntimeError(f"{name} expected {wanted} but got {tensor.layout}; write x.to_sparse()")
    if tensor.requires_grad:
        raise RuntimeError(f"cannot resize variables that require grad: {name} a detached tensor")
    return tensor._raw


def _refuse(what):
    raise RuntimeError(
        f"{what} on a non-empty sparse tensor is not supported. Write x.sparse_resize_and_clear_(...) to drop the "
        "entries, or make the tensor anew by torch.sparse_coo_tensor(indices, values, size)"
    )
