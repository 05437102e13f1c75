"""Places in sorted sequences: searchsorted and bucketize."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Op, collect, hookimpl, is_integer, op

from ._checks import is_number, ordered_floats


@op(at=("searchsorted",), vjp=None, kinds={"input": "tensor|number"})
def searchsorted(xp, sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """Where each element of `input` would go in `sorted_sequence`.

    Sequences are 1-d, or agree with `input` in all but the last dimension. With `right` (or `side="right"`) the
    place is after equal elements. `sorter` holds the indices that sort the sequence.

    >>> import plugrad as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])
    """
    side = check_search(sorted_sequence, input, right, side, sorter)
    if sorter is not None:
        sorted_sequence = xp.take_along_axis(sorted_sequence, sorter, -1)
    input = _searched(xp, sorted_sequence, input)
    if sorted_sequence.ndim == 1:
        places = _places(xp, sorted_sequence, input, side)
    else:
        count = math.prod(input.shape[:-1])
        rows = sorted_sequence.reshape(count, sorted_sequence.shape[-1])
        places = xp.empty((count, input.shape[-1]), "int64")
        for i, values in enumerate(input.reshape(places.shape)):
            places[i] = _places(xp, rows[i], values, side)
        places = places.reshape(input.shape)
    return xp.asarray(places).astype("int32" if out_int32 else "int64")


def _places(xp, sequence, values, side):
    """Where values go in a sequence: halving as PyTorch does it, for which NaN is less than what is searched for.

    NaN stands at an end of a sequence that was sorted. NumPy counts it as greater than all numbers.
    """
    sequence, values = ordered_floats(sequence), ordered_floats(values)
    if not sequence.size or not bool((sequence[0] != sequence[0]) | (sequence[-1] != sequence[-1])):
        return xp.searchsorted(sequence, values, side)
    low = xp.zeros(values.shape, "int64")
    high = low + sequence.size
    while bool((open_ := low < high).any()):
        middle = (low + high) // 2
        probe = sequence[xp.where(open_, middle, 0)]
        above = (probe > values) if side == "right" else (probe >= values)
        low, high = xp.where(open_ & ~above, middle + 1, low), xp.where(open_ & above, middle, high)
    return low


def check_search(sequence, input, right, side, sorter):
    """PyTorch's tests of the arguments of `searchsorted`; returns the side as NumPy calls it."""
    name = "torch.searchsorted():"
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{name} side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{name} side and right can't be set to opposites, got side of left while right was True")
    if sequence.ndim == 0:
        raise RuntimeError(f"{name} boundaries tensor should have positive dimension, but got 0 dimension")
    shape, ndim = list(getattr(input, "shape", ())), getattr(input, "ndim", 0)
    if sequence.ndim > 1 and ndim == 0:
        raise RuntimeError(
            f"{name} input value can be a scalar only when boundaries tensor dimension is 1, but we got "
            f"boundaries tensor dim({sequence.ndim}) and input value's dim(0)"
        )
    if sequence.ndim > 1 and (ndim != sequence.ndim or shape[:-1] != list(sequence.shape[:-1])):
        raise RuntimeError(
            f"{name} boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(sequence.shape)} and input value tensor {shape}"
        )
    check_sorter(name, sequence, sorter)
    return "right" if right or side == "right" else "left"


def check_sorter(name, sequence, sorter):
    if sorter is None:
        return
    if sorter.shape != sequence.shape:
        raise RuntimeError(
            f"{name} boundary and sorter must have the same size, but got boundary tensor "
            f"{list(sequence.shape)} and got sorter tensor {list(sorter.shape)}"
        )
    if sorter.dtype != "int64":
        raise RuntimeError(f"{name} sorter must be a tensor of long dtype but got dtype {sorter.dtype}")
    if sorter.size and not 0 <= int(sorter.min()) <= int(sorter.max()) < sequence.shape[-1]:
        raise RuntimeError("sorter index out of range")


@searchsorted.meta
def searchsorted_meta(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    return getattr(input, "shape", ()), (plugrad.int32 if out_int32 else plugrad.int64).numpy


@searchsorted.samples
def searchsorted_samples(make):
    yield make(4, requires_grad=False).sort().values, make(2, 3, requires_grad=False)
    yield make.args(make(2, 4, requires_grad=False).sort().values, make(2, 3, requires_grad=False), right=True)


def _searched(xp, sequence, value):
    """Return what is searched for; a number as an array of the sequence's dtype where that can hold its kind."""
    if not is_number(value):
        return value
    if is_integer(sequence.dtype) and isinstance(value, int):
        return xp.asarray(value).astype(sequence.dtype)  # which wraps around, as in PyTorch
    return xp.asarray(value)


@op(vjp=None, kinds={"input": "tensor|number"})
def bucketize(xp, input, boundaries, *, out_int32=False, right=False):
    """The bucket between rising 1-d `boundaries` in which each element lies.

    Bucket i holds `boundaries[i-1] < x <= boundaries[i]`; with `right` the equal sign is on the left.

    >>> import plugrad as torch
    >>> torch.bucketize(torch.tensor([1, 4]), torch.tensor([1, 3]))
    tensor([0, 2])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    buckets = _places(xp, boundaries, _searched(xp, boundaries, input), "right" if right else "left")
    return xp.asarray(buckets).astype("int32" if out_int32 else "int64")


@bucketize.meta
def bucketize_meta(input, boundaries, *, out_int32=False, right=False):
    return getattr(input, "shape", ()), (plugrad.int32 if out_int32 else plugrad.int64).numpy


@bucketize.samples
def bucketize_samples(make):
    yield make(2, 3, requires_grad=False), make(4, requires_grad=False).sort().values


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
