"""Bessel functions of order zero and one, and the Airy function: SciPy's values, our gradients."""

from __future__ import annotations

import math

from plugrad.extend import Op, collect, hookimpl, scipy_of, unary

_EULER = 0.5772156649015329


# ---------------------------------------------------------------- modified, first kind


def _grown(xp, value, scaled, x):
    """`value`, or where that would overflow `exp(abs(x)) * scaled(x)`, whose product may still be a number."""
    if x.dtype.itemsize < 8:
        return value
    far = xp.clip(x, -800, 800)
    root = xp.exp(abs(far) * 0.5)
    return xp.where((abs(x) > 700) & (far == x), scaled(far) * root * root, value)


@unary(aliases=("special.i0",), complex=False, ref="scipy.special.i0")
def i0(xp, input):
    """Modified Bessel function of the first kind, order 0.

    >>> import plugrad as torch
    >>> torch.special.i0(torch.tensor([0., 1.]))
    tensor([1.0000, 1.2661])
    """
    special = scipy_of(xp, "special")
    return _grown(xp, special.i0(input), special.i0e, input)


@i0.vjp
def i0_vjp(F, g, input):
    return g * F.i1(input)


@unary(at=("special.i0e",), inplace=False, node="SpecialI0EBackward0", complex=False, ref="scipy.special.i0e")
def i0e(xp, input):
    """`i0` times `exp(-abs(input))`.

    >>> import plugrad as torch
    >>> torch.special.i0e(torch.tensor([0., 1.]))
    tensor([1.0000, 0.4658])
    """
    return scipy_of(xp, "special").i0e(input)


@i0e.vjp
def i0e_vjp(F, g, input, y):
    return g * (F.i1e(input) - F.sgn(input) * y)


@unary(at=("special.i1",), inplace=False, node="SpecialI1Backward0", complex=False, ref="scipy.special.i1")
def i1(xp, input):
    """Modified Bessel function of the first kind, order 1.

    >>> import plugrad as torch
    >>> torch.special.i1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.5652])
    """
    special = scipy_of(xp, "special")
    return _grown(xp, special.i1(input), special.i1e, input)


@i1.vjp
def i1_vjp(F, g, input, y):
    zero = input == 0
    return g * F.where(zero, 0.5, F.i0(input) - y / F.where(zero, 1.0, input))


@unary(at=("special.i1e",), inplace=False, node="SpecialI1EBackward0", complex=False, ref="scipy.special.i1e")
def i1e(xp, input):
    """`i1` times `exp(-abs(input))`.

    >>> import plugrad as torch
    >>> torch.special.i1e(torch.tensor([0., 1.]))
    tensor([0.0000, 0.2079])
    """
    return scipy_of(xp, "special").i1e(input)


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
    special = scipy_of(xp, "special")
    return _grown(xp, special.i0(input), special.i0e, input)


@unary(at=("special.modified_bessel_i1",), inplace=False, complex=False, vjp=None, ref="scipy.special.i1")
def modified_bessel_i1(xp, input):
    """Modified Bessel function of the first kind, order 1.

    Without a gradient, as in PyTorch.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_i1(torch.tensor([1.]))
    tensor([0.5652])
    """
    special = scipy_of(xp, "special")
    return _grown(xp, special.i1(input), special.i1e, input)


# ---------------------------------------------------------------- modified, second kind


def _beside_zero(xp, value, x, form):
    """`value`, or `form(x)` (DLMF 10.7, 10.30) of numbers so tiny that SciPy takes them for 0, or overflows."""
    if x.dtype.itemsize < 8:
        return value
    tiny = (x > 0) & (x < 1e-300)
    return xp.where(tiny, form(xp.where(tiny, x, 1e-300)), value)


def _logarithm(xp):
    return lambda x: (math.log(2) - _EULER) - xp.log(x)


@unary(at=("special.modified_bessel_k0",), inplace=False, complex=False, vjp=None, ref="scipy.special.k0")
def modified_bessel_k0(xp, input):
    """Modified Bessel function of the second kind, order 0.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_k0(torch.tensor([1.]))
    tensor([0.4210])
    """
    return _beside_zero(xp, scipy_of(xp, "special").k0(input), input, _logarithm(xp))


@unary(at=("special.modified_bessel_k1",), inplace=False, complex=False, vjp=None, ref="scipy.special.k1")
def modified_bessel_k1(xp, input):
    """Modified Bessel function of the second kind, order 1.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_k1(torch.tensor([1.]))
    tensor([0.6019])
    """
    return _beside_zero(xp, scipy_of(xp, "special").k1(input), input, lambda x: 1 / x)


@unary(at=("special.scaled_modified_bessel_k0",), inplace=False, complex=False, vjp=None, ref="scipy.special.k0e")
def scaled_modified_bessel_k0(xp, x):
    """`modified_bessel_k0` times `exp(x)`.

    >>> import plugrad as torch
    >>> torch.special.scaled_modified_bessel_k0(torch.tensor([1.]))
    tensor([1.1445])
    """
    return _beside_zero(xp, scipy_of(xp, "special").k0e(x), x, _logarithm(xp))


@unary(at=("special.scaled_modified_bessel_k1",), inplace=False, complex=False, vjp=None, ref="scipy.special.k1e")
def scaled_modified_bessel_k1(xp, x):
    """`modified_bessel_k1` times `exp(x)`.

    >>> import plugrad as torch
    >>> torch.special.scaled_modified_bessel_k1(torch.tensor([1.]))
    tensor([1.6362])
    """
    return _beside_zero(xp, scipy_of(xp, "special").k1e(x), x, lambda x: 1 / x)


# ---------------------------------------------------------------- oscillating


def _series(order, count=16):
    """The coefficients of Hankel's expansions of the Bessel functions of an order, for large arguments (DLMF 10.17)."""
    terms = [1.0]
    for k in range(1, count):
        terms.append(terms[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    signed = [term * (-1) ** (k // 2) for k, term in enumerate(terms)]
    return signed[::2], signed[1::2]


_SERIES = _series(0), _series(1)


def _waves(xp, near, x, order, first):
    """`near`, or of large numbers the Bessel function of the first or second kind.

    SciPy takes a phase from the number, which rounds it: here it is part of the sum of two exact waves.
    """
    size = abs(x)
    far = (size > 50) & xp.isfinite(x)
    wide = xp.where(far, size, 50).astype("float64")
    square, even, odd = 1 / (wide * wide), 0.0, 0.0
    for one, other in zip(*[reversed(terms) for terms in _SERIES[order]]):
        even, odd = even * square + one, odd * square + other
    odd /= wide
    sine, cosine = xp.sin(wide), xp.cos(wide)
    along, across = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -sine - cosine)
    value = even * along - odd * across if first else even * across + odd * along
    value *= xp.sqrt(1 / (math.pi * wide))
    if first:
        value = xp.where(x < 0, -value, value) if order == 1 else value
    return xp.where(far & (first | (x > 0)), value, near).astype(x.dtype)


@unary(at=("special.bessel_j0",), inplace=False, complex=False, vjp=None, ref="scipy.special.j0")
def bessel_j0(xp, input):
    """Bessel function of the first kind, order 0.

    >>> import plugrad as torch
    >>> torch.special.bessel_j0(torch.tensor([0., 1.]))
    tensor([1.0000, 0.7652])
    """
    return _waves(xp, scipy_of(xp, "special").j0(input), input, 0, first=True)


@unary(at=("special.bessel_j1",), inplace=False, complex=False, vjp=None, ref="scipy.special.j1")
def bessel_j1(xp, input):
    """Bessel function of the first kind, order 1.

    >>> import plugrad as torch
    >>> torch.special.bessel_j1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.4401])
    """
    return _waves(xp, scipy_of(xp, "special").j1(input), input, 1, first=True)


@unary(at=("special.bessel_y0",), inplace=False, complex=False, vjp=None, ref="scipy.special.y0")
def bessel_y0(xp, input):
    """Bessel function of the second kind, order 0; NaN below zero.

    >>> import plugrad as torch
    >>> torch.special.bessel_y0(torch.tensor([1.]))
    tensor([0.0883])
    """
    return _waves(xp, scipy_of(xp, "special").y0(input), input, 0, first=False)


@unary(at=("special.bessel_y1",), inplace=False, complex=False, vjp=None, ref="scipy.special.y1")
def bessel_y1(xp, input):
    """Bessel function of the second kind, order 1; NaN below zero.

    >>> import plugrad as torch
    >>> torch.special.bessel_y1(torch.tensor([1.]))
    tensor([-0.7812])
    """
    near = _beside_zero(xp, scipy_of(xp, "special").y1(input), input, lambda x: -2 / math.pi / x)
    return _waves(xp, near, input, 1, first=False)


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
    """Airy function Ai; NaN below -1e20, where numbers have no phase.

    CuPy does not have it: on a GPU it needs leave to run on the CPU.

    >>> import plugrad as torch
    >>> torch.special.airy_ai(torch.tensor([0., 1.]))
    tensor([0.3550, 0.1353])
    """
    near = scipy_of(xp, "special").airy(xp.minimum(x, 1000))[0]  # SciPy gives NaN for what is far beyond underflow
    far = (x < -1e5) & (x >= -1e20)  # where SciPy rounds the phase, and soon has no number
    return xp.where(far, _airy_wave(xp, xp.where(far, -x, 1).astype("float64")), near).astype(x.dtype)


def _halves(xp, x):
    """A number as the sum of two with half of the digits, whose products are exact."""
    high = x.astype("float32").astype("float64")
    return high, x - high


def _airy_wave(xp, x):
    """Ai(-x) of large numbers (DLMF 9.7): a wave, whose phase 2/3 x^1.5 is a sum of two numbers, for its digits."""
    root = xp.sqrt(x)
    (a, b), (c, d) = _halves(xp, x), _halves(xp, root)
    lost = (x - c * c - 2 * c * d - d * d) / (2 * root)  # of the root
    whole = x * root
    more = (((a * c - whole) + a * d + b * c) + b * d) + x * lost
    phase = whole / 1.5
    e, f = _halves(xp, phase)
    more = (((whole - e * 1.5) - f * 1.5) + more) / 1.5
    sine, cosine = xp.sin(phase), xp.cos(phase)
    sine, cosine = sine * xp.cos(more) + cosine * xp.sin(more), cosine * xp.cos(more) - sine * xp.sin(more)
    tilt = 5 / (72 * phase)
    return ((cosine + sine) + tilt * (sine - cosine)) / xp.sqrt(2 * math.pi * root)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
