"""The standard's reductions, cumulative sums, searching, sorting and sets."""

from __future__ import annotations

from typing import NamedTuple

import plugrad as torch
from plugrad import Tensor
from plugrad.array_api.dtypes import KINDS, together

__all__ = [
    "all", "any", "argmax", "argmin", "argsort", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max",
    "mean", "min", "nonzero", "prod", "searchsorted", "sort", "std", "sum", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "var", "where",
]  # fmt: skip


def _axes(x, axis) -> tuple:
    """Return the axes to reduce, none of them negative."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for one in axes:
        if not -x.ndim <= one < x.ndim:
            raise IndexError(f"axis {one} is out of range for an array of {x.ndim} dimensions")
    return tuple(one % x.ndim for one in axes)


def _over(function, x, axis, keepdims, **options):
    """Reduce by a function that takes a tuple of axes; over no axes at all, those of a first one of size 1."""
    axes = _axes(x, axis)
    if axes:
        return function(x, dim=axes, keepdim=keepdims, **options)
    return function(x[None], dim=(0,), **options)


def _accumulator(x, dtype):
    """The dtype of sums: that which is asked for, else integers are as wide as the default one."""
    if dtype is not None:
        return dtype
    if x.dtype in KINDS["unsigned integer"]:
        return torch.uint64
    return torch.int64 if x.dtype in KINDS["signed integer"] or x.dtype is torch.bool else x.dtype


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """Sum along axes."""
    return _over(torch.sum, x, axis, keepdims, dtype=_accumulator(x, dtype))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """Product along axes."""
    dtype = _accumulator(x, dtype)
    x = x.to(dtype)
    for one in sorted(_axes(x, axis), reverse=True):
        x = torch.prod(x, one, keepdim=keepdims, dtype=dtype)
    return x


def mean(x, /, *, axis=None, keepdims=False):
    """Mean along axes."""
    return _over(torch.mean, x, axis, keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variance along axes: squares divided by their number less `correction`."""
    return _over(torch.var, x, axis, keepdims, correction=correction)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Standard deviation along axes: the root of the variance."""
    return _over(torch.std, x, axis, keepdims, correction=correction)


def max(x, /, *, axis=None, keepdims=False):
    """Greatest element along axes."""
    return _over(torch.amax, x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """Least element along axes."""
    return _over(torch.amin, x, axis, keepdims)


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements along axes are true."""
    return _over(torch.all, x.to(torch.bool), axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    """Whether any element along axes is true."""
    return _over(torch.any, x.to(torch.bool), axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements along axes are not zero."""
    return _over(torch.sum, x != 0, axis, keepdims, dtype=torch.int64)


def argmax(x, /, *, axis=None, keepdims=False):
    """Index of the greatest element along an axis, or in the flattened array."""
    return torch.argmax(x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """Index of the least element along an axis, or in the flattened array."""
    return torch.argmin(x, axis, keepdims)


def _cumulative(function, first, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"axis is needed for an array of {x.ndim} dimensions: only 1-d arrays go without")
        axis = 0
    result = function(x, axis, dtype=_accumulator(x, dtype))
    if not include_initial:
        return result
    shape = list(result.shape)
    shape[axis] = 1
    return torch.cat([torch.full(shape, first, dtype=result.dtype, device=result.device), result], axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums of the elements so far along an axis, from 0 on with `include_initial`."""
    return _cumulative(torch.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Products of the elements so far along an axis, from 1 on with `include_initial`."""
    return _cumulative(torch.cumprod, 1, x, axis, dtype, include_initial)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences between neighbours along an axis, `n` times."""
    return torch.diff(x, n, axis, prepend, append)


def nonzero(x, /):
    """Indices of the elements that are not zero, an array for each axis."""
    if not x.ndim:
        raise ValueError("nonzero() needs at least one dimension, write reshape(x, (1,)) first")
    return torch.nonzero(x, as_tuple=True)


def where(condition, x1, x2, /):
    """Elements of x1 where the condition holds, else those of x2."""
    return torch.where(condition, *together(x1, x2))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where in the sorted x1 the elements of x2 would have to be inserted."""
    return torch.searchsorted(*together(x1, x2), side=side, sorter=sorter)


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """Indices that sort along an axis."""
    return torch.argsort(x, dim=axis, descending=descending, stable=stable)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements sorted along an axis."""
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


class UniqueAll(NamedTuple):
    """Distinct values, where each comes first, which of them each element is, and how many there are of each."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values, and how many there are of each."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values, and which of them each element is."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x, /):
    """Distinct values, first places, inverse and counts."""
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    order = torch.argsort(inverse.reshape(-1), stable=True)
    return UniqueAll(values, order[torch.cumsum(counts, 0) - counts], inverse.reshape(x.shape), counts)


def unique_counts(x, /):
    """Distinct values and how many there are of each."""
    values, counts = torch.unique(x, return_counts=True)
    return UniqueCounts(values, counts)


def unique_inverse(x, /):
    """Distinct values and which of them each element is."""
    values, inverse = torch.unique(x, return_inverse=True)
    return UniqueInverse(values, inverse.reshape(x.shape))


def unique_values(x, /):
    """Distinct values."""
    return torch.unique(x)
