"""Making sparse tensors: from indices and values, from dense tensors, and from one sparse layout to another."""

from __future__ import annotations

import numpy

import plugrad
from plugrad import Tensor
from plugrad.arguments import checked
from plugrad.backends import warn_once
from plugrad.extend import from_raw
from plugrad.sparse.arrays import BlockArray, CompressedArray, SparseArray, blocked, compressed
from plugrad.sparse.tensors import (
    LAYOUTS,
    SparseTensor,
    build,
    coalesce,
    coordinates,
    numpy_of,
    picked,
    values_of,
    wrap,
)  # fmt: skip


def _values(values, dtype, device):
    """Return values as a dense tensor of a dtype; NotImplementedError for another device than the CPU."""
    values = plugrad.as_tensor(values) if not isinstance(values, Tensor) else values
    place = plugrad.device(device) if device is not None else values.device
    if place.type != "cpu":
        raise NotImplementedError(f"sparse tensors are on the CPU only, not on {place}: SciPy and NumPy compute them")
    return values if dtype is None else values.to(dtype)


def _finished(tensor, requires_grad):
    return tensor.requires_grad_() if requires_grad else tensor


_OPTIONS = {
    "dtype": "dtype?", "device": "device?", "pin_memory": "bool?", "requires_grad": "bool", "check_invariants": "bool?",
}  # fmt: skip


@checked(size="ints?", is_coalesced="bool?", **_OPTIONS)
def sparse_coo_tensor(
    indices=None,
    values=None,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
    is_coalesced=None,
):
    """Return a sparse tensor in coordinate form.

    Args:
        indices: integers (sparse dimensions, entries); a place may occur several times: its values are added up.
        values: (entries, *dense dimensions).
        size: the shape; by default the smallest that holds all indices. With it alone the tensor has no entries.
        dtype: of the values; by default theirs.
        device: the CPU.
        requires_grad: make the tensor a leaf that requires grad.
        is_coalesced: say that each place occurs once, in order.

    Indices are always checked. Raises RuntimeError for those that the shape does not have, and for other numbers
    of indices than of values.

    >>> import plugrad as torch
    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None and size is None and indices is not None:
        indices, size = None, indices
    if indices is None:
        if size is None:
            raise TypeError("sparse_coo_tensor() needs indices and values, or a size")
        shape = (size,) if isinstance(size, int) else tuple(size)
        values = plugrad.zeros(0, dtype=dtype, requires_grad=False)
        array = SparseArray(numpy.zeros((len(shape), 0), numpy.int64), values._raw, shape, True)
        return _finished(wrap(array), requires_grad)
    values, numbers = _values(values, dtype, device), numpy_of(indices, numpy.int64)
    if numbers.ndim == 1 and not numbers.size:
        numbers = numbers.reshape(0, len(values) if values.ndim else 1)
    if numbers.ndim != 2:
        kind = RuntimeError if numbers.ndim else IndexError
        raise kind(f"indices must be sparse_dim x nnz, but got: {list(numbers.shape)}")
    if values.ndim == 0:
        values = values.reshape(1)
    if numbers.shape[1] != values.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{numbers.shape[1]}, nnz from values: {values.shape[0]}"
        )
    dense = tuple(values.shape[1:])
    if size is None:
        size = (*(int(row.max()) + 1 if row.size else 0 for row in numbers), *dense)
    shape = tuple(size)
    if len(shape) != len(numbers) + len(dense):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({len(numbers)}) + dense_dim ({len(dense)}), but got {len(shape)}"
        )
    if shape[len(numbers) :] != dense:
        raise RuntimeError(
            f"values has incorrect size, expected {[numbers.shape[1], *shape[len(numbers) :]]}, got "
            f"{list(values.shape)}"
        )
    _check_indices(numbers, shape)
    pattern = SparseArray(numbers, None, shape, bool(is_coalesced))
    if requires_grad:
        return wrap(pattern.with_values(values.detach()._raw)).requires_grad_()
    return build(values, pattern)


def _check_indices(numbers, shape) -> None:
    for dim, (row, n) in enumerate(zip(numbers, shape)):
        if not row.size:
            continue
        if row.min() < 0:
            raise RuntimeError(f"found negative index {int(row.min())} for dim {dim}")
        if row.max() >= n:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {n} but found index {int(row.max())}"
            )


def _said_to_be_beta(layout, stacklevel=5) -> None:
    """Warn, once in a process, as PyTorch does of compressed tensors; `stacklevel` leads to who makes one."""
    warn_once("sparse compressed tensors", f"Sparse {layout[7:].upper()} tensor support is in beta state.", stacklevel)


_PARTS = {0: ("crow_indices", "col_indices"), 1: ("ccol_indices", "row_indices")}
_BLOCKS = ("sparse_bsr", "sparse_bsc")


def _compressed_tensor(layout, starts, others, values, size, dtype, device, requires_grad):
    by, in_blocks = 0 if layout in ("sparse_csr", "sparse_bsr") else 1, layout in _BLOCKS
    of_starts, of_others = _PARTS[by]
    _said_to_be_beta(layout)
    values = _values(values, dtype, device)
    starts, others = numpy_of(starts, numpy.int64), numpy_of(others, numpy.int64)
    if in_blocks and values.ndim < 3:
        raise RuntimeError(
            "values must have dimensionality > sum of batch and block dimensionalities (=0 + 2) but got "
            f"{values.ndim}: they are (blocks, height, width)"
        )
    if starts.ndim != 1 or others.ndim != 1 or values.ndim != (3 if in_blocks else 1):
        raise NotImplementedError(
            f"{layout} tensors have no batches or dense dimensions here: {of_starts} and {of_others} are 1-d, and "
            f"values {'3-d' if in_blocks else '1-d'}. Write them in coordinate form, by sparse_coo_tensor"
        )
    if len(others) != len(values):
        raise RuntimeError(
            f"number of elements in {of_others} and values must agree, but they have {len(others)} and {len(values)}"
        )
    if not len(starts) or starts[0] != 0 or starts[-1] != len(others) or (numpy.diff(starts) < 0).any():
        raise RuntimeError(
            f"{of_starts} must begin with 0, not decrease, and end with the number of entries, {len(others)}, but they "
            f"are {starts.tolist()[:8]}"
        )
    blocksize = tuple(values.shape[1:]) if in_blocks else (1, 1)
    if size is None:
        sizes = [len(starts) - 1, int(others.max()) + 1 if others.size else 0]
        size = [n * b for n, b in zip(sizes if by == 0 else sizes[::-1], blocksize)]
    if len(size) != 2 or 0 in blocksize or any(n % b for n, b in zip(size, blocksize)):
        raise RuntimeError(f"a matrix of size {tuple(size)} can't be cut into blocks of {blocksize}")
    if size[by] != (len(starts) - 1) * blocksize[by]:
        raise RuntimeError(f"{of_starts} of {len(starts)} elements don't fit the size {tuple(size)}")
    pattern = CompressedArray("sparse_csc" if by else "sparse_csr", starts, others, None, size)
    many = [n // b for n, b in zip(size, blocksize)]
    _check_indices(pattern.indices, many)
    place = SparseArray(pattern.indices[::-1] if by else pattern.indices, None, many[::-1] if by else many).place()
    if (numpy.diff(place) <= 0).any():
        raise RuntimeError(f"{of_others} must be distinct and in order along each row or column")
    pattern = BlockArray(layout, starts, others, None, size, blocksize) if in_blocks else pattern
    if requires_grad:
        return wrap(pattern.with_values(values.detach()._raw)).requires_grad_()
    return build(values, pattern)


@checked(size="ints?", **_OPTIONS)
def sparse_csr_tensor(
    crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """Return a sparse matrix compressed by rows.

    Args:
        crow_indices: for each row where its entries begin, and at the end how many there are.
        col_indices: the entries' columns, in order in each row.
        values: the entries.
        size: the shape; by default the smallest that holds all.

    Raises RuntimeError for indices that don't fit.

    >>> import plugrad as torch
    >>> torch.sparse_csr_tensor([0, 1, 2], [1, 0], [3.0, 4.0]).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    return _compressed_tensor("sparse_csr", crow_indices, col_indices, values, size, dtype, device, requires_grad)


@checked(size="ints?", **_OPTIONS)
def sparse_csc_tensor(
    ccol_indices, row_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """Return a sparse matrix compressed by columns; see sparse_csr_tensor."""
    return _compressed_tensor("sparse_csc", ccol_indices, row_indices, values, size, dtype, device, requires_grad)


@checked(size="ints?", **_OPTIONS)
def sparse_bsr_tensor(
    crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """Return a sparse matrix of dense blocks, compressed by rows of blocks.

    Args:
        crow_indices: for each row of blocks where its blocks begin, and at the end how many there are.
        col_indices: the blocks' columns, counted in blocks, in order in each row.
        values: (blocks, height, width).
        size: the shape; by default the smallest that holds all.

    Raises RuntimeError for indices that don't fit.

    >>> import plugrad as torch
    >>> torch.sparse_bsr_tensor([0, 1, 2], [1, 0], [[[1.0, 2.0]], [[3.0, 4.0]]]).to_dense()
    tensor([[0., 0., 1., 2.],
            [3., 4., 0., 0.]])
    """
    return _compressed_tensor("sparse_bsr", crow_indices, col_indices, values, size, dtype, device, requires_grad)


@checked(size="ints?", **_OPTIONS)
def sparse_bsc_tensor(
    ccol_indices, row_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """Return a matrix of blocks, compressed by columns of them; see sparse_bsr_tensor."""
    return _compressed_tensor("sparse_bsc", ccol_indices, row_indices, values, size, dtype, device, requires_grad)


@checked(size="ints?", layout="layout?", **_OPTIONS)
def sparse_compressed_tensor(
    compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None, pin_memory=False,
    requires_grad=False, check_invariants=None,
):  # fmt: skip
    """Return a matrix of layout sparse_csr, sparse_csc, sparse_bsr or sparse_bsc."""
    name = _layout_name(layout)
    if name not in ("sparse_csr", "sparse_csc", *_BLOCKS):
        raise RuntimeError(
            f"sparse_compressed_tensor expected sparse compressed tensor layout but got {str(layout).lower()}: write "
            "layout=torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr or torch.sparse_bsc"
        )
    return _compressed_tensor(name, compressed_indices, plain_indices, values, size, dtype, device, requires_grad)


def _validate_sparse_coo_tensor_args(indices, values, size, is_coalesced=None, check_pinning=None) -> None:
    """Raise what `sparse_coo_tensor` raises for these arguments."""
    sparse_coo_tensor(indices.detach(), values.detach(), size)


def _validate_sparse_compressed_tensor_args(
    compressed_indices, plain_indices, values, size, layout, check_pinning=None
) -> None:
    """Raise what `sparse_compressed_tensor` raises for these arguments."""
    sparse_compressed_tensor(compressed_indices, plain_indices, values.detach(), size, layout=layout)


def from_parts(layout, indices, values, shape, is_coalesced=False):
    """Return a sparse tensor of a layout's parts: index tensors, values, shape."""
    if layout == "sparse_coo":
        return sparse_coo_tensor(*indices, values, shape, is_coalesced=is_coalesced)
    return _compressed_tensor(layout, *indices, values, shape, None, None, False)


def _layout_name(layout) -> str:
    return next((name for name, one in LAYOUTS.items() if one is layout), str(layout).removeprefix("torch."))


# ---------------------------------------------------------------------------------------------------- conversions


@checked(sparse_dim="int|layout?", layout="layout?", blocksize="int|ints?", dense_dim="int?")
def to_sparse(tensor, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """Return a tensor, dense or sparse, in a sparse layout."""
    if isinstance(sparse_dim, type(LAYOUTS["sparse_coo"])):
        sparse_dim, layout = None, sparse_dim
    name = "sparse_coo" if layout is None else _layout_name(layout)
    if name in _BLOCKS or blocksize is not None:
        return _in_blocks(tensor, name, blocksize)
    if name == "strided":
        return tensor.to_dense()
    if not isinstance(tensor, SparseTensor):
        tensor = _from_dense(tensor, sparse_dim)
    elif name == tensor._raw.layout:
        return tensor
    if name == "sparse_coo":
        return coordinates(tensor)
    _said_to_be_beta(name)
    tensor = coalesce(tensor)
    if tensor.ndim != 2 or tensor.dense_dim():
        raise NotImplementedError(f"{name} tensors are matrices here, this one has {tensor.ndim} dimensions")
    pattern, order = compressed(tensor._raw.pattern(), name)
    return build(values_of(tensor)[from_raw(order)], pattern)


def _in_blocks(tensor, name, blocksize):
    """Return a matrix in blocks: those in which an element is stored, or of a dense matrix one is not zero."""
    source = str(tensor.layout).removeprefix("torch.")
    if blocksize is None or name not in _BLOCKS:
        given = "without blocksize argument given" if blocksize is None else "with blocksize argument given"
        raise RuntimeError(f"to_sparse: conversion from {source} to {name} {given} is not supported")
    blocksize = (blocksize, blocksize) if isinstance(blocksize, int) else tuple(blocksize)
    if len(blocksize) != 2:
        raise RuntimeError(f"to_{name}: blocksize needs to be a tuple of size 2, but got {len(blocksize)}")
    if min(blocksize) < 1:
        raise RuntimeError(f"to_{name}: blocksize needs to be positive, but got {list(blocksize)}")
    if tensor.ndim < 2:
        raise IndexError(f"to_{name}: blocks are of matrices, this tensor has {tensor.ndim} dimensions")
    if tensor.ndim > 2:
        raise NotImplementedError(f"{name} tensors are matrices here, this one has {tensor.ndim} dimensions")
    shape = tuple(tensor.shape)
    if any(n % b for n, b in zip(shape, blocksize)):
        raise RuntimeError(
            f"to_{name}: tensor sparse size ({shape[0]},{shape[1]}) must be divisible by given blocksize "
            f"({blocksize[0]},{blocksize[1]})"
        )
    _said_to_be_beta(name, 6)
    if not isinstance(tensor, SparseTensor):
        used = numpy.stack(numpy.nonzero(_from_dense(tensor.detach(), None)._raw.dense()))
        pattern, _ = blocked(used, name, shape, blocksize)
        return build(picked(tensor, pattern), pattern)
    if name == tensor._raw.layout and blocksize == tensor._raw.blocksize:
        return tensor
    tensor = coalesce(tensor)
    pattern, places = blocked(tensor._raw.indices, name, shape, blocksize)
    zeros = values_of(tensor).new_zeros((pattern.entries, *blocksize))
    return build(zeros.index_put(tuple(map(from_raw, places)), values_of(tensor)), pattern)


def _from_dense(tensor, sparse_dim):
    if tensor.device.type != "cpu":
        raise NotImplementedError(f"sparse tensors are on the CPU only, not on {tensor.device}")
    count = tensor.ndim if sparse_dim is None else sparse_dim
    if not 0 <= count <= tensor.ndim:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{tensor.ndim}] range, but {count} is given"
        )
    if tensor.ndim and not count:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    data = tensor.detach()._raw
    used = data != 0
    if count < data.ndim:
        used = used.any(axis=tuple(range(count, data.ndim)))
    indices = numpy.stack(numpy.nonzero(used)) if data.ndim else numpy.zeros((0, int(data != 0)), numpy.int64)
    values = tensor[tuple([from_raw(index) for index in indices])] if data.ndim else tensor.reshape(1)[: len(indices.T)]
    return build(values, SparseArray(indices, None, data.shape, True))
