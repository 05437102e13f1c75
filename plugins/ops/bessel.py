"""Bessel functions of order zero and one, and the Airy function.

Near zero the power series (DLMF 10.2, 10.8, 10.25, 10.31) or polynomials, far from it polynomials for modulus and phase
(10.17) or for the exponentially scaled function (10.40). Accurate to about 1e-15 of the function's local amplitude.
"""

from __future__ import annotations

import math

from plugrad.extend import Op, collect, hookimpl, unary

from . import _bessel_tables as tables
from ._horner import horner

_ROOT_TWO_OVER_PI = math.sqrt(2 / math.pi)


# ---------------------------------------------------------------- modified, first kind


def _modified_first(xp, size, order, scaled):
    """I0 or I1 of positive numbers, times exp(-size) when `scaled`."""
    series, tail = (tables.I1, tables.I1_TAIL) if order else (tables.I0, tables.I0_TAIL)
    small, large = xp.minimum(size, 8), xp.maximum(size, 8)
    near = horner(small * small * 0.25, series)
    if order:
        near = near * (small * 0.5)
    far = horner(16 / large - 1, tail) / xp.sqrt(large)
    if scaled:
        return xp.where(size <= 8, near * xp.exp(-small), far)
    # In two halves, so that the product overflows only where the function does.
    half = xp.exp(large * 0.5)
    return xp.where(size <= 8, near, far * half * half)


@unary(aliases=("special.i0",), complex=False, ref="scipy.special.i0")
def i0(xp, input):
    """Modified Bessel function of the first kind, order 0.

    >>> import plugrad as torch
    >>> torch.special.i0(torch.tensor([0., 1.]))
    tensor([1.0000, 1.2661])
    """
    return _modified_first(xp, xp.abs(input), 0, False)


@i0.vjp
def i0_vjp(F, g, input):
    return g * F.i1(input)


@unary(at=("special.i0e",), inplace=False, complex=False, ref="scipy.special.i0e")
def i0e(xp, input):
    """`i0` times `exp(-abs(input))`.

    >>> import plugrad as torch
    >>> torch.special.i0e(torch.tensor([0., 1.]))
    tensor([1.0000, 0.4658])
    """
    return _modified_first(xp, xp.abs(input), 0, True)


@i0e.vjp
def i0e_vjp(F, g, input, y):
    return g * (F.i1e(input) - F.sgn(input) * y)


@unary(at=("special.i1",), inplace=False, complex=False, ref="scipy.special.i1")
def i1(xp, input):
    """Modified Bessel function of the first kind, order 1.

    >>> import plugrad as torch
    >>> torch.special.i1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.5652])
    """
    return xp.copysign(_modified_first(xp, xp.abs(input), 1, False), input)


@i1.vjp
def i1_vjp(F, g, input, y):
    zero = input == 0
    return g * F.where(zero, 0.5, F.i0(input) - y / F.where(zero, 1.0, input))


@unary(at=("special.i1e",), inplace=False, complex=False, ref="scipy.special.i1e")
def i1e(xp, input):
    """`i1` times `exp(-abs(input))`.

    >>> import plugrad as torch
    >>> torch.special.i1e(torch.tensor([0., 1.]))
    tensor([0.0000, 0.2079])
    """
    return xp.copysign(_modified_first(xp, xp.abs(input), 1, True), input)


@i1e.vjp
def i1e_vjp(F, g, input, y):
    zero = input == 0
    return g * F.where(zero, 0.5, F.i0e(input) - y * (F.sgn(input) + 1 / F.where(zero, 1.0, input)))


@unary(at=("special.modified_bessel_i0",), inplace=False, complex=False, vjp=None, ref="scipy.special.i0")
def modified_bessel_i0(xp, input):
    """Modified Bessel function of the first kind, order 0.

    Without a gradient, as in PyTorch.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_i0(torch.tensor([1.]))
    tensor([1.2661])
    """
    return _modified_first(xp, xp.abs(input), 0, False)


@unary(at=("special.modified_bessel_i1",), inplace=False, complex=False, vjp=None, ref="scipy.special.i1")
def modified_bessel_i1(xp, input):
    """Modified Bessel function of the first kind, order 1.

    Without a gradient, as in PyTorch.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_i1(torch.tensor([1.]))
    tensor([0.5652])
    """
    return xp.copysign(_modified_first(xp, xp.abs(input), 1, False), input)


# ---------------------------------------------------------------- modified, second kind


def _modified_second(xp, input, order, scaled):
    """K0 or K1, times exp(input) when `scaled`; infinite at zero, NaN below."""
    small, large = xp.minimum(input, 2), xp.maximum(input, 2)
    square = small * small * 0.25
    logarithm = xp.log(small * 0.5)
    if order:
        first = horner(square, tables.I1) * (small * 0.5)
        near = 1 / small + logarithm * first - small * 0.25 * horner(square, tables.K1)
    else:
        near = horner(square, tables.K0) - logarithm * horner(square, tables.I0)
    far = horner(4 / large - 1, tables.K1_TAIL if order else tables.K0_TAIL) / xp.sqrt(large)
    result = xp.where(input <= 2, near * xp.exp(small) if scaled else near, far if scaled else far * xp.exp(-large))
    return xp.where(input == 0, math.inf, xp.where(input < 0, math.nan, result)).astype(input.dtype)


@unary(at=("special.modified_bessel_k0",), inplace=False, complex=False, vjp=None, ref="scipy.special.k0")
def modified_bessel_k0(xp, input):
    """Modified Bessel function of the second kind, order 0.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_k0(torch.tensor([1.]))
    tensor([0.4210])
    """
    return _modified_second(xp, input, 0, False)


@unary(at=("special.modified_bessel_k1",), inplace=False, complex=False, vjp=None, ref="scipy.special.k1")
def modified_bessel_k1(xp, input):
    """Modified Bessel function of the second kind, order 1.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_k1(torch.tensor([1.]))
    tensor([0.6019])
    """
    return _modified_second(xp, input, 1, False)


@unary(at=("special.scaled_modified_bessel_k0",), inplace=False, complex=False, vjp=None, ref="scipy.special.k0e")
def scaled_modified_bessel_k0(xp, x):
    """`modified_bessel_k0` times `exp(x)`.

    >>> import plugrad as torch
    >>> torch.special.scaled_modified_bessel_k0(torch.tensor([1.]))
    tensor([1.1445])
    """
    return _modified_second(xp, x, 0, True)


@unary(at=("special.scaled_modified_bessel_k1",), inplace=False, complex=False, vjp=None, ref="scipy.special.k1e")
def scaled_modified_bessel_k1(xp, x):
    """`modified_bessel_k1` times `exp(x)`.

    >>> import plugrad as torch
    >>> torch.special.scaled_modified_bessel_k1(torch.tensor([1.]))
    tensor([1.6362])
    """
    return _modified_second(xp, x, 1, True)


# ---------------------------------------------------------------- oscillating


def _small_variable(xp, size):
    small = xp.minimum(size, 5)
    return small, small * small * 0.08 - 1


def _wave(xp, size, order):
    """The factors of cosine and sine for large arguments, and the two (DLMF 10.17.3): J and Y are their mixtures."""
    large = xp.maximum(size, 5)
    t = 50 / (large * large) - 1
    scale = _ROOT_TWO_OVER_PI / xp.sqrt(large)
    p = scale * horner(t, tables.P1 if order else tables.P0)
    q = scale * horner(t, tables.Q1 if order else tables.Q0) / large
    # The shifted angle as a mixture of exact sine and cosine: subtracting pi / 4 would round the angle.
    sine, cosine = xp.sin(large) * math.sqrt(0.5), xp.cos(large) * math.sqrt(0.5)
    if order:
        return p, q, sine - cosine, -sine - cosine
    return p, q, sine + cosine, sine - cosine


def _first_kind(xp, size, order):
    small, t = _small_variable(xp, size)
    p, q, cosine, sine = _wave(xp, size, order)
    near = small * horner(t, tables.J1) if order else horner(t, tables.J0)
    result = xp.where(size <= 5, near, p * cosine - q * sine)
    return xp.where(size == math.inf, 0, result).astype(size.dtype)


def _second_kind(xp, input, order):
    small, t = _small_variable(xp, input)
    p, q, cosine, sine = _wave(xp, input, order)
    if order:
        near = small * horner(t, tables.Y1)
        near = near + 2 / math.pi * (xp.log(small) * (small * horner(t, tables.J1)) - 1 / small)
    else:
        near = horner(t, tables.Y0) + 2 / math.pi * xp.log(small) * horner(t, tables.J0)
    result = xp.where(input <= 5, near, p * sine + q * cosine)
    result = xp.where(input == 0, -math.inf, xp.where(input < 0, math.nan, result))
    return xp.where(input == math.inf, 0, result).astype(input.dtype)


@unary(at=("special.bessel_j0",), inplace=False, complex=False, vjp=None, ref="scipy.special.j0")
def bessel_j0(xp, input):
    """Bessel function of the first kind, order 0.

    >>> import plugrad as torch
    >>> torch.special.bessel_j0(torch.tensor([0., 1.]))
    tensor([1.0000, 0.7652])
    """
    return _first_kind(xp, xp.abs(input), 0)


@unary(at=("special.bessel_j1",), inplace=False, complex=False, vjp=None, ref="scipy.special.j1")
def bessel_j1(xp, input):
    """Bessel function of the first kind, order 1.

    >>> import plugrad as torch
    >>> torch.special.bessel_j1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.4401])
    """
    result = _first_kind(xp, xp.abs(input), 1)
    return xp.where(input < 0, -result, result)


@unary(at=("special.bessel_y0",), inplace=False, complex=False, vjp=None, ref="scipy.special.y0")
def bessel_y0(xp, input):
    """Bessel function of the second kind, order 0; NaN below zero.

    >>> import plugrad as torch
    >>> torch.special.bessel_y0(torch.tensor([1.]))
    tensor([0.0883])
    """
    return _second_kind(xp, input, 0)


@unary(at=("special.bessel_y1",), inplace=False, complex=False, vjp=None, ref="scipy.special.y1")
def bessel_y1(xp, input):
    """Bessel function of the second kind, order 1; NaN below zero.

    >>> import plugrad as torch
    >>> torch.special.bessel_y1(torch.tensor([1.]))
    tensor([-0.7812])
    """
    return _second_kind(xp, input, 1)


@unary(at=("special.spherical_bessel_j0",), inplace=False, complex=False, vjp=None)
def spherical_bessel_j0(xp, x):
    """Spherical Bessel function of order 0, `sin(x) / x`.

    >>> import plugrad as torch
    >>> torch.special.spherical_bessel_j0(torch.tensor([0., 1.]))
    tensor([1.0000, 0.8415])
    """
    zero = x == 0
    result = xp.where(zero, 1, xp.sin(x) / xp.where(zero, 1, x))
    return xp.where(xp.isinf(x), 0, result).astype(x.dtype)


@unary(at=("special.airy_ai",), inplace=False, complex=False, vjp=None)
def airy_ai(xp, x):
    """Airy function Ai.

    Source: DLMF 9.7.5 and 9.7.9 away from zero, a polynomial near it.

    >>> import plugrad as torch
    >>> torch.special.airy_ai(torch.tensor([0., 1.]))
    tensor([0.3550, 0.1353])
    """
    near = horner((xp.minimum(xp.maximum(x, -4.2), 1.4) + 1.4) / 2.8, tables.AIRY)
    right = xp.maximum(x, 1.4)
    phase = right * xp.sqrt(right) * (2 / 3)
    falling = xp.exp(-phase) * horner(2 / (0.92 * phase) - 1, tables.AIRY_TAIL) / xp.sqrt(xp.sqrt(right))
    left = xp.maximum(-x, 4.2)
    phase = left * xp.sqrt(left) * (2 / 3)
    ratio = (2 / 3 * 4.2**1.5) / phase
    t = 2 * ratio * ratio - 1
    wave = horner(t, tables.AIRY_P) * xp.cos(phase - math.pi / 4)
    wave = wave + horner(t, tables.AIRY_Q) / phase * xp.sin(phase - math.pi / 4)
    rising = wave / (math.sqrt(math.pi) * xp.sqrt(xp.sqrt(left)))
    result = xp.where(x > 1.4, falling, xp.where(x < -4.2, rising, near))
    return xp.where(xp.isinf(x), 0, result).astype(x.dtype)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
