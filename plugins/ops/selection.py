"""Choice between elements: clamping, extremes of pairs, and `where`."""

from __future__ import annotations

import math

from plugrad.extend import LEFT_OUT, Op, binary, collect, composite, elementwise, hookimpl, native

from ._activation_on_cuda import on_cuda
from ._checks import NUMBERS, bounded, fitted, is_number

_FAR = 2.0**127  # beyond which a float32 may be infinite
_BITS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


# ---------------------------------------------------------------- clamping


def _refuse_clamp(name, *values):
    for value in values:
        if isinstance(value, complex) or hasattr(value, "dtype") and value.dtype.kind == "c":
            raise NotImplementedError(f"{name} is not supported for complex types")


@elementwise(
    tensors=("input", "min", "max"), inplace=True, aliases=("clip",), wraps=False, fits=("min", "max"), alike=True,
    node={"ClampBackward1": "not (isinstance(min, Tensor) or isinstance(max, Tensor))"},
)  # fmt: skip
def clamp(xp, input, min=None, max=None):
    """Each element limited to a range; where `min` exceeds `max`, it is `max`.

    Args:
        input: real tensor.
        min, max: bounds, numbers or tensors; at least one of them.

    The gradient passes at the bounds.

    >>> import plugrad as torch
    >>> torch.clamp(torch.tensor([-2., 0.5, 2.]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    _refuse_clamp("clamp", input, min, max)
    if input.dtype.kind == "f" and not hasattr(min, "dtype") and not hasattr(max, "dtype"):
        return bounded(xp, input, -math.inf if min is None else min, math.inf if max is None else max)
    if min is not None:
        input = xp.maximum(input, min)
    return input if max is None else xp.minimum(input, max)


@clamp.kernel("cpu")
@native("clamp", otherwise=clamp)
def clamp_in_c(call, xp, input, min=None, max=None):
    if min is None and max is None:
        return NotImplemented
    return call(input, -math.inf if min is None else min, math.inf if max is None else max)


@clamp.vjp("input")
def clamp_vjp_input(F, g, input, min, max):
    if max is None:
        return F.where(input >= min, g, 0.0)
    if min is None:
        return F.where(input <= max, g, 0.0)
    return F.where((input >= min) & (input <= max), g, 0.0)


def _bounds(min=None, max=None):
    """Return what limits elements as two numbers; None for tensors, and no bound at all."""
    low, high = -math.inf if min is None else min, math.inf if max is None else max
    plain = low.__class__ in NUMBERS and high.__class__ in NUMBERS and not (min is None and max is None)
    return (low, high) if plain else None


on_cuda(clamp, "bounded", _bounds, more=(1,))


@clamp.vjp("min")
def clamp_vjp_min(F, g, input, min, max):
    return F.where(input < min if max is None else (input < min) & (min < max), g, 0.0)


@clamp.vjp("max")
def clamp_vjp_max(F, g, input, min, max):
    return F.where(input > max if min is None else (input > max) | (max < min), g, 0.0)


@clamp.samples
def clamp_samples(make):
    yield make.args(make(3, 4), -0.5, 0.5)
    yield make.args(make(3, 4), max=make(4))
    yield make.args(make(3, 4), min=make(3, 1), max=make(4))


@binary(wraps=False, fits=("min",), node={"ClampMinBackward1": "isinstance(min, Tensor)"})
def clamp_min(xp, input, min):
    """Each element raised to at least `min`.

    >>> import plugrad as torch
    >>> torch.clamp_min(torch.tensor([-1., 2.]), 0)
    tensor([0., 2.])
    """
    _refuse_clamp("clamp", input, min)
    return bounded(xp, input, min, math.inf) if is_number(min) and input.dtype.kind == "f" else xp.maximum(input, min)


@clamp_min.kernel("cpu")
@native("clamp", otherwise=clamp_min)
def clamp_min_in_c(call, xp, input, min):
    return call(input, min, math.inf) if min.__class__ in NUMBERS else NotImplemented


@clamp_min.vjp("input")
def clamp_min_vjp_input(F, g, input, min):
    return F.where(input >= min, g, 0.0)


on_cuda(clamp_min, "bounded", _bounds, 2, (1,))


@clamp_min.vjp("min")
def clamp_min_vjp_min(F, g, input, min):
    return F.where(input < min, g, 0.0)


@clamp_min.samples
def clamp_min_samples(make):
    yield make(3, 4), 0.25
    yield make(3, 4), make(4)


@binary(wraps=False, fits=("max",), node={"ClampMaxBackward1": "isinstance(max, Tensor)"})
def clamp_max(xp, input, max):
    """Each element lowered to at most `max`.

    >>> import plugrad as torch
    >>> torch.clamp_max(torch.tensor([-1., 2.]), 0)
    tensor([-1.,  0.])
    """
    _refuse_clamp("clamp", input, max)
    return bounded(xp, input, -math.inf, max) if is_number(max) and input.dtype.kind == "f" else xp.minimum(input, max)


@clamp_max.kernel("cpu")
@native("clamp", otherwise=clamp_max)
def clamp_max_in_c(call, xp, input, max):
    return call(input, -math.inf, max) if max.__class__ in NUMBERS else NotImplemented


@clamp_max.vjp("input")
def clamp_max_vjp_input(F, g, input, max):
    return F.where(input <= max, g, 0.0)


on_cuda(clamp_max, "bounded", lambda max: _bounds(None, max), 2, (1,))


@clamp_max.vjp("max")
def clamp_max_vjp_max(F, g, input, max):
    return F.where(input > max, g, 0.0)


@clamp_max.samples
def clamp_max_samples(make):
    yield make(3, 4), 0.25
    yield make(3, 4), make(4)


# ---------------------------------------------------------------- extremes of pairs


def _refuse_complex_order(name, input):
    if input.dtype.kind == "c":
        raise RuntimeError(f"{name} not implemented for complex tensors.")


def _share(F, g, loses, ties):
    """The gradient of the winner; equal elements take half each."""
    return F.where(loses, F.where(ties, g * 0.5, 0.0), g)


@binary(inplace=False, numbers="none")
def maximum(xp, input, other):
    """Larger one of two elements; NaN if either is.

    Equal elements share the gradient.

    >>> import plugrad as torch
    >>> torch.maximum(torch.tensor([1., 4.]), torch.tensor([2., 3.]))
    tensor([2., 4.])
    """
    _refuse_complex_order("maximum", input)
    return xp.maximum(input, other)


@maximum.vjp("input")
def maximum_vjp_input(F, g, input, other):
    return _share(F, g, input <= other, input == other)


@maximum.vjp("other")
def maximum_vjp_other(F, g, input, other):
    return _share(F, g, other <= input, input == other)


@binary(inplace=False, numbers="none")
def minimum(xp, input, other):
    """Smaller one of two elements; NaN if either is.

    Equal elements share the gradient.

    >>> import plugrad as torch
    >>> torch.minimum(torch.tensor([1., 4.]), torch.tensor([2., 3.]))
    tensor([1., 3.])
    """
    _refuse_complex_order("minimum", input)
    return xp.minimum(input, other)


@minimum.vjp("input")
def minimum_vjp_input(F, g, input, other):
    return _share(F, g, input >= other, input == other)


@minimum.vjp("other")
def minimum_vjp_other(F, g, input, other):
    return _share(F, g, other >= input, input == other)


@binary(inplace=False, numbers="none")
def fmax(xp, input, other):
    """Larger one of two elements; the other one where one is NaN.

    >>> import plugrad as torch
    >>> torch.fmax(torch.tensor([1., float("nan")]), torch.tensor([2., 3.]))
    tensor([2., 3.])
    """
    _refuse_complex_order("fmax", input)
    return xp.fmax(input, other)


@fmax.vjp("input")
def fmax_vjp_input(F, g, input, other):
    return F.where((input >= other) | (other != other), g, 0.0)


@fmax.vjp("other")
def fmax_vjp_other(F, g, input, other):
    return F.where((input >= other) | (other != other), 0.0, g)


@binary(inplace=False, numbers="none")
def fmin(xp, input, other):
    """Smaller one of two elements; the other one where one is NaN.

    >>> import plugrad as torch
    >>> torch.fmin(torch.tensor([1., float("nan")]), torch.tensor([2., 3.]))
    tensor([1., 3.])
    """
    _refuse_complex_order("fmin", input)
    return xp.fmin(input, other)


@fmin.vjp("input")
def fmin_vjp_input(F, g, input, other):
    return F.where((input <= other) | (other != other), g, 0.0)


@fmin.vjp("other")
def fmin_vjp_other(F, g, input, other):
    return F.where((input <= other) | (other != other), 0.0, g)


# ---------------------------------------------------------------- where


@elementwise(
    tensors=("condition", "input", "other"), same=("input", "other"), at=(), inplace=False, eight_bits=True, wraps=False
)  # fmt: skip
def where(xp, condition, input, other):
    """Elements of `input` where `condition` holds, of `other` elsewhere."""
    if condition.dtype.kind != "b":
        if str(condition.dtype) != "uint8":
            raise RuntimeError(
                "where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{condition.dtype}: write a comparison or condition.bool()"
            )
        condition = condition != 0
    _refuse_far(input, other)
    return xp.where(condition, input, other)


def _refuse_far(input, other):
    """Raise RuntimeError for a number beside an array whose elements can't be as large."""
    if is_number(other) and hasattr(input, "dtype"):
        fitted(input.dtype, other)
    elif is_number(input) and hasattr(other, "dtype"):
        fitted(other.dtype, input)


@where.kernel("cpu")
def where_cpu(xp, condition, input, other):
    # NumPy's `where` branches on every element: ten times slower than arithmetic when the condition is
    # irregular. An element's bits times the condition are kept or all cleared, without a branch.
    if condition.dtype.kind != "b":
        return where.kernels["*"](xp, condition, input, other)
    array = input if hasattr(input, "dtype") else other
    bits = _BITS.get(getattr(getattr(array, "dtype", None), "itemsize", 0))
    if bits is not None:
        if is_number(other) and other == 0:
            return (input.view(bits) * condition).view(input.dtype)
        if is_number(input) and input == 0:
            return (other.view(bits) * ~condition).view(other.dtype)
        _refuse_far(input, other)
        if condition.size >= 4096:
            input, other = (xp.asarray(value, array.dtype).view(bits) for value in (input, other))
            return (((input ^ other) * condition) ^ other).view(array.dtype)
    return xp.where(condition, input, other)


@where.kernel("cpu")
@native("choose", otherwise=where)
def where_in_c(call, xp, condition, input, other):
    sizes = getattr(input, "size", 0), getattr(other, "size", 0)
    if sizes[0] and other.__class__ in NUMBERS:
        return call(input, condition, False, True, other)
    if sizes[1] and input.__class__ in NUMBERS:
        return call(other, condition, True, True, input)
    if not all(sizes):
        return NotImplemented
    if sizes[0] >= sizes[1]:
        return call(input, other, condition, False, False)
    return call(other, input, condition, True, False)


@where.vjp("input")
def where_vjp_input(F, g, condition):
    return F.where(condition, g, 0.0)


@where.vjp("other")
def where_vjp_other(F, g, condition):
    return F.where(condition, 0.0, g)


@where.samples
def where_samples(make):
    yield make.bool(3, 1), make(3, 4), make(4)
    yield make.bool(3), make(3), 2.0


@composite(at=("where",), kinds={"input": "tensor|number...", "other": "tensor|number..."})
def where_or_nonzero(F, condition, input=LEFT_OUT, other=LEFT_OUT):
    """Elements of `input` where `condition` holds, of `other` elsewhere.

    Args:
        condition: bool tensor.
        input, other: tensors or numbers that broadcast with it. Without them the answer is
            `nonzero(condition, as_tuple=True)`.

    Errors: `RuntimeError` when `condition` is not bool.

    >>> import plugrad as torch
    >>> x = torch.tensor([-1., 2.])
    >>> torch.where(x > 0, x, 0), torch.where(x > 0)
    (tensor([0., 2.]), (tensor([1]),))
    """
    if input is other is LEFT_OUT:
        return F.nonzero(condition, as_tuple=True)
    if input is LEFT_OUT or other is LEFT_OUT:
        raise TypeError(
            "where() takes a condition alone, or a condition and both alternatives: where(condition, input, other)"
        )
    if is_number(input) and is_number(other):
        if isinstance(input + other, complex) or max(abs(input), abs(other)) > _FAR:  # the default dtype decides
            input, other = F.full((), input, device=condition.device), F.full((), other, device=condition.device)
    return F.where(condition, input, other)


@where_or_nonzero.samples
def where_or_nonzero_samples(make):
    yield make.bool(3, 4), make(3, 4), make(4)


@composite(at=("Tensor.where",), kinds={"other": "tensor|number"})
def where_method(F, input, condition, other):
    """The tensor's own elements where `condition` holds, those of `other` elsewhere.

    >>> import plugrad as torch
    >>> x = torch.tensor([-1., 2.])
    >>> x.where(x > 0, 7)
    tensor([7., 2.])
    """
    return F.where(condition, input, other)


@where_method.samples
def where_method_samples(make):
    yield make(3, 4), make.bool(3, 4), make(4)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
