"""Reductions and softmax of jagged tensors: over the ragged dimension they run on a padded form of the components."""

from __future__ import annotations

import math

import plugrad
from plugrad import registry
from plugrad.extend import axes
from plugrad.nested.padding import pad, seen, unpad, without_gaps
from plugrad.nested.tensors import build, rule, rules, values_of

_SUMS = "sum nansum mean prod any all count_nonzero".split()
_EXTREMES = "amax amin argmax argmin".split()


def _dims(input, dim):
    """Return the dimensions of a reduction, None if they are all."""
    if dim is None or isinstance(dim, (tuple, list)) and not dim:
        return None
    dims = axes(tuple(dim) if isinstance(dim, (tuple, list)) else (dim,), input.ndim)
    return None if len(dims) == input.ndim else dims


def _neutral(name, dtype):
    """Return what, behind a component, does not change the result of a reduction."""
    if name in ("prod", "all"):
        return 1
    if name in ("amax", "argmax", "max", "softmax", "log_softmax", "logsumexp"):
        return -math.inf if dtype.is_floating_point else False if dtype is plugrad.bool else plugrad.iinfo(dtype).min
    if name in ("amin", "argmin", "min"):
        return math.inf if dtype.is_floating_point else True if dtype is plugrad.bool else plugrad.iinfo(dtype).max
    return 0


def _check(name, input, dims):
    ragged = input._raw.ragged
    if 0 in dims and ragged not in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested "
            "tensors"
        )
    if ragged in dims and 0 not in dims and len(dims) > 1:
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors: do it one "
            "after the other"
        )


def _reduction(name):
    op = registry.op(name)
    function = op.function

    def compute(*args, **kwargs):
        given = {**op.defaults, **dict(zip(op.positional, args)), **kwargs}
        input, dim, keepdim = (given.pop(one, None) for one in ("input", "dim", "keepdim"))
        dims, options = _dims(input, dim), {key: value for key, value in given.items() if value is not None}
        if dims is None:
            result = function(values_of(without_gaps(input)), **options)
            return result.reshape((1,) * input.ndim) if keepdim else result
        _check(name, input, dims)
        array, keeps = input._raw, {} if name == "count_nonzero" else {"keepdim": bool(keepdim)}
        if array.ragged not in dims:
            result = function(values_of(input), _inside(dims), **keeps, **options)
            moved = array.ragged if keepdim else array.ragged - sum(d < array.ragged for d in dims)
            return build(result, array.with_values(None, moved))
        if 0 in dims:
            result = function(values_of(without_gaps(input)), _inside(dims), **keeps, **options)
            return result.unsqueeze(0) if keepdim else result
        if name == "mean":
            counts = seen(array, input.device).sum(1).reshape(-1, *(1,) * (input.ndim - 2 + bool(keepdim)))
            return rules["jagged"]["sum"](input, dim, keepdim, **options) / counts
        return function(pad(input, _neutral(name, input.dtype)), array.ragged, **keeps, **options)

    return compute


def _inside(dims):
    """Return the dimensions of the values that some dimensions are."""
    inside = [d - 1 for d in dims if d]
    return inside[0] if len(inside) == 1 else inside


for _name in (*_SUMS, *_EXTREMES):
    rules["jagged"][_name] = _reduction(_name)


def _extreme(name):
    function = getattr(plugrad, name)

    def compute(input, dim=None, keepdim=False, other=None, out=None):
        if other is not None:
            return getattr(plugrad, f"{name}imum")(input, other)
        if dim is None:
            return function(values_of(without_gaps(input)))
        (dim,) = axes((dim,), input.ndim)
        _check(name, input, (dim,))
        array = input._raw
        if dim == array.ragged:
            return function(pad(input, _neutral(name, input.dtype)), dim, keepdim)
        pair = function(values_of(input), dim - 1, keepdim)
        pattern = array.with_values(None, array.ragged - (not keepdim and dim < array.ragged))
        return type(pair)(*[build(one, pattern) for one in pair])

    return compute


for _name in ("max", "min"):
    rules["jagged"][f"{_name}_of"] = _extreme(_name)


# ---------------------------------------------------------------------------------------------------- softmax


def _softmax(name):
    function = getattr(plugrad, name)

    def compute(input, dim, dtype=None):
        (dim,) = axes((dim,), input.ndim)
        if dim == 0:
            raise RuntimeError(f"{name}(): not supported when reducing across the batch dimension for NestedTensor")
        array = input._raw
        if dim != array.ragged:
            return build(function(values_of(input), dim - 1, dtype=dtype), array.pattern())
        input = without_gaps(input)
        return unpad(function(pad(input, -math.inf), dim, dtype=dtype), input._raw.pattern())

    def of_functional(input, dim=None, _stacklevel=3, dtype=None):
        if dim is None:
            raise RuntimeError(f"{name}(): a nested tensor has no dim that goes without saying: write dim=-1")
        return compute(input, dim, dtype)

    return compute, of_functional


for _name in ("softmax", "log_softmax"):
    rules["jagged"][_name], rules["jagged"][f"functional_{_name}"] = _softmax(_name)


@rule("jagged", "cumsum")
def cumsum(input, dim, dtype=None):
    (dim,) = axes((dim,), input.ndim)
    if dim == 0:
        raise RuntimeError("cumsum(): not supported along the batch dimension of a nested tensor")
    if dim != input._raw.ragged:
        return build(plugrad.cumsum(values_of(input), dim - 1, dtype=dtype), input._raw.pattern())
    input = without_gaps(input)
    return unpad(plugrad.cumsum(pad(input, 0), dim, dtype=dtype), input._raw.pattern())
