"""Quotients and remainders."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.extend import (
    Op,
    binary,
    collect,
    composite,
    conj,
    elementwise,
    hookimpl,
    is_integer,
    is_integral,
    is_single_or_double,
    native,
    refuse_where,
    unary,
)  # fmt: skip

from ._checks import BOOL_OR_COMPLEX, fitted, refuse
from ._elements import of_elements


def _check_divisor(xp, input, other):
    """Integer division by zero is an error; NumPy would answer 0."""
    if hasattr(other, "dtype"):
        if is_integer(other.dtype):
            refuse_where(xp, other == 0, lambda: RuntimeError("ZeroDivisionError"))
    elif not other and is_integer(xp.asarray(input).dtype):
        raise RuntimeError("ZeroDivisionError")


@binary(
    promote="float", name="div", at=("true_divide", "Tensor.true_divide"), numbers="any", exact=("input", "other")
)
def true_divide(xp, input, other):
    """Quotient of two tensors; of integers it is a float.

    >>> import plugrad as torch
    >>> torch.true_divide(torch.tensor([1, 2]), 2)
    tensor([0.5000, 1.0000])
    """
    return xp.true_divide(input, other)


@true_divide.vjp("input")
def true_divide_vjp_input(F, g, other):
    return g / conj(F, other)


@true_divide.vjp("other")
def true_divide_vjp_other(F, g, input, other):
    return -g * conj(F, input / other / other)


@composite(
    name="div_rounded",
    at=("div", "divide", "Tensor.div", "Tensor.divide"),
    inplace=True,
    kinds={"input": "tensor|number", "other": "tensor|number"},
)
def div(F, input, other, *, rounding_mode=None):
    """Quotient of two tensors, optionally rounded.

    Args:
        input, other: tensors or numbers that broadcast together.
        rounding_mode: None (true division), "trunc" (towards zero) or "floor" (downwards).

    >>> import plugrad as torch
    >>> torch.div(torch.tensor([-7., 7.]), 2, rounding_mode="trunc")
    tensor([-3.,  3.])
    """
    if rounding_mode is None:
        return F.div(input, other)
    if rounding_mode == "floor":
        return F.div_floor(input, other)
    if rounding_mode == "trunc":
        return F.div_trunc(input, other)
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")


@div.writer
def div_into(xp, out, other, rounding_mode):
    dtype = out.dtype
    if rounding_mode is not None or not is_single_or_double(dtype) or getattr(other, "dtype", dtype) != dtype:
        return NotImplemented
    try:
        xp.true_divide(out, other, out)
    except RuntimeWarning:  # made an error by the user; all is written
        return out


@div.samples
def div_rounded_samples(make):
    yield make.args(make(3, 4), make(4, low=0.5, high=3), rounding_mode="floor")
    yield make.args(make(3, 4), make(4, low=0.5, high=3), rounding_mode="trunc")
    yield make(3, 4), make(4, low=0.5, high=3)


def _floored(xp, input, other):
    refuse(BOOL_OR_COMPLEX, "div_floor_cpu", input, other)
    _check_divisor(xp, input, other)
    return xp.floor_divide(input, other)


@binary(at=(), inplace=False, node="DivBackward2", numbers="any", exact=("other",))
def div_floor(xp, input, other):
    """Quotient of two tensors rounded downwards."""
    return _floored(xp, input, other)


def _pair(xp, input, other):
    """Return both as arrays; of a number, one of the other's type."""
    if hasattr(other, "dtype"):
        return input if hasattr(input, "dtype") else xp.asarray(input, other.dtype), other
    return input, xp.asarray(other, input.dtype) if hasattr(input, "dtype") else other


@div_floor.kernel("cpu")
@native("floor_divide", otherwise=div_floor, integers=True)
def div_floor_in_c(call, xp, input, other):
    return call(*_pair(xp, input, other))


@div_floor.vjp("input", "other")
def div_floor_vjp(F, g, input, other):  # as in PyTorch both are kept, though steps have no slope
    return F.zeros_like(g), F.zeros_like(g)


@binary(node="NotImplemented", numbers="any", exact=("other",))
def floor_divide(xp, input, other):
    """Quotient of two tensors rounded downwards; integers stay integers.

    It has no gradient, as in PyTorch; `div(..., rounding_mode="floor")` has one of zeros.

    Errors: `RuntimeError` when an integer is divided by zero.

    >>> import plugrad as torch
    >>> torch.floor_divide(torch.tensor([-7, 7]), 2)
    tensor([-4,  3])
    """
    return _floored(xp, input, other)


@floor_divide.kernel("cpu")
@native("floor_divide", otherwise=floor_divide, integers=True)
def floor_divide_in_c(call, xp, input, other):
    return call(*_pair(xp, input, other))


@floor_divide.vjp("input", "other")
def floor_divide_vjp(F, g):
    raise NotImplementedError(
        "derivative for aten::floor_divide is not implemented, in PyTorch neither: detach() its arguments, or write "
        'div(input, other, rounding_mode="floor"), whose gradient is zero'
    )


@composite(name="rdiv", at=("Tensor.__rdiv__",), kinds={"other": "any"})
def rdiv(F, input, other=NotImplemented):
    """Quotient `other / input`, as Python 2 called the operator for it.

    What is neither a tensor nor a number gives `NotImplemented`, as operators do.

    >>> import plugrad as torch
    >>> torch.tensor([2., 4.]).__rdiv__(8)
    tensor([4., 2.])
    """
    if not isinstance(other, (plugrad.Tensor, int, float, complex, numpy.generic)):
        return NotImplemented
    return F.mul(F.reciprocal(input), other)


@rdiv.samples
def rdiv_samples(make):
    yield make(3, 4, low=0.5, high=3), make(4)


@binary(at=(), inplace=False, node="DivBackward2", numbers="any", takes_half=True, exact=("input", "other"))
def div_trunc(xp, input, other):
    """Quotient of two tensors rounded towards zero.

    In half precision it is the quotient as it is rounded there that is truncated.
    """
    refuse(BOOL_OR_COMPLEX, "div_trunc_cpu", input, other)
    if not hasattr(input, "dtype") and not hasattr(other, "dtype"):  # torch.div(7, 2, rounding_mode="trunc")
        input = xp.asarray(input)
    dtype = (input if hasattr(input, "dtype") else other).dtype
    if not is_integral(dtype):
        return xp.trunc(xp.true_divide(input, other))
    _check_divisor(xp, input, other)
    quotient = xp.floor_divide(input, other)
    if dtype.kind == "u":
        return quotient
    inexact = xp.multiply(quotient, other) != input
    return quotient + (inexact & (quotient < 0)).astype(quotient.dtype)


@div_trunc.vjp("input", "other")
def div_trunc_vjp(F, g, input, other):
    return F.zeros_like(g), F.zeros_like(g)


@binary(numbers="both", node={"RemainderBackward1": "isinstance(other, Tensor)"})
def remainder(xp, input, other):
    """Remainder of the division rounded downwards: the sign is that of `other`.

    Errors: `RuntimeError` when an integer is divided by zero.

    >>> import plugrad as torch
    >>> torch.remainder(torch.tensor([-3., 3.]), 2)
    tensor([1., 1.])
    """
    refuse(BOOL_OR_COMPLEX, "remainder_cpu", input, other)
    _check_divisor(xp, input, other)
    result = xp.remainder(input, other)
    if result.dtype.kind != "f":
        return result
    return xp.where(result == 0, xp.copysign(result, input), result)  # NumPy gives zero the sign of `other`


@remainder.kernel("cpu")
@native("remainder", otherwise=remainder, integers=True)
def remainder_in_c(call, xp, input, other):
    return call(*_pair(xp, input, other))


@remainder.vjp("input")
def remainder_vjp_input(F, g):
    return g


@remainder.vjp("other")
def remainder_vjp_other(F, g, input, other):
    return -g * F.div_floor(input, other)


@binary(node={"FmodBackward1": "isinstance(other, Tensor)"})
def fmod(xp, input, other):
    """Remainder of the division rounded towards zero: the sign is that of `input`.

    Errors: `RuntimeError` when an integer is divided by zero.

    >>> import plugrad as torch
    >>> torch.fmod(torch.tensor([-3., 3.]), 2)
    tensor([-1.,  1.])
    """
    refuse(BOOL_OR_COMPLEX, "fmod_cpu", input, other)
    _check_divisor(xp, input, other)
    return xp.fmod(input, other)


@fmod.kernel("cpu")
@native("fmod", otherwise=fmod, integers=True)
def fmod_in_c(call, xp, input, other):
    return call(*_pair(xp, input, other))


@fmod.vjp("input")
def fmod_vjp_input(F, g):
    return g


@fmod.vjp("other")
def fmod_vjp_other(F, g, input, other):
    return -g * F.div_trunc(input, other)


def _no_integers(*operands):
    if not any(dtype.is_floating_point or dtype.is_complex for dtype, _ in operands[1:]):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported: it would truncate. Write "
            "(input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for that, or give "
            "float tensors."
        )


@elementwise(
    tensors=("input", "tensor1", "tensor2"), kinds={"tensor1": "tensor", "tensor2": "tensor"}, meet=_no_integers,
    autocast={"cuda": "promote"}, older=("value",),
)  # fmt: skip
def addcdiv(xp, input, tensor1, tensor2, *, value=1):
    """`input + value * tensor1 / tensor2` for float tensors.

    >>> import plugrad as torch
    >>> torch.addcdiv(torch.ones(2), torch.tensor([1., 2.]), torch.tensor([4., 4.]), value=2)
    tensor([1.5000, 2.0000])
    """
    quotient = xp.true_divide(tensor1, tensor2)
    return xp.add(input, quotient if value == 1 else fitted(input.dtype, value) * quotient)


@addcdiv.kernel("cpu")
@native("addcdiv", otherwise=addcdiv)
def addcdiv_in_c(call, xp, input, tensor1, tensor2, *, value=1):
    return call(input, tensor1, tensor2, value) if input.shape == tensor1.shape == tensor2.shape else NotImplemented


@addcdiv.vjp("input")
def addcdiv_vjp_input(F, g):
    return g


@addcdiv.vjp("tensor1")
def addcdiv_vjp_tensor1(F, g, tensor2, value):
    return g * conj(F, value / tensor2)


@addcdiv.vjp("tensor2")
def addcdiv_vjp_tensor2(F, g, tensor1, tensor2, value):
    return -g * conj(F, value * tensor1 / (tensor2 * tensor2))


@unary(autocast={"cuda": "float32"})
def reciprocal(xp, input):
    """One divided by each element.

    >>> import plugrad as torch
    >>> torch.reciprocal(torch.tensor([2., 4.]))
    tensor([0.5000, 0.2500])
    """
    return xp.true_divide(1, input)


of_elements(reciprocal, "reciprocal")


@reciprocal.vjp
def reciprocal_vjp(F, g, y):
    return -g * conj(F, y * y)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
