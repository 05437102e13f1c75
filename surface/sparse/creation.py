"""Making sparse tensors: from indices and values, from dense tensors, and from one sparse layout to another."""

from __future__ import annotations

import numpy

import plugrad
from plugrad import Tensor
from plugrad.arguments import checked
from plugrad.backends import warn_once
from plugrad.extend import from_raw
from plugrad.overrides import seen_by_modes
from plugrad.sparse.arrays import SparseArray
from plugrad.sparse.compressed import BLOCKS, CompressedArray, compressed, compressed_dim
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


@seen_by_modes
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


def _said_to_be_beta(layout) -> None:
    """Warn whoever makes a compressed tensor, once in a process, as PyTorch does."""
    warn_once("sparse compressed tensors", f"Sparse {layout[7:].upper()} tensor support is in beta state.", None)


_PARTS = {0: ("crow_indices", "col_indices"), 1: ("ccol_indices", "row_indices")}


def _compressed_tensor(layout, starts, others, values, size, dtype, device, requires_grad):
    _said_to_be_beta(layout)
    values = _values(values, dtype, device)
    starts, others = _indices(starts), _indices(others)
    if starts.dtype != others.dtype:
        starts, others = starts.astype(numpy.int64), others.astype(numpy.int64)
    batch, by, of_blocks = starts.ndim - 1, compressed_dim(layout), 2 * (layout in BLOCKS)
    _check_dimensions(layout, starts, others, values, batch, of_blocks)
    blocksize = tuple(values.shape[batch + 1 : batch + 1 + of_blocks])
    if size is None:
        counts = [starts.shape[-1] - 1, int(others.max()) + 1 if others.size else 0]
        counts = [n * b for n, b in zip(counts if by == 0 else counts[::-1], blocksize or (1, 1))]
        size = (*starts.shape[:-1], *counts, *values.shape[batch + 1 + of_blocks :])
    pattern = CompressedArray(layout, starts, others, None, size, blocksize)
    _check_sizes(pattern, values)
    _check_entries(pattern)
    if requires_grad:
        return wrap(pattern.with_values(values.detach()._raw)).requires_grad_()
    return build(values, pattern)


def _indices(given):
    """Return indices as an array of int32 where they are that, else of int64."""
    array = numpy_of(given)
    return array if array.dtype == numpy.int32 else array.astype(numpy.int64, copy=False)


def _check_dimensions(layout, starts, others, values, batch, of_blocks):
    of_starts, of_others = _PARTS[compressed_dim(layout)]
    if batch < 0:
        raise RuntimeError(f"{of_starts} must have dimensionality >= 1 but got {starts.ndim}")
    if starts.ndim != others.ndim:
        raise RuntimeError(
            f"{of_starts} and {of_others} dimensionalities must be equal but got {starts.ndim} and {others.ndim}, "
            "respectively"
        )
    if values.ndim < 1 + batch + of_blocks:
        raise RuntimeError(
            f"values must have dimensionality > sum of batch and block dimensionalities (={batch} + {of_blocks}) but "
            f"got {values.ndim}"
        )
    if 0 in values.shape[batch + 1 : batch + 1 + of_blocks]:
        raise RuntimeError(f"blocks of values must have elements, but values have the shape {list(values.shape)}")


def _check_sizes(pattern, values):
    size, batch, blocksize, by = pattern.shape, pattern.batch_dim, pattern.blocksize, pattern.by
    of_starts, of_others = _PARTS[by]
    dense = values.ndim - batch - len(blocksize) - 1
    if len(size) != batch + 2 + dense:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
            f"(={batch} + 2 + {dense}) but got {len(size)}"
        )
    batches = [tuple(one.shape[:batch]) for one in (*pattern.parts(), values)]
    if any(one != size[:batch] for one in batches):
        raise RuntimeError(
            f"all batch dimensions of the provided size ({list(size[:batch])}), indices ({list(batches[0])}, "
            f"{list(batches[1])}), and values ({list(batches[2])}) must be equal."
        )
    for i, b in enumerate(blocksize):
        if size[batch + i] % b:
            raise RuntimeError(
                f"tensor shape[{batch + i}] (={size[batch + i]}) must be divisible with blocksize[{i}] (={b}) as "
                "defined by values shape"
            )
    rows = size[batch + by] // (blocksize[by] if blocksize else 1)
    if pattern.starts.shape[-1] != rows + 1:
        raise RuntimeError(
            f"{of_starts}.shape[-1] must be equal to the number of {('row', 'column')[by]}s + 1 (={rows + 1}), but got "
            f"{pattern.starts.shape[-1]}"
        )
    if pattern.entries != values.shape[batch]:
        raise RuntimeError(
            f"{of_others}.shape[-1] must be equal to nnz (={values.shape[batch]}) as defined by values.shape[{batch}], "
            f"but got {pattern.entries}"
        )
    if dense and size[batch + 2 :] != tuple(values.shape[batch + 1 + len(blocksize) :]):
        raise RuntimeError(f"the last dimensions of values, {list(values.shape)}, must be those of size, {list(size)}")


def _check_entries(pattern):
    (starts, others), by, blocksize = pattern.parts(), pattern.by, pattern.blocksize or (1, 1)
    of_starts, of_others = _PARTS[by]
    of_rows, of_columns = ("nrows", "ncols") if by == 0 else ("ncols", "nrows")
    columns = pattern.shape[pattern.batch_dim + 1 - by] // blocksize[1 - by]
    counts = numpy.diff(starts)
    for is_right, rule in (
        ((starts[..., 0] == 0).all(), f"{of_starts}[..., 0] == 0"),
        ((starts[..., -1] == pattern.entries).all(), f"{of_starts}[..., -1] == nnz"),
        (((counts >= 0) & (counts <= columns)).all(),
         f"0 <= {of_starts}[..., 1:] - {of_starts}[..., :-1] <= {of_columns}"),
        (((others >= 0) & (others < columns)).all(), f"0 <= {of_others} < {of_columns}"),
    ):  # fmt: skip
        if not is_right:
            raise RuntimeError(f"`{rule}` is not satisfied.")
    places = pattern.places if by == 0 else pattern.places[[*range(pattern.batch_dim), -1, -2]]
    rows, columns = places[-2:]
    if ((numpy.diff(columns) <= 0) & (numpy.diff(rows) == 0)).any():
        raise RuntimeError(
            f"`{of_others}[..., {of_starts}[..., i - 1]:{of_starts}[..., i]] for all i = 1, ..., {of_rows} are sorted "
            "and distinct along the last dimension values` is not satisfied."
        )


@seen_by_modes
@checked(size="ints?", **_OPTIONS)
def sparse_csr_tensor(
    crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """Return a sparse matrix compressed by rows, or a batch of them.

    Args:
        crow_indices: for each row where its entries begin, and at the end how many there are.
        col_indices: the entries' columns, in order in each row.
        values: the entries; each may be a dense tensor.
        size: the shape; by default the smallest that holds all.

    In a batch all three have its dimensions first: (*batch, rows + 1), (*batch, entries), (*batch, entries, *dense).
    Indices of int32 stay that. Raises RuntimeError for indices that don't fit.

    >>> import plugrad as torch
    >>> torch.sparse_csr_tensor([0, 1, 2], [1, 0], [3.0, 4.0]).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    return _compressed_tensor("sparse_csr", crow_indices, col_indices, values, size, dtype, device, requires_grad)


@seen_by_modes
@checked(size="ints?", **_OPTIONS)
def sparse_csc_tensor(
    ccol_indices, row_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """Return a sparse matrix compressed by columns; see sparse_csr_tensor."""
    return _compressed_tensor("sparse_csc", ccol_indices, row_indices, values, size, dtype, device, requires_grad)


@seen_by_modes
@checked(size="ints?", **_OPTIONS)
def sparse_bsr_tensor(
    crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """Return a sparse matrix of dense blocks, compressed by rows of blocks.

    Args:
        crow_indices: for each row of blocks where its blocks begin, and at the end how many there are.
        col_indices: the blocks' columns, counted in blocks, in order in each row.
        values: (blocks, height, width, *dense); in a batch all three have its dimensions first.
        size: the shape; by default the smallest that holds all.

    Raises RuntimeError for indices that don't fit.

    >>> import plugrad as torch
    >>> torch.sparse_bsr_tensor([0, 1, 2], [1, 0], [[[1.0, 2.0]], [[3.0, 4.0]]]).to_dense()
    tensor([[0., 0., 1., 2.],
            [3., 4., 0., 0.]])
    """
    return _compressed_tensor("sparse_bsr", crow_indices, col_indices, values, size, dtype, device, requires_grad)


@seen_by_modes
@checked(size="ints?", **_OPTIONS)
def sparse_bsc_tensor(
    ccol_indices, row_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """Return a matrix of blocks, compressed by columns of them; see sparse_bsr_tensor."""
    return _compressed_tensor("sparse_bsc", ccol_indices, row_indices, values, size, dtype, device, requires_grad)


@seen_by_modes
@checked(size="ints?", layout="layout?", **_OPTIONS)
def sparse_compressed_tensor(
    compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None, pin_memory=False,
    requires_grad=False, check_invariants=None,
):  # fmt: skip
    """Return a matrix of layout sparse_csr, sparse_csc, sparse_bsr or sparse_bsc."""
    name = _layout_name(layout)
    if name not in ("sparse_csr", "sparse_csc", *BLOCKS):
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
    blocksize = _checked_blocksize(tensor, name, blocksize)
    is_dense, source = not isinstance(tensor, SparseTensor), str(tensor.layout)[6:]
    if not is_dense and dense_dim is not None:
        with_it = "with dense_dim argument given"
        raise RuntimeError(f"to_sparse: conversion from {source} to {name} {with_it} is not supported: leave it out")
    if name == "strided":
        return tensor.to_dense()
    if name == "sparse_coo":
        if is_dense:
            return _from_dense(tensor, sparse_dim)
        if sparse_dim not in (None, tensor.sparse_dim()):
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not "
                f"supported: write x.to_dense().to_sparse({sparse_dim})"
            )
        return coordinates(tensor)
    _said_to_be_beta(name)
    if is_dense:
        return _dense_to_compressed(tensor, name, blocksize, dense_dim or 0)
    if name == tensor._raw.layout and blocksize == tensor._raw.blocksize:
        return tensor
    return _to_compressed(tensor, name, blocksize)


def _checked_blocksize(tensor, name, blocksize):
    """Return (height, width) for the layouts of blocks, and () for others."""
    source = str(tensor.layout).removeprefix("torch.")
    if (name in BLOCKS) != (blocksize is not None):
        given = "without blocksize argument given" if blocksize is None else "with blocksize argument given"
        raise RuntimeError(f"to_sparse: conversion from {source} to {name} {given} is not supported")
    if blocksize is None:
        return ()
    blocksize = (blocksize, blocksize) if isinstance(blocksize, int) else tuple(blocksize)
    if len(blocksize) != 2:
        raise RuntimeError(f"to_{name}: blocksize needs to be a tuple of size 2, but got {len(blocksize)}")
    if min(blocksize) < 1:
        raise RuntimeError(f"to_{name}: blocksize needs to be positive, but got {list(blocksize)}")
    return blocksize


def _check_divisible(name, shape, blocksize):
    if any(n % b for n, b in zip(shape, blocksize)):
        raise RuntimeError(
            f"to_{name}: tensor sparse size ({shape[0]},{shape[1]}) must be divisible by given blocksize "
            f"({blocksize[0]},{blocksize[1]})"
        )


def _dense_to_compressed(tensor, name, blocksize, dense_dim):
    """Return the entries, or blocks, of a dense tensor in which an element is not zero."""
    if tensor.ndim < 2:
        raise IndexError(f"to_{name}: matrices are compressed, this tensor has {tensor.ndim} dimensions")
    if not 0 <= dense_dim <= tensor.ndim - 2:
        raise RuntimeError(
            f"dense_to_{name}: dense_dim argument must be in [0,{tensor.ndim - 2}] range, but {dense_dim} is given"
        )
    count = tensor.ndim - dense_dim
    _check_divisible(name, tensor.shape[count - 2 : count], blocksize)
    used = _from_dense(tensor.detach(), count)._raw.indices
    pattern, _ = compressed(used, name, tensor.shape, blocksize)
    return build(picked(tensor, pattern), pattern)


def _to_compressed(tensor, name, blocksize):
    """Return a sparse tensor in a compressed layout: all that it stores, in blocks with the zeros between."""
    source, layout = tensor._raw, _camel(name)
    if tensor.is_sparse and source.sparse_dim != 2:
        raise RuntimeError(
            f"coo_to_{name}: conversion from Sparse to {layout} for input tensors with sparse_dim()!=2 is not "
            f"supported: write x.to_dense().to_{name}(...)"
        )
    if source.batch_dim and blocksize and not source.blocksize:
        raise RuntimeError(
            f"sparse_compressed_to_{name}: conversion from {_camel(source.layout)} to {layout} for batched inputs is "
            f"not supported: write x.to_dense().to_{name}(...)"
        )
    _check_divisible(name, tensor.shape[source.batch_dim :], blocksize)
    dtype = numpy.int64 if tensor.is_sparse else source.starts.dtype
    tensor = coalesce(tensor)
    pattern, (entry, *within) = compressed(tensor._raw.indices, name, tensor.shape, blocksize, dtype)
    values, shape = values_of(tensor), (*pattern.others.shape, *blocksize)
    if not blocksize:
        order = from_raw(numpy.argsort(entry))
        return build(values[order].reshape(*shape, *values.shape[1:]), pattern)
    zeros = values.new_zeros((pattern.others.size, *blocksize, *values.shape[1:]))
    blocks = zeros.index_put(tuple(map(from_raw, (entry, *within))), values)
    return build(blocks.reshape(*shape, *values.shape[1:]), pattern)


def _camel(name) -> str:
    """Return PyTorch's word for a layout in messages: SparseCsr for sparse_csr."""
    return "Sparse" + name[7:].capitalize()


def compressed_without_entries(layout, shape, batch_dim, blocksize=(), dtype=numpy.int64):
    """Return the pattern of matrices in which nothing is stored, in the layout `torch.sparse_csr` or another."""
    name = _layout_name(layout)
    if batch_dim < 0:
        raise RuntimeError(f"torch.{name} tensors have at least two sparse dimensions, but the size is {list(shape)}")
    if name in BLOCKS and not blocksize:
        raise RuntimeError(
            f"expected sparse compressed (non-block) tensor layout but got {_camel(name)}, whose blocksize isn't "
            f"known: write torch.zeros(...).to_{name}(blocksize)"
        )
    batch, by = tuple(shape[:batch_dim]), compressed_dim(name)
    rows = shape[batch_dim + by] // (blocksize[by] if blocksize else 1)
    starts, others = numpy.zeros((*batch, rows + 1), dtype), numpy.zeros((*batch, 0), dtype)
    return CompressedArray(name, starts, others, None, shape, blocksize)


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
