"""`masked.sum` and the like of sparse tensors: what has no entry is masked out, in the input and in the result."""

from __future__ import annotations

import math

import numpy

import plugrad
from plugrad import masked
from plugrad.extend import axes, from_raw
from plugrad.sparse import creation
from plugrad.sparse.rules import _sparse_broadcast_to
from plugrad.sparse.tensors import SparseTensor, build, coalesce, coordinates, picked, rule, to_dense, values_of


def _declare(name):
    of_all = getattr(masked, name)

    @rule(f"masked_{name}")
    def reduce(input, dim=None, *, keepdim=False, dtype=None, mask=None):
        if not isinstance(input, SparseTensor):
            return of_all(input, dim, keepdim=keepdim, dtype=dtype, mask=to_dense(mask))
        if mask is None and name != "sum":  # whose result does not depend on it
            raise ValueError(
                f"masked {name} expects explicit mask for {str(input.layout)[6:]} tensor input: without one it isn't "
                "said whether elements that are not stored are zeros or masked out; pass mask="
            )
        entries = _entries(input, mask)
        values, indices = values_of(entries), entries._raw.indices
        dims = _dims(dim, input.ndim)
        indices, shape = _without(indices, input.shape, dims, keepdim)
        array = type(entries._raw)
        if len(dims) == input.ndim:
            seen = None if len(values) else plugrad.zeros(1, dtype=plugrad.bool)
            total = of_all(values if len(values) else values.new_zeros(1), dtype=dtype, mask=seen)
            result = creation.to_sparse(total.reshape(shape))  # a zero is not stored
        else:
            dtype = of_all(values.new_zeros(1), dtype=dtype).dtype  # what a dense tensor of this dtype would give
            indices, group = numpy.unique(indices, axis=1, return_inverse=True)
            group = from_raw(group.reshape(-1).astype(numpy.int64))
            exact = plugrad.float32 if dtype in (plugrad.float16, plugrad.bfloat16) else dtype  # rounded once
            out = plugrad.zeros(indices.shape[1], dtype=exact)
            reduced = out.scatter_reduce(0, group, values.to(exact), reduce=name, include_self=False)
            result = build(reduced.to(dtype), array(indices, None, shape, True))
        return creation.to_sparse(result, layout=input.layout) if input.is_sparse_csr and len(shape) == 2 else result


for _name in ("sum", "prod", "amax", "amin", "mean"):
    _declare(_name)


def _dims(dim, ndim):
    if not ndim or dim is None or isinstance(dim, (tuple, list)) and not dim:
        return tuple(range(ndim))
    return axes(tuple(dim) if isinstance(dim, (tuple, list)) else (dim,), ndim)


def _entries(input, mask):
    """Return the elements that a mask lets through, each an entry of its own, also where they are not stored."""
    input = _in_coordinates(input)
    if mask is None:
        return input
    mask = mask if isinstance(mask, SparseTensor) else creation.to_sparse(mask)
    mask = coalesce(_in_coordinates(_sparse_broadcast_to(mask, tuple(input.shape))))
    let_through = mask._raw.pattern()
    let_through.indices = let_through.indices[:, numpy.asarray(mask._raw.values, bool)]
    return build(picked(input, let_through), let_through)


def _in_coordinates(sparse):
    """Return it merged, with an index for every dimension."""
    sparse = coalesce(coordinates(sparse))
    array, dense = sparse._raw, sparse._raw.shape[sparse._raw.sparse_dim :]
    if not dense:
        return sparse
    inner = numpy.indices(dense).reshape(len(dense), math.prod(dense))
    lead = numpy.repeat(array.indices, inner.shape[1], 1)
    indices = numpy.concatenate([lead, numpy.tile(inner, array.indices.shape[1])])
    return build(values_of(sparse).reshape(-1), type(array)(indices, None, array.shape, True))


def _without(indices, shape, dims, keepdim):
    """Return indices and shape of what is left of some dimensions."""
    if keepdim:
        indices = indices.copy()
        indices[list(dims)] = 0
        return indices, tuple([1 if d in dims else n for d, n in enumerate(shape)])
    rest = [d for d in range(len(shape)) if d not in dims]
    return indices[rest], tuple([shape[d] for d in rest])
