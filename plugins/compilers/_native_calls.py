"""Calls of kernels in C for steps that are none yet: products, linear layers and sums, where ops leave them to NumPy.

Eager programs do so where the way to C is longer than what it saves; in a tape there is no way. What is returned is a
list of steps, of which the last is the call; those before it lay out what it takes.
"""

from __future__ import annotations

import math

import numpy as np

from plugrad import kernels
from plugrad.compiler.graph import Buffer, Step, Value

SMALL = 1 << 12  # multiplications


def _product(step, number):
    """Return the call in C of a product of matrices, or of batches of them; None for what it is not made for."""
    if step.several or step.effect or len(step.values()) != 1 or len(step.args) != 2 or set(step.kwargs) - {"out"}:
        return None
    (target,) = step.values()
    if target is None or not all(isinstance(one, Value) and len(one.shape) >= 2 for one in step.args):
        return None
    if (
        target.dtype.char not in "fd"
        or not target.dtype.isnative
        or any(one.dtype != target.dtype for one in step.args)
    ):
        return None
    one, other = step.args
    if not math.prod(target.shape) or not one.shape[-1] or target.strides[-1] != target.dtype.itemsize:
        return None
    if len(other.shape) == 2 < len(one.shape):
        return _rows_times(one, other, target, (), number)
    if len(target.shape) == 2:
        call, numbers = kernels.function("product_2d"), (False, False)
    elif step.name == "dot":
        return None
    else:
        call, numbers, batch = kernels.function("product_batch"), (False,), target.shape[:-2]
        one, other = _stretched(one, batch), _stretched(other, batch)
    return [Step("native", "product", call, (one, other, target, *numbers), {}, (), (target,), None)]


def _stretched(value, batch) -> Value:
    """Return a value with the leading dimensions of a batch."""
    lead = len(batch) - (len(value.shape) - 2)
    strides = [0] * lead + [s if n > 1 else 0 for n, s in zip(value.shape[:-2], value.strides)]
    return Value(value.buffer, (*batch, *value.shape[-2:]), (*strides, *value.strides[-2:]), value.offset, value.dtype)


def _linear(step, number):
    """Return the calls of a linear layer, which the op itself leaves to NumPy."""
    if len(step.args) not in (2, 3) or step.kwargs or step.several or len(step.values()) != 1:
        return None
    (target,), (one, weight, *bias) = step.values(), step.args
    bias = tuple([b for b in bias if b is not None])
    if target is None or not all(_fits(value, target) for value in (one, weight, *bias)) or len(one.shape) < 2:
        return None
    if len(weight.shape) != 2 or bias and (bias[0].shape != weight.shape[:1] or not is_dense(bias[0])):
        return None
    other = Value(weight.buffer, weight.shape[::-1], weight.strides[::-1], weight.offset, weight.dtype)
    return _rows_times(one, other, target, bias, number)


def _fits(value, target) -> bool:
    """Whether a product in C takes a value where the result is such."""
    known = isinstance(value, Value) and value.dtype == target.dtype and value.dtype.char in "fd"
    return known and value.dtype.isnative and math.prod(value.shape) > 0


def _rows_times(one, other, target, bias, number):
    """Return the steps of the product of all rows of an array and a matrix, and of a bias that is added."""
    rows, (inner, columns), size = math.prod(one.shape[:-1]), other.shape, target.dtype.itemsize
    thin = rows < 4 or columns < 4  # the library's product of a matrix and a vector is faster
    if not is_dense(target) or thin and rows * inner * columns >= SMALL:
        return None
    steps = []
    if len(one.shape) > 2:
        if not is_dense(one):
            buffer = Buffer.planned(number(), one.shape, one.dtype)
            steps.append(Step("array", "copy", np.ndarray.copy, (one,), {}, (buffer.itself,), (), None))
            one = buffer.itself
        one = Value(one.buffer, (rows, inner), (inner * size, size), one.offset, one.dtype)
        target = Value(target.buffer, (rows, columns), (columns * size, size), target.offset, target.dtype)
    given = (one, other, target, *bias, False, bool(bias))
    return [*steps, Step("native", "product", kernels.function("product_2d"), given, {}, (), (target,), None)]


def _sum(step, number):
    """Return the call of a sum over neighbouring dimensions."""
    if step.kind != "array" or step.several or len(step.args) != 1 or set(step.kwargs) - {"axis", "keepdims", "out"}:
        return None
    (one,), target = step.args, (step.values() or [None])[0]
    if not isinstance(one, Value) or target is None or one.dtype != target.dtype or one.dtype.char not in "fd":
        return None
    if not one.dtype.isnative or not math.prod(one.shape) or not is_dense(one) or not is_dense(target):
        return None
    axis, ndim = step.kwargs.get("axis"), len(one.shape)
    axes = range(ndim) if axis is None else (axis,) if type(axis) is int else axis
    if type(axes) not in (tuple, range) or not all(type(d) is int for d in axes) or not axes:
        return None
    axes = sorted(d % ndim for d in axes)
    if axes != list(range(axes[0], axes[-1] + 1)):
        return None
    given = (one, target, axes[0], axes[-1] + 1, 1, False)
    return [Step("native", "sum", kernels.function("sums"), given, {}, (), (target,), None)]


def is_dense(value) -> bool:
    """Whether a value is in row-major order, without gaps."""
    step = value.dtype.itemsize
    for n, stride in zip(value.shape[::-1], value.strides[::-1]):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


CALLS = {"matmul": _product, "dot": _product, "mm": _product, "linear": _linear, "sum": _sum}
