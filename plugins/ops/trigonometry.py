"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

import math

from plugrad.extend import Op, binary, collect, complement, conj, hookimpl, unary

from ._checks import COMPLEX, INTEGRAL, is_complex, refuse
from ._elements import of_elements

# ---------------------------------------------------------------- trigonometric


@unary()
def sin(xp, input):
    """Sine of each element, in radians.

    >>> import plugrad as torch
    >>> torch.sin(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8415])
    """
    return xp.sin(input)


of_elements(sin, "sin")


@sin.vjp
def sin_vjp(F, g, input):
    return g * conj(F, F.cos(input))


@unary()
def cos(xp, input):
    """Cosine of each element, in radians.

    >>> import plugrad as torch
    >>> torch.cos(torch.tensor([0., 1.]))
    tensor([1.0000, 0.5403])
    """
    return xp.cos(input)


of_elements(cos, "cos")


@cos.vjp
def cos_vjp(F, g, input):
    return g * -conj(F, F.sin(input))


@unary(autocast={"cuda": "float32"})
def tan(xp, input):
    """Tangent of each element, in radians.

    >>> import plugrad as torch
    >>> torch.tan(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5574])
    """
    return xp.tan(input)


@tan.vjp
def tan_vjp(F, g, y):
    return g * conj(F, y * y + 1)


@unary(aliases=("arcsin",), domain=(-1, 1), autocast={"cuda": "float32"})
def asin(xp, input):
    """Angle whose sine is each element; NaN outside of [-1, 1].

    >>> import plugrad as torch
    >>> torch.asin(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5708])
    """
    return xp.arcsin(input)


@asin.vjp
def asin_vjp(F, g, input):
    return g / conj(F, F.sqrt(1 - input * input))


@unary(aliases=("arccos",), domain=(-1, 1), autocast={"cuda": "float32"})
def acos(xp, input):
    """Angle whose cosine is each element; NaN outside of [-1, 1].

    >>> import plugrad as torch
    >>> torch.acos(torch.tensor([0., 1.]))
    tensor([1.5708, 0.0000])
    """
    return xp.arccos(input)


@acos.vjp
def acos_vjp(F, g, input):
    return -g / conj(F, F.sqrt(1 - input * input))


@unary(aliases=("arctan",))
def atan(xp, input):
    """Angle whose tangent is each element.

    >>> import plugrad as torch
    >>> torch.atan(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7854])
    """
    return xp.arctan(input)


@atan.vjp
def atan_vjp(F, g, input):
    return g / conj(F, input * input + 1)


@binary(promote="float", aliases=("arctan2",), numbers="none", autocast={"cuda": "promote"})
def atan2(xp, input, other):
    """Angle of the point with ordinate `input` and abscissa `other`.

    >>> import plugrad as torch
    >>> torch.atan2(torch.tensor([1.]), torch.tensor([-1.]))
    tensor([2.3562])
    """
    refuse(COMPLEX, "atan2_cpu", input, other)
    return xp.arctan2(input, other)


@atan2.vjp("input")
def atan2_vjp_input(F, g, input, other):
    return g * _share(F, other, input, other)


def _share(F, part, input, other):
    """`part` over the squared distance from the origin, without overflow; zero at the origin, as its own slopes are."""
    nowhere = (input == 0) & (other == 0)
    distance = F.hypot(F.where(nowhere, 1.0, input), other)
    return F.where(nowhere, 0.0, part / distance / distance)


@atan2.vjp("other")
def atan2_vjp_other(F, g, input, other):
    return g * _share(F, -input, input, other)


@binary(numbers="none", complex=False)
def hypot(xp, input, other):
    """Length of the hypotenuse with the given legs, without overflow.

    >>> import plugrad as torch
    >>> torch.hypot(torch.tensor([3.]), torch.tensor([4.]))
    tensor([5.])
    """
    refuse(INTEGRAL, "hypot_cpu", input, other)
    return xp.hypot(input, other)


@hypot.vjp("input")
def hypot_vjp_input(F, g, input, y):
    return g * (input / y)


@hypot.vjp("other")
def hypot_vjp_other(F, g, other, y):
    return g * (other / y)


@unary(aliases=("special.sinc",))
def sinc(xp, input):
    """Normalised cardinal sine `sin(pi x) / (pi x)`, one at zero.

    >>> import plugrad as torch
    >>> torch.sinc(torch.tensor([0., 0.5]))
    tensor([1.0000, 0.6366])
    """
    angle = input * math.pi
    zero = angle == 0
    return xp.where(zero, 1, xp.sin(angle) / xp.where(zero, 1, angle)).astype(angle.dtype)


@sinc.vjp
def sinc_vjp(F, g, input):
    angle = input * math.pi
    near = F.abs(angle) < 0.5
    x = F.where(near, 1.0, angle)
    far = (F.cos(x) - F.sin(x) / x) / x
    x = F.where(near, angle, 0.0)  # there the difference loses all digits, and few terms of the series suffice
    square, series = x * x, 0.0
    for k in range(9, 0, -1):
        series = series * square + (-1) ** k * 2 * k / math.factorial(2 * k + 1)
    return g * (conj(F, F.where(near, x * series + 0.0, far)) * math.pi)


@unary(complex=False, node="Deg2RadBackward0")
def deg2rad(xp, input):
    """Degrees converted to radians.

    >>> import plugrad as torch
    >>> torch.deg2rad(torch.tensor([180.]))
    tensor([3.1416])
    """
    return input * (math.pi / 180)


@deg2rad.vjp
def deg2rad_vjp(F, g):
    return g * (math.pi / 180)


@unary(complex=False, node="Rad2DegBackward0")
def rad2deg(xp, input):
    """Radians converted to degrees.

    >>> import plugrad as torch
    >>> torch.rad2deg(torch.tensor([1.]))
    tensor([57.2958])
    """
    return input * (180 / math.pi)


@rad2deg.vjp
def rad2deg_vjp(F, g):
    return g * (180 / math.pi)


# ---------------------------------------------------------------- hyperbolic


@unary(autocast={"cuda": "float32"})
def sinh(xp, input):
    """Hyperbolic sine of each element.

    >>> import plugrad as torch
    >>> torch.sinh(torch.tensor([0., 1.]))
    tensor([0.0000, 1.1752])
    """
    return xp.sinh(input)


@sinh.vjp
def sinh_vjp(F, g, input):
    return g * conj(F, F.cosh(input))


@unary(autocast={"cuda": "float32"})
def cosh(xp, input):
    """Hyperbolic cosine of each element.

    >>> import plugrad as torch
    >>> torch.cosh(torch.tensor([0., 1.]))
    tensor([1.0000, 1.5431])
    """
    return xp.cosh(input)


@cosh.vjp
def cosh_vjp(F, g, input):
    return g * conj(F, F.sinh(input))


@unary(aliases=("nn.functional.tanh",))
def tanh(xp, input):
    """Hyperbolic tangent of each element.

    >>> import plugrad as torch
    >>> torch.tanh(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7616])
    """
    return xp.tanh(input)


@tanh.vjp
def tanh_vjp(F, g, y):
    return g * complement(F, conj(F, y * y))


@unary(aliases=("arcsinh",))
def asinh(xp, input):
    """Inverse hyperbolic sine of each element.

    >>> import plugrad as torch
    >>> torch.asinh(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8814])
    """
    return xp.arcsinh(input)


@asinh.vjp
def asinh_vjp(F, g, input):
    return g / conj(F, F.sqrt(input * input + 1))


@unary(aliases=("arccosh",), domain=(1, None))
def acosh(xp, input):
    """Inverse hyperbolic cosine of each element; NaN below 1.

    >>> import plugrad as torch
    >>> torch.acosh(torch.tensor([1., 2.]))
    tensor([0.0000, 1.3170])
    """
    return xp.arccosh(input)


@acosh.vjp
def acosh_vjp(F, g, input):
    if not is_complex(input):
        return g * F.rsqrt((input - 1) * (input + 1))
    return g / conj(F, F.sqrt(input - 1) * F.sqrt(input + 1))


@unary(aliases=("arctanh",), domain=(-1, 1))
def atanh(xp, input):
    """Inverse hyperbolic tangent of each element; NaN outside of [-1, 1].

    >>> import plugrad as torch
    >>> torch.atanh(torch.tensor([0., 0.5]))
    tensor([0.0000, 0.5493])
    """
    return xp.arctanh(input)


@atanh.vjp
def atanh_vjp(F, g, input):
    return g / conj(F, 1 - input * input)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
