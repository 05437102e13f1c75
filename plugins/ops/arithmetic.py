"""Sums, differences and products, signs, and what lies between two tensors."""

from __future__ import annotations

import numpy

from plugrad.extend import (
    Op,
    binary,
    collect,
    composite,
    conj,
    elementwise,
    hookimpl,
    is_integer,
    is_single_or_double,
    native,
    native_function,
    unary,
)

from ._checks import BOOL, INTEGER, INTEGRAL, fitted, is_number, number, refuse

_ONE = 1  # an alpha that is this very int scales nothing; True and 1.0 have to be looked at


def _check_alpha(array, alpha):
    kind = getattr(getattr(array, "dtype", None), "kind", "c")
    alpha = number(alpha)
    if (kind in INTEGER or kind == "b") and isinstance(alpha, (float, complex)):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if kind != "c" and isinstance(alpha, complex):
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if kind != "b" and isinstance(alpha, bool):
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if kind == "b":
        return bool(alpha)
    if kind == "c" and isinstance(alpha, int):  # NumPy multiplies as int64
        alpha = float(alpha) if hasattr(array, "dtype") else alpha
    return fitted(array.dtype, alpha) if hasattr(array, "dtype") else alpha


def _scaled(xp, input, other, alpha):
    """`alpha * other`, with PyTorch's rules on which numbers may scale which dtypes."""
    array = input if hasattr(input, "dtype") else other
    scaled = xp.multiply(other, _check_alpha(array, alpha))
    # Of two numbers one, whose dtype counts for nothing; integers go through int64, which wraps around.
    keeps = hasattr(other, "dtype") or hasattr(array, "dtype") and is_integer(array.dtype)
    return scaled if keeps else scaled.item()


_add_scaled = native_function("add_scaled", lambda *call: NotImplemented)
_add_scaled_over = native_function("add_scaled", lambda *call: NotImplemented, over=True)


def _in_c(function, xp, input, other, alpha, sign=1):
    """The sum of arrays of one shape, the second one times a number, in one pass; NotImplemented for others."""
    if alpha.__class__ not in (int, float) or xp.__name__ != "numpy":
        return NotImplemented
    same = getattr(input, "shape", None) == getattr(other, "shape", NotImplemented)
    return function(input, other, sign * alpha) if same else NotImplemented


def _over(xp, combine, out, other, alpha, sign):
    """Write `out`, plus or minus `alpha * other`, over `out`; NotImplemented where the general path has to look."""
    if alpha.__class__ not in (int, float) or not is_single_or_double(out.dtype):
        return NotImplemented
    if _in_c(_add_scaled_over, xp, out, other, alpha, sign) is NotImplemented:
        with numpy.errstate(all="ignore"):
            combine(out, xp.multiply(other, fitted(out.dtype, alpha)), out)


# ---------------------------------------------------------------- sums


@binary(numbers="any", older=("alpha",), fits=("alpha",))
def add(xp, input, other, *, alpha=1):
    """Sum of two tensors, the second one scaled: `input + alpha * other`.

    Args:
        input, other: tensors or numbers that broadcast together.
        alpha: number that scales `other`.

    Errors: `RuntimeError` for a float `alpha` with integer tensors.

    >>> import plugrad as torch
    >>> torch.add(torch.tensor([1., 2.]), 1, alpha=10)
    tensor([11., 12.])
    """
    if alpha is _ONE:
        return xp.add(input, other)
    result = _in_c(_add_scaled, xp, input, other, alpha)
    return xp.add(input, _scaled(xp, input, other, alpha)) if result is NotImplemented else result


@add.writer
def add_into(xp, out, other, alpha):
    return _over(xp, xp.add, out, other, alpha, 1)


@add.vjp("input")
def add_vjp_input(F, g):
    return g


@add.vjp("other")
def add_vjp_other(F, g, alpha):
    return g if alpha == 1 else g * conj(F, alpha)


def _not_bool(*operands):
    dtypes = [dtype for dtype, _ in operands]
    if "bool" in [dtype.name for dtype in dtypes]:
        if dtypes[0] is dtypes[1]:
            raise RuntimeError(
                "Subtraction, the `-` operator, with two bool tensors is not supported. "
                "Use the `^` or `logical_xor()` operator instead."
            )
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )


@binary(aliases=("subtract",), meet=_not_bool, numbers="any", older=("alpha",), fits=("alpha",))
def sub(xp, input, other, *, alpha=1):
    """Difference of two tensors: `input - alpha * other`.

    Args:
        input, other: tensors or numbers that broadcast together; not bool.
        alpha: number that scales `other`.

    >>> import plugrad as torch
    >>> torch.tensor([3., 2.]) - 1
    tensor([2., 1.])
    """
    if alpha is _ONE:
        return xp.subtract(input, other)
    result = _in_c(_add_scaled, xp, input, other, alpha, -1)
    return xp.subtract(input, _scaled(xp, input, other, alpha)) if result is NotImplemented else result


@sub.writer
def sub_into(xp, out, other, alpha):
    return _over(xp, xp.subtract, out, other, alpha, -1)


@sub.vjp("input")
def sub_vjp_input(F, g):
    return g


@sub.vjp("other")
def sub_vjp_other(F, g, alpha):
    return -g if alpha == 1 else g * -conj(F, alpha)


@binary(
    inplace=False, at=("rsub",), node="RsubBackward0", meet=_not_bool, fits=("alpha",), ordered_by=("other", "input")
)  # fmt: skip
def rsub(xp, input, other, *, alpha=1):
    """Difference with its operands exchanged: `other - alpha * input`.

    >>> import plugrad as torch
    >>> torch.rsub(torch.tensor([1., 2.]), 10)
    tensor([9., 8.])
    """
    return xp.subtract(other, input if alpha is _ONE else _scaled(xp, other, input, alpha))


@rsub.vjp("input")
def rsub_vjp_input(F, g, alpha):
    return -g if alpha == 1 else g * -conj(F, alpha)


@rsub.vjp("other")
def rsub_vjp_other(F, g):
    return g


# ---------------------------------------------------------------- products


@binary(aliases=("multiply",), numbers="any", exact=("input", "other"))
def mul(xp, input, other):
    """Product of two tensors, element by element.

    >>> import plugrad as torch
    >>> torch.tensor([1., 2.]) * torch.tensor([[3.], [4.]])
    tensor([[3., 6.],
            [4., 8.]])
    """
    return xp.multiply(input, other)


@mul.vjp("input")
def mul_vjp_input(F, g, other):
    return g * conj(F, other)


@mul.vjp("other")
def mul_vjp_other(F, g, input):
    return g * conj(F, input)


@elementwise(
    tensors=("input", "tensor1", "tensor2"), kinds={"tensor1": "tensor", "tensor2": "tensor"},
    autocast={"cuda": "promote"}, older=("value",),
)  # fmt: skip
def addcmul(xp, input, tensor1, tensor2, *, value=1):
    """`input + value * tensor1 * tensor2`.

    >>> import plugrad as torch
    >>> torch.addcmul(torch.ones(2), torch.tensor([1., 2.]), torch.tensor([3., 4.]), value=2)
    tensor([ 7., 17.])
    """
    refuse(BOOL, "addcmul_cpu_out", input)
    product = xp.multiply(tensor1, tensor2)
    return xp.add(input, product if value == 1 else fitted(input.dtype, value) * product)


@addcmul.kernel("cpu")
@native("addcmul", otherwise=addcmul)
def addcmul_in_c(call, xp, input, tensor1, tensor2, *, value=1):
    return call(input, tensor1, tensor2, value) if input.shape == tensor1.shape == tensor2.shape else NotImplemented


@addcmul.vjp("input")
def addcmul_vjp_input(F, g):
    return g


@addcmul.vjp("tensor1")
def addcmul_vjp_tensor1(F, g, tensor2, value):
    return g * conj(F, tensor2 if value == 1 else tensor2 * value)


@addcmul.vjp("tensor2")
def addcmul_vjp_tensor2(F, g, tensor1, value):
    return g * conj(F, tensor1 if value == 1 else tensor1 * value)


# ---------------------------------------------------------------- signs


@unary(promote="same", aliases=("negative",))
def neg(xp, input):
    """Each element with its sign changed.

    >>> import plugrad as torch
    >>> -torch.tensor([1., -2.])
    tensor([-1.,  2.])
    """
    try:
        return xp.negative(input)
    except TypeError as error:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        ) from error


@neg.vjp
def neg_vjp(F, g):
    return -g


@composite(kinds={"input": "tensor"})
def positive(F, input):
    """The tensor itself: the unary `+` operator, for all dtypes but bool.

    >>> import plugrad as torch
    >>> +torch.tensor([1., -2.])
    tensor([ 1., -2.])
    """
    if str(input.dtype).endswith("bool"):
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@positive.samples
def positive_samples(make):
    yield make(3, 4)


@unary(promote="same", aliases=("absolute",), eight_bits=True)
def abs(xp, input):
    """Absolute value of each element; the modulus of complex ones.

    The derivative at zero is zero.

    >>> import plugrad as torch
    >>> torch.abs(torch.tensor([-2., 3.]))
    tensor([2., 3.])
    """
    refuse(BOOL, "abs_cpu", input)
    return xp.abs(input)


@abs.vjp
def abs_vjp(F, g, input):
    return g * F.sgn(input)


# ---------------------------------------------------------------- between two tensors


def _one_dtype(input, end, weight):
    (dtype, _), (weights, rank) = input, weight
    for name, other in {"end": end[0], "weight": weights if rank == "dim" else dtype}.items():
        if other is not dtype:
            raise RuntimeError(
                f"expected dtype {dtype.name} for `{name}` but got dtype {other.name}; convert one with .to()"
            )
    if rank == "scalar" and not (dtype.is_floating_point or dtype.is_complex):
        raise NotImplementedError(f"\"lerp_kernel_scalar\" not implemented for '{dtype._label}'; write .float()")
    if rank == "scalar" and weights.is_complex and not dtype.is_complex:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: the weight is complex")


@elementwise(
    tensors=("input", "end", "weight"), kinds={"end": "tensor"}, meet=_one_dtype, exact=("weight",),
    node={"LerpBackward1": "isinstance(weight, Tensor)"},
)  # fmt: skip
def lerp(xp, input, end, weight):
    """Linear interpolation `input + weight * (end - input)`.

    Args:
        input, end: float tensors of one dtype.
        weight: tensor or number; 0 gives `input`, 1 gives `end`.

    >>> import plugrad as torch
    >>> torch.lerp(torch.tensor([1., 2.]), torch.tensor([3., 4.]), 0.5)
    tensor([2., 3.])
    """
    refuse(INTEGRAL, "lerp_kernel_scalar" if is_number(weight) else "lerp_kernel_tensor", input)
    span = xp.subtract(end, input)
    if is_number(weight):
        weight = fitted(input.dtype, weight)
    if isinstance(weight, (int, float)):
        return input + weight * span if -0.5 < weight < 0.5 else end - span * (1 - weight)
    # From the nearer end, so that a weight of 1 gives `end` exactly.
    from_start, from_end = input + weight * span, end - span * (1 - weight)
    return xp.where(xp.abs(weight) < 0.5, from_start, from_end)


_lerp_by = native_function("lerp_by", lambda *call: NotImplemented)


@lerp.kernel("cpu")
@native("lerp", otherwise=lerp)
def lerp_in_c(call, xp, input, end, weight):
    if is_number(weight):
        return call(input, end, weight) if input.shape == end.shape else NotImplemented
    return _lerp_by(input, end, weight) if input.shape == end.shape == weight.shape else NotImplemented


@lerp.samples
def lerp_samples(make):
    yield make(3, 4), make(3, 4), make(3, 4)
    yield make(3, 4), make(4), make(3, 1)
    yield make(3, 4), make(3, 4), 0.25
    yield make(3, 4), make(3, 4), 0.75


@lerp.vjp("input")
def lerp_vjp_input(F, g, weight):
    return g * (1 - conj(F, weight))


@lerp.vjp("end")
def lerp_vjp_end(F, g, weight):
    return g * conj(F, weight)


@lerp.vjp("weight")
def lerp_vjp_weight(F, g, input, end):
    return g * conj(F, end - input)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
