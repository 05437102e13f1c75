"""Transposition and concatenation of sparse tensors: their indices move, and so do the dense parts of the values."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.extend import axes
from plugrad.sparse.arrays import SparseArray
from plugrad.sparse.rules import joined
from plugrad.sparse.tensors import SparseTensor, build, rule, values_of


def _permuted(input, dims):
    if not input.is_sparse:
        return _compressed_permuted(input, tuple(dims))
    array, count = input._raw, input._raw.sparse_dim
    if sorted(dims[:count]) != list(range(count)):
        raise RuntimeError(
            "transpositions between sparse and dense dimensions are not allowed. Only transpositions within sparse and "
            "dense dimensions are supported; write x.to_dense() first"
        )
    values = values_of(input).permute(0, *(d - count + 1 for d in dims[count:]))
    pattern = SparseArray(array.indices[list(dims[:count])], None, [array.shape[d] for d in dims])
    return build(values, pattern)


def _compressed_permuted(input, dims):
    """Exchange rows and columns, which is the same memory in the other layout, or dimensions of the batch."""
    pattern, k = input._raw.pattern(), input._raw.batch_dim
    if dims == tuple(range(input.ndim)):
        return input
    if input.dense_dim():
        raise RuntimeError(
            "transpose(): hybrid sparse compressed tensors with dense dimensions are not supported: write x.to_sparse()"
        )
    if sorted(dims[:k]) != list(range(k)):
        kinds = "the same type (Batch, Sparse, Dense)"
        raise RuntimeError(f"transpose(): can only transpose dimensions of {kinds}: write x.to_sparse() first")
    values = values_of(input)
    values = values.permute(*dims[:k], *range(k, values.ndim))
    pattern.starts, pattern.others = (part.transpose(*dims[:k], k) for part in pattern.parts())
    pattern.shape = (*(pattern.shape[d] for d in dims[:k]), *pattern.shape[k:])
    if dims[k] == k:
        return build(values, pattern)
    return build(values.transpose(k + 1, k + 2) if pattern.blocksize else values, pattern.transposed())


@rule("t", "numpy_T", "adjoint")
def transposed(input):
    if input.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but self is {input.ndim}D: write transpose"
        )
    return _permuted(input, tuple(range(input.ndim))[::-1])


@rule("transpose", "swapaxes", "swapdims")
def transpose(input, dim0, dim1):
    dims = list(range(input.ndim))
    a, b = axes(dim0, input.ndim), axes(dim1, input.ndim)
    dims[a], dims[b] = dims[b], dims[a]
    return _permuted(input, dims)


@rule("permute")
def permute(input, *dims):
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(dims)}"
        )
    return _permuted(input, list(axes(tuple(dims), input.ndim)))


@rule("unsqueeze")
def unsqueeze(input, dim):
    array, dim = input._raw.coordinates(), axes(dim, input.ndim + 1)
    shape = (*array.shape[:dim], 1, *array.shape[dim:])
    if dim > array.sparse_dim:
        return build(values_of(input).unsqueeze(dim - array.sparse_dim + 1), SparseArray(array.indices, None, shape))
    indices = numpy.insert(array.indices, dim, 0, axis=0)
    return build(values_of(input), SparseArray(indices, None, shape))


@rule("cat", "concat")
def cat(tensors, dim=0):
    for place, one in enumerate(tensors):
        if not isinstance(one, SparseTensor) or not one.is_sparse:
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {place}. Convert it by "
                ".to_sparse()"
            )
    first = tensors[0]._raw
    dim, start, indices = axes(dim, first.ndim), 0, []
    _check_alike([one._raw for one in tensors], dim)
    total, values = sum(one._raw.shape[dim] for one in tensors), []
    for one in tensors:
        moved, size = one._raw.indices.copy(), one._raw.shape[dim]
        if dim < first.sparse_dim:
            moved[dim] += start
            values.append(values_of(one))
        else:  # each element is as long as the result is, and zero where the other tensors have theirs
            values.append(_between_zeros(values_of(one), dim - first.sparse_dim + 1, start, total - start - size))
        start += size
        indices.append(moved)
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    return build(joined(values), SparseArray(numpy.concatenate(indices, 1), None, shape))


def _between_zeros(values, dim, before, after):
    sides = [values.new_zeros([*values.shape[:dim], size, *values.shape[dim + 1 :]]) for size in (before, after)]
    return plugrad.cat([sides[0], values, sides[1]], dim)


def _check_alike(arrays, dim):
    first = arrays[0]
    inner = (first.sparse_dim, first.ndim - first.sparse_dim)
    for place, one in enumerate(arrays):
        if one.ndim != first.ndim or any(n != m for d, (n, m) in enumerate(zip(one.shape, first.shape)) if d != dim):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)} (except in the concatenating dimension), "
                f"but found shape: {list(one.shape)} at position {place}."
            )
        if one.sparse_dim != inner[0]:
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {inner[0]}, {inner[1]}, but tensor at "
                f"position {place} has {one.sparse_dim}, {one.ndim - one.sparse_dim}."
            )


@rule("stack")
def stack(tensors, dim=0):
    return cat([unsqueeze(one, axes(dim, one.ndim + 1)) for one in tensors], dim)
