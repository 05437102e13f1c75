"""Max and average pooling by kernels in CUDA C++."""

from __future__ import annotations

import functools
import pathlib
from math import prod

import numpy

from plugrad.extend import is_channels_last, load_inline

from ._pooling_axes import pooled_shape

PLAN = numpy.dtype([
    ("axes", "i4", (3, 6)), ("lanes", "i4"), ("padding_counts", "i4"), ("divisor", "f8"), ("inner", "i8"),
    ("windows", "i8"), ("elements", "i8"),
])  # fmt: skip
_load = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_name("pooling.cu"), per="block",
    types="floating", struct=PLAN.itemsize,
)  # fmt: skip
most = _load(name="max_pool", arrays=2)
most_with_places = _load(name="max_pool_places", arrays=3, indices=(2,))
most_grad = _load(name="max_pool_grad", arrays=3)
most_grad_by_places = _load(name="max_pool_grad_by_places", arrays=3, indices=(1,))
mean = _load(name="avg_pool", arrays=2)
mean_grad = _load(name="avg_unpool", arrays=2)

INT64 = numpy.dtype("int64")
THREADS = 256
MANY = 64  # elements of a window for which a warp looks at them
FEW = 16  # elements that a thread may look at for the gradient of one, so that nobody notes where maxima are


class Plan:
    """What kernels are told of the geometry, how arrays lie in memory, and how much there is to do."""

    __slots__ = ("struct", "shape", "inside", "back", "order", "by_window", "by_element", "looks")

    def __init__(self, shape, axes, channels_last, padding_counts, divisor):
        n, pooled = len(axes), pooled_shape(shape, axes)
        windows, elements, inner = prod(pooled), prod(shape), shape[1] if channels_last else 1
        each = prod([len(axis.taps) for axis in axes])
        lanes = 32 if each > MANY else 1
        counts = [axis.spans if padding_counts else axis.counts for axis in axes]
        if not divisor and windows and all([min(one) == max(one) for one in counts]):  # the same for all
            divisor = prod([one[0] for one in counts])
        rows = [(s, axis.size, *(axis.steps or (0, 1, 0, 1))) for s, axis in zip(shape[-n:], axes)]
        struct = numpy.zeros((), PLAN)
        struct["axes"] = [(1, 1, 1, 1, 0, 1)] * (3 - n) + rows
        for name, value in {
            "lanes": lanes, "padding_counts": padding_counts, "divisor": divisor or 0, "inner": inner,
            "windows": windows, "elements": elements,
        }.items():  # fmt: skip
            struct[name] = value
        self.struct = struct.tobytes()
        self.shape = (pooled[0], *pooled[2:], pooled[1]) if channels_last else pooled
        self.inside = (shape[0], *shape[2:], shape[1]) if channels_last else shape
        self.back = (0, len(shape) - 1, *range(1, len(shape) - 1)) if channels_last else None
        self.order = (0, *range(2, len(shape)), 1)
        self.by_window, self.by_element = -(-windows * lanes // THREADS), -(-elements // THREADS)
        self.looks = each * prod([-(-len(axis.taps) // (axis.steps[1] if axis.steps else 1)) for axis in axes])

    def laid_out(self, xp, array):
        """Return an array in the order of the plan."""
        array = array if self.back is None else array.transpose(self.order)
        return array if array._c_contiguous else xp.ascontiguousarray(array)

    def original(self, array):
        """Return a result in that order as one with the dimensions in theirs."""
        return array if self.back is None else array.transpose(self.back)


_plan = functools.lru_cache(maxsize=4096)(Plan)


def plan_of(array, shape, axes, padding_counts=False, divisor=None):
    """Return the plan for images of a shape that lie as an array does: its channels may be innermost."""
    channels_last = not array._c_contiguous and len(axes) == 2 and is_channels_last(array.shape, array.strides)
    return _plan(tuple(shape), tuple(axes), channels_last, bool(padding_counts), divisor)


def max_pool(xp, input, axes, with_places=False):
    """Return the maxima, and where they are; NotImplemented for other types."""
    plan = plan_of(input, input.shape, axes)
    result = xp.ndarray(plan.shape, input.dtype)
    if not with_places:
        done = most(plan.laid_out(xp, input), result, plan.struct, blocks=plan.by_window)
        return plan.original(result) if done is None else done
    places = xp.ndarray(plan.shape, INT64)
    done = most_with_places(plan.laid_out(xp, input), result, places, plan.struct, blocks=plan.by_window)
    return (plan.original(result), plan.original(places)) if done is None else done


def max_pool_grad(xp, grad, input, axes):
    """Return the gradient of the maxima in the input; NotImplemented for other types."""
    plan = plan_of(input, input.shape, axes)
    rows, g, out = plan.laid_out(xp, input), plan.laid_out(xp, grad), xp.ndarray(plan.inside, input.dtype)
    if plan.looks <= FEW:
        done = most_grad(rows, g, out, plan.struct, blocks=plan.by_element)
    else:
        values, places = xp.ndarray(plan.shape, input.dtype), xp.ndarray(plan.shape, INT64)
        done = most_with_places(rows, values, places, plan.struct, blocks=plan.by_window)
        done = done or most_grad_by_places(g, places, out, plan.struct, blocks=plan.by_element)
    return plan.original(out) if done is None else done


def avg_pool(xp, input, axes, padding_counts, divisor):
    """Return the means; NotImplemented for other types."""
    plan = plan_of(input, input.shape, axes, padding_counts, divisor)
    result = xp.ndarray(plan.shape, input.dtype)
    done = mean(plan.laid_out(xp, input), result, plan.struct, blocks=plan.by_window)
    return plan.original(result) if done is None else done


def avg_unpool(xp, grad, axes, padding_counts, divisor, shape):
    """Return the gradient of the means in images of a shape; NotImplemented for other types."""
    plan = plan_of(grad, shape, axes, padding_counts, divisor)
    out = xp.ndarray(plan.inside, grad.dtype)
    done = mean_grad(plan.laid_out(xp, grad), out, plan.struct, blocks=plan.by_element)
    return plan.original(out) if done is None else done
