"""Powers and roots."""

from __future__ import annotations

import cmath
import math

import plugrad
from plugrad.extend import (
    Op,
    binary,
    collect,
    composite,
    conj,
    hookimpl,
    is_half,
    is_integer,
    is_single_or_double,
    native_function,
    unary,
)

from ._checks import BOOL, fitted, is_number, refuse
from ._elements import of_elements


@composite(inplace=True)
def square(F, input):
    """Square of each element.

    >>> import plugrad as torch
    >>> torch.square(torch.tensor([-2., 3.]))
    tensor([4., 9.])
    """
    return F.pow(input, 2)


@square.writer
def square_into(xp, out):
    return xp.multiply(out, out, out) if is_single_or_double(out.dtype) else NotImplemented


@square.samples
def square_samples(make):
    yield make(3, 4)


@unary()
def sqrt(xp, input):
    """Square root of each element; NaN where negative.

    >>> import plugrad as torch
    >>> torch.sqrt(torch.tensor([4., 9.]))
    tensor([2., 3.])
    """
    return xp.sqrt(input)


@sqrt.vjp
def sqrt_vjp(F, g, y):
    return g / (conj(F, y) * 2)


@sqrt.samples
def sqrt_samples(make):
    yield make(3, 4, low=0.1, high=3)
    yield make(low=0.1, high=3)


@unary(autocast={"cuda": "float32"})
def rsqrt(xp, input):
    """One divided by the square root of each element.

    >>> import plugrad as torch
    >>> torch.rsqrt(torch.tensor([4., 16.]))
    tensor([0.5000, 0.2500])
    """
    return xp.true_divide(1, xp.sqrt(input))


of_elements(rsqrt, "rsqrt", halves=False)


rsqrt.samples(sqrt_samples)


@rsqrt.vjp
def rsqrt_vjp(F, g, y):
    return g * (conj(F, y * y * y) * -0.5)


@binary(
    numbers="both", autocast={"cuda": "float32"}, wraps=None, fits=("exponent",), takes_half=True,
    node={"PowBackward1": "isinstance(exponent, Tensor)", "PowBackward2": "not isinstance(input, Tensor)"},
)  # fmt: skip
def pow(xp, input, exponent):
    """Each element of `input` raised to a power.

    Args:
        input: tensor, or a number when `exponent` is a tensor.
        exponent: number or tensor; the two broadcast together.

    Errors: `RuntimeError` for a negative integer exponent of an integer tensor.

    >>> import plugrad as torch
    >>> torch.pow(torch.tensor([2., 3.]), 2), 2 ** torch.tensor([1., 3.])
    (tensor([4., 9.]), tensor([2., 8.]))
    """
    if is_number(exponent):
        return _pow_number(xp, input, exponent)
    refuse(BOOL, "pow", exponent)
    if exponent.dtype.itemsize == 2 and is_half(exponent.dtype):
        return _pow_halves(xp, input, exponent, exponent.dtype)
    if isinstance(input, int) and is_integer(exponent.dtype):
        input = xp.asarray(input).astype(exponent.dtype)  # which wraps around, as in PyTorch
    if exponent.dtype.kind == "i" and not isinstance(input, float):
        return _pow_integers(xp, input, exponent)
    return _power(xp, input, exponent)


def _power(xp, input, exponent):
    """Powers with an array above. NumPy takes square roots where one exponent is for several elements."""
    result = xp.power(input, exponent)
    if exponent.dtype.kind != "f" or exponent.size == result.size > 1 and 0 not in exponent.strides:
        return result
    if xp.__name__ == "numpy" and not (exponent.item() == 0.5 if exponent.size == 1 else (exponent == 0.5).any()):
        return result
    return xp.where(exponent == 0.5, _half_power(xp, input), result)


def _half_power(xp, input):
    """The power 1/2, which unlike the square root is 0 for -0, and infinity for minus infinity (IEEE 754, pow)."""
    return xp.sqrt(xp.where((input == 0) | xp.isinf(input), xp.abs(input), input))


def _pow_halves(xp, input, exponent, dtype):
    """Computed in float32; float16 is given no square roots, as in PyTorch."""
    input, exponent = (one if is_number(one) else one.astype("float32") for one in (input, exponent))
    if dtype == "float16" and is_number(exponent) and abs(exponent) == 0.5:
        power = _half_power(xp, input)
        return (power if exponent > 0 else xp.true_divide(1, power)).astype(dtype)
    return pow.kernels["*"](xp, input, exponent).astype(dtype)


@pow.samples
def pow_samples(make):
    for exponent in (0, 1, 2, 3, -1, 0.5, -0.5, 2.5):
        yield make(3, low=0.2, high=3), exponent
    yield make(3, 1, low=0.2, high=3), make(2)
    yield 2.0, make(3)


_cube = native_function("cube", lambda input: input * input * input)


def _pow_number(xp, input, exponent):
    """Powers with a number above; the usual ones without the power function, which is ten times slower."""
    if exponent == 2:
        return xp.multiply(input, input)
    if input.dtype.itemsize == 2 and is_half(input.dtype):
        return _pow_halves(xp, input, exponent, input.dtype)
    if exponent == 3:
        in_c = xp.__name__ == "numpy" and type(input) is xp.ndarray  # a capture's arrays have no values
        return _cube(input) if in_c else xp.multiply(xp.multiply(input, input), input)
    if isinstance(exponent, bool) and input.dtype.kind == "b":
        return xp.power(input.astype("int8"), exponent).astype(input.dtype)
    refuse(BOOL, "pow", input)
    if is_integer(input.dtype):
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return xp.power(input, fitted(input.dtype, exponent))
    if exponent == 0.5:
        return xp.sqrt(input)
    if exponent == -0.5:
        return xp.true_divide(1, xp.sqrt(input))
    if exponent == -1:
        return xp.true_divide(1, input)
    return xp.power(input, exponent)


def _pow_integers(xp, input, exponent):
    """Integer powers; below zero only 1 and -1 have integer reciprocals, all else is 0."""
    power = xp.power(input, xp.maximum(exponent, 0))
    odd = xp.bitwise_and(exponent, 1)
    inverse = xp.where(xp.equal(input, 1), 1, xp.where(xp.equal(input, -1), 1 - 2 * odd, 0))
    return xp.where(exponent < 0, inverse, power).astype(power.dtype)


@composite(kinds={"input": "tensor|number", "exponent": "tensor|number"})
def float_power(F, input, exponent):
    """Powers computed in float64, or in complex128 where an operand is complex.

    >>> import plugrad as torch
    >>> torch.float_power(torch.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=torch.float64)
    """
    double = _double(input, exponent)
    return F.pow(_to(input, double), _to(exponent, double))


@float_power.samples
def float_power_samples(make):
    yield make(3, 4, low=0.5, high=2), make(4)
    yield make.ints(3), 2


@composite(name="float_power_in_place", at=("Tensor.float_power_",), kinds={"exponent": "tensor|number"})
def float_power_(F, input, exponent):
    """In-place form of `float_power`, for float64 and complex128 tensors.

    >>> import plugrad as torch
    >>> torch.tensor([2., 3.], dtype=torch.float64).float_power_(2)
    tensor([4., 9.], dtype=torch.float64)
    """
    double = _double(input, exponent)
    if input.dtype is not double:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {input.dtype} but the operation's result requires dtype {double}"
        )
    return input.pow_(_to(exponent, double))


@float_power_.samples
def float_power_in_place_samples(make):
    yield make.on_copy(make(3, 4, low=0.5, high=2), 1.5)


def _double(*operands):
    for operand in operands:
        if isinstance(operand, complex) or isinstance(operand, plugrad.Tensor) and operand.is_complex():
            return plugrad.complex128
    return plugrad.float64


def _to(operand, dtype):
    if isinstance(operand, plugrad.Tensor):
        return operand.to(dtype)
    return complex(operand) if dtype.is_complex else float(operand)


@pow.vjp("input")
def pow_vjp_input(F, g, input, exponent):
    if not is_number(exponent):
        flat = exponent == 0
        # Masked before the product, too: the derivative by `g` must not meet what is left out, which may be NaN.
        slope = F.where(flat, 0.0, conj(F, exponent * F.pow(input, exponent - 1)))
        return F.where(flat, 0.0, g * slope)
    if exponent == 2:
        return g * (conj(F, input) * 2)
    if exponent == 0:
        return F.zeros_like(g)
    return g * conj(F, F.pow(input, exponent - 1) * exponent)


@pow.vjp("exponent")
def pow_vjp_exponent(F, g, input, exponent, y):
    flat = F.real(exponent) >= 0
    if is_number(input):
        return g * conj(F, y * _log_number(input, exponent)) if input != 0 else F.where(flat, 0.0, g * y * -math.inf)
    flat = (input == 0) & flat
    return F.where(flat, 0.0, g * F.where(flat, 0.0, conj(F, y * F.log(input))))


def _log_number(number, exponent):
    dtype = exponent.dtype
    if isinstance(number, complex) or (dtype.is_complex if isinstance(dtype, plugrad.dtype) else dtype.kind == "c"):
        return cmath.log(number)
    return math.log(number) if number > 0 else math.nan


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
