"""Rounding, signs, and the parts of floating-point numbers."""

from __future__ import annotations

import math

from plugrad import bfloat16, finfo
from plugrad.extend import Op, binary, collect, conj, hookimpl, is_floating, is_half, is_integral, native, op, unary

from ._checks import BOOL, INTEGER, NOT_FLOATING, is_complex, is_number, refuse
from ._elements import of_elements


def _refuse_bool(name, input):
    refuse(BOOL, f"{name}_vml_cpu", input)
    if input.dtype.kind == "c":
        raise NotImplementedError(f"{name} is not supported for complex inputs")


# ---------------------------------------------------------------- rounding


@unary(promote="same")
def floor(xp, input):
    """Largest integer not above each element; its derivative is zero.

    >>> import plugrad as torch
    >>> torch.floor(torch.tensor([-1.5, 1.5]))
    tensor([-2.,  1.])
    """
    _refuse_bool("floor", input)
    return xp.floor(input)


of_elements(floor, "floor")


@floor.vjp
def floor_vjp(F, g):
    return F.zeros_like(g)


@unary(promote="same")
def ceil(xp, input):
    """Smallest integer not below each element; its derivative is zero.

    >>> import plugrad as torch
    >>> torch.ceil(torch.tensor([-1.5, 1.5]))
    tensor([-1.,  2.])
    """
    _refuse_bool("ceil", input)
    return xp.ceil(input)


of_elements(ceil, "ceil")


@ceil.vjp
def ceil_vjp(F, g):
    return F.zeros_like(g)


@unary(promote="same", aliases=("fix",))
def trunc(xp, input):
    """Integer part of each element; its derivative is zero.

    >>> import plugrad as torch
    >>> torch.trunc(torch.tensor([-1.5, 1.5]))
    tensor([-1.,  1.])
    """
    _refuse_bool("trunc", input)
    return xp.trunc(input)


of_elements(trunc, "trunc")


@trunc.vjp
def trunc_vjp(F, g):
    return F.zeros_like(g)


@unary(promote="same")
def frac(xp, input):
    """Fractional part of each element, with its sign.

    >>> import plugrad as torch
    >>> torch.frac(torch.tensor([-1.25, 1.5]))
    tensor([-0.2500,  0.5000])
    """
    refuse(NOT_FLOATING, "frac_cpu", input)
    return input - xp.trunc(input)


of_elements(frac, "frac")


@frac.vjp
def frac_vjp(F, g):
    return g


@unary(promote="same", aliases=("special.round",), node={"RoundBackward1": "decimals"})
def round(xp, input, *, decimals=0):
    """Each element rounded to the nearest number of so many decimals.

    Halves go to the even neighbour. The derivative is zero.

    Args:
        input: real tensor; integers only with `decimals=0`.
        decimals: number of decimal places; negative ones round left of the point.

    >>> import plugrad as torch
    >>> torch.round(torch.tensor([0.5, 1.5, 2.347])), torch.round(torch.tensor(2.347), decimals=1)
    (tensor([0., 2., 2.]), tensor(2.3000))
    """
    _refuse_bool("round", input)
    if decimals == 0:
        return xp.rint(input) if input.dtype.kind == "f" else input.copy()
    refuse(INTEGER, "round_cpu", input)
    scale = 10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf
    if decimals > 0:
        return xp.rint(input * scale) / scale
    return xp.rint(input / scale) * scale


@round.kernel("cpu")
@native("rint", otherwise=round, halves=True)
def round_in_c(call, xp, input, *, decimals=0):
    return call(input) if decimals.__class__ is int and decimals == 0 else NotImplemented


@round.vjp
def round_vjp(F, g):
    return F.zeros_like(g)


# ---------------------------------------------------------------- signs


@unary(promote="same")
def sign(xp, input):
    """Sign of each element: -1, 0 or 1; its derivative is zero.

    >>> import plugrad as torch
    >>> torch.sign(torch.tensor([-2., 0., 3.]))
    tensor([-1.,  0.,  1.])
    """
    if input.dtype.kind == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )
    if input.dtype.kind == "b":
        return input.copy()
    if input.dtype.kind == "f":
        return xp.where(input != input, 0, xp.sign(input))
    return xp.sign(input)


of_elements(sign, "sign")


@sign.vjp
def sign_vjp(F, g):
    return F.zeros_like(g)


@unary(promote="same")
def sgn(xp, input):
    """Sign of real elements; complex ones divided by their modulus.

    >>> import plugrad as torch
    >>> torch.sgn(torch.tensor([3 + 4j, 0]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """
    if input.dtype.kind != "c":
        return sign.kernels["*"](xp, input)
    modulus = xp.abs(input)
    return input / xp.where(modulus == 0, 1, modulus)


of_elements(sgn, "sign")


@sgn.vjp
def sgn_vjp(F, g, input, y):
    if not is_complex(input):
        return F.zeros_like(g)
    # Turning the argument of a complex number turns its sign; changing the modulus does nothing to it.
    modulus = F.abs(input)
    tangent = g - F.real(g * conj(F, y)) * y
    return tangent / F.where(modulus == 0, math.inf, modulus)


@unary(promote="bool", inplace=False)
def signbit(xp, input):
    """Where the sign bit of an element is set; it is for -0.0.

    >>> import plugrad as torch
    >>> torch.signbit(torch.tensor([-0.0, 0.0]))
    tensor([ True, False])
    """
    if input.dtype.kind == "c":
        raise NotImplementedError("signbit is not implemented for complex tensors.")
    return xp.signbit(input) if input.dtype.kind == "f" else xp.less(input, 0)


@binary(promote="float", complex=False, node={"CopysignBackward1": "not isinstance(other, Tensor)"})
def copysign(xp, input, other):
    """Magnitude of `input` with the sign of `other`.

    >>> import plugrad as torch
    >>> torch.copysign(torch.tensor([1., 2.]), torch.tensor([-0.0, 1.]))
    tensor([-1.,  2.])
    """
    return xp.copysign(input, other)


@copysign.vjp("input")
def copysign_vjp_input(F, g, input, y):
    return g * F.where(input == 0, 0.0, y / F.where(input == 0, 1.0, input))


@copysign.vjp("other")
def copysign_vjp_other(F, g):
    return F.zeros_like(g)


def _one_dtype(*operands):
    input, values = (dtype for dtype, _ in operands)
    if "complex" in f"{input}{values}":
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if input is not values:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


@binary(numbers="none", meet=_one_dtype)
def heaviside(xp, input, values):
    """Step function: 0 below zero, 1 above, `values` at zero.

    >>> import plugrad as torch
    >>> torch.heaviside(torch.tensor([-1., 0., 1.]), torch.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if input.dtype.kind == "c":
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    step = (input > 0).astype(input.dtype)
    return xp.where(input == 0, values, xp.where(input != input, 0, step))


@heaviside.vjp("input", "values")
def heaviside_vjp(F, g):
    raise NotImplementedError("heaviside has no gradient in PyTorch either; detach its arguments")


# ---------------------------------------------------------------- floating-point numbers


@binary(numbers="none", takes_half=True)
def nextafter(xp, input, other):
    """Next representable number after `input` towards `other`.

    >>> import plugrad as torch
    >>> torch.nextafter(torch.tensor(1.), torch.tensor(2.)) - 1 == torch.finfo(torch.float32).eps
    tensor(True)
    """
    refuse(NOT_FLOATING, "nextafter_cpu", input, other)
    return xp.nextafter(input, other)


@nextafter.vjp("input")
def nextafter_vjp_input(F, g, input, other):
    return F.where(input == other, 0.0, g)  # equal ones give `other`


@nextafter.vjp("other")
def nextafter_vjp_other(F, g):
    return F.zeros_like(g)


@binary(promote="float", numbers="none")
def ldexp(xp, input, other):
    """`input * 2 ** other`.

    >>> import plugrad as torch
    >>> torch.ldexp(torch.tensor([1.]), torch.tensor([3]))
    tensor([8.])
    """
    return xp.multiply(input, xp.power(2.0, other))


@ldexp.vjp("input")
def ldexp_vjp_input(F, g, other):
    return g * (2.0**other if is_number(other) else conj(F, F.pow(2.0, other)))


@ldexp.vjp("other")
def ldexp_vjp_other(F, g, y):
    return g * (conj(F, y) * math.log(2))


@op(returns="mantissa exponent")
def frexp(xp, input):
    """Mantissa in [0.5, 1) and integer exponent of two of each element.

    >>> import plugrad as torch
    >>> torch.frexp(torch.tensor([8., 3.]))
    torch.return_types.frexp(
    mantissa=tensor([0.5000, 0.7500]),
    exponent=tensor([4, 2], dtype=torch.int32))
    """
    if not is_floating(input.dtype):
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    single = is_half(input.dtype)  # which array libraries' frexp of bfloat16 is not
    mantissa, exponent = xp.frexp(input.astype("float32") if single else input)
    return mantissa.astype(input.dtype) if single else mantissa, exponent.astype("int32")


@frexp.vjp
def frexp_vjp(F, g, y1):
    return g[0] * F.pow(2.0, -y1)


@frexp.meta
def frexp_meta(input):
    return [(input.shape, input.dtype), (input.shape, "int32")]


@frexp.samples
def number_samples(make):
    yield make(3, 4)


@op(at=("nan_to_num", "Tensor.nan_to_num"), inplace=True, like="input")
def nan_to_num(xp, input, nan=None, posinf=None, neginf=None):
    """NaN and infinities replaced by finite numbers.

    Args:
        input: tensor; only floats hold such values.
        nan: replacement for NaN, 0 by default.
        posinf, neginf: replacements for the infinities, the ends of the dtype's range by default.

    >>> import plugrad as torch
    >>> torch.nan_to_num(torch.tensor([float("nan"), float("inf"), 1.]), posinf=9.)
    tensor([0., 9., 1.])
    """
    if is_integral(input.dtype):
        return input.copy()
    if input.dtype.kind == "c":
        output = xp.empty(input.shape, input.dtype)
        output.real = nan_to_num.kernels["*"](xp, input.real, nan, posinf, neginf)
        output.imag = nan_to_num.kernels["*"](xp, input.imag, nan, posinf, neginf)
        return output
    largest = finfo(bfloat16).max if input.dtype.kind == "V" else xp.finfo(input.dtype).max
    finite = xp.where(input != input, 0.0 if nan is None else nan, input)
    finite = xp.where(input == math.inf, largest if posinf is None else posinf, finite)
    finite = xp.where(input == -math.inf, -largest if neginf is None else neginf, finite)
    return finite.astype(input.dtype, copy=False)


@nan_to_num.kernel("cpu")
@native("nan_to_num", otherwise=nan_to_num)
def nan_to_num_in_c(call, xp, input, nan=None, posinf=None, neginf=None):
    if input.dtype.kind != "f":
        return NotImplemented
    largest = float(xp.finfo(input.dtype).max)
    given = (0.0 if nan is None else nan, largest if posinf is None else posinf, -largest if neginf is None else neginf)
    return call(input, *given)


@nan_to_num.vjp
def nan_to_num_vjp(F, g, input):
    return F.where(F.isfinite(input), g, 0.0)


nan_to_num.samples(number_samples)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
