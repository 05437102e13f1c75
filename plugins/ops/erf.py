"""The error function, the normal distribution, and their kin."""

from __future__ import annotations

import math

from plugrad.extend import Op, collect, hookimpl, unary

from . import _gamma_erf_tables as tables
from ._horner import horner

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO = math.sqrt(2)
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def _exp_square(xp, x, sign):
    """`exp(sign * x^2)` to full accuracy: the part of the square that rounding would lose is kept apart."""
    coarse = xp.rint(x * 16) * 0.0625
    return xp.exp(sign * coarse * coarse) * xp.exp(sign * (x - coarse) * (x + coarse))


def _erfcx_positive(x):
    return horner(1 - 7.5 / (x + 3.75), tables.ERFCX) / (1 + 2 * x)


def _erfc_positive(xp, x):
    x = xp.minimum(x, 30)
    return _exp_square(xp, x, -1) * _erfcx_positive(x)


# ---------------------------------------------------------------- error functions


@unary(aliases=("special.erf",), complex=False, ref="scipy.special.erf")
def erf(xp, input):
    """Error function of each element.

    Source: DLMF 7.2.1; polynomials of our own fit.

    >>> import plugrad as torch
    >>> torch.erf(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8427])
    """
    if input.dtype.itemsize == 4:
        return xp.tanh(input * horner(input * input, tables.ERF_SINGLE))
    size = xp.abs(input)
    inner = input * horner(xp.minimum(input * input, 1), tables.ERF)
    return xp.where(size <= 1, inner, xp.copysign(1 - _erfc_positive(xp, size), input))


@erf.vjp
def erf_vjp(F, g, input):
    return g * (F.exp(-(input * input)) * _TWO_OVER_ROOT_PI)


@unary(aliases=("special.erfc",), complex=False, ref="scipy.special.erfc")
def erfc(xp, input):
    """One less the error function of each element, exact where that is tiny.

    Source: exp(-x^2) times the scaled function of Shepherd and Laframboise, Math. Comp. 36 (1981).

    >>> import plugrad as torch
    >>> torch.erfc(torch.tensor([0., 1.]))
    tensor([1.0000, 0.1573])
    """
    right = _erfc_positive(xp, xp.abs(input))
    return xp.where(input < 0, 2 - right, right)


@erfc.vjp
def erfc_vjp(F, g, input):
    return g * (F.exp(-(input * input)) * -_TWO_OVER_ROOT_PI)


@unary(at=("special.erfcx",), inplace=False, complex=False, ref="scipy.special.erfcx")
def erfcx(xp, input):
    """Scaled complementary error function `exp(x^2) erfc(x)`.

    Source: Shepherd and Laframboise, Math. Comp. 36 (1981).

    >>> import plugrad as torch
    >>> torch.special.erfcx(torch.tensor([0., 10.]))
    tensor([1.0000, 0.0561])
    """
    size = xp.abs(input)
    right = _erfcx_positive(size)
    return xp.where(input < 0, 2 * _exp_square(xp, xp.minimum(size, 40), 1) - right, right)


@erfcx.vjp
def erfcx_vjp(F, g, input, y):
    return g * (2 * input * y - _TWO_OVER_ROOT_PI)


def _erfcinv_tail(xp, q):
    """Where `erfc` has a value `q` of at most 0.3."""
    w = xp.sqrt(-xp.log(q))
    t = (1 - 2 * tables.ERFCINV_CENTRE / (w + tables.ERFCINV_CENTRE)) * tables.ERFCINV_SCALE
    return xp.where(q == 0, math.inf, w * horner(t, tables.ERFCINV)).astype(w.dtype)


def _erfinv_centre(xp, y):
    return y * horner(xp.minimum(y * y, 0.5), tables.ERFINV)


@unary(aliases=("special.erfinv",), complex=False, domain=(-1, 1), ref="scipy.special.erfinv")
def erfinv(xp, input):
    """Inverse of the error function; NaN outside of [-1, 1].

    >>> import plugrad as torch
    >>> torch.erfinv(torch.tensor([0., 0.5, 1.]))
    tensor([0.0000, 0.4769,    inf])
    """
    size = xp.abs(input)
    tail = xp.copysign(_erfcinv_tail(xp, 1 - size), input)
    return xp.where(size <= 0.7, _erfinv_centre(xp, input), tail)


@erfinv.vjp
def erfinv_vjp(F, g, input):
    y = F.erfinv(input)
    return g * (F.exp(y * y) * (0.5 * math.sqrt(math.pi)))


# ---------------------------------------------------------------- normal distribution


@unary(at=("special.ndtr",), inplace=False, complex=False, ref="scipy.special.ndtr")
def ndtr(xp, input):
    """Distribution function of the standard normal distribution.

    >>> import plugrad as torch
    >>> torch.special.ndtr(torch.tensor([-1., 0.]))
    tensor([0.1587, 0.5000])
    """
    return 0.5 * erfc.kernels["*"](xp, input * -_ROOT_HALF)


@ndtr.vjp
def ndtr_vjp(F, g, input):
    return g * (F.exp(input * input * -0.5) * (1 / _ROOT_TWO_PI))


@unary(at=("special.log_ndtr",), inplace=False, complex=False, ref="scipy.special.log_ndtr")
def log_ndtr(xp, input):
    """Logarithm of the normal distribution function, without underflow.

    >>> import plugrad as torch
    >>> torch.special.log_ndtr(torch.tensor([-10., 0.]))
    tensor([-53.2313,  -0.6931])
    """
    scaled = input * -_ROOT_HALF
    tail = xp.log(0.5 * _erfcx_positive(xp.maximum(scaled, 0))) - scaled * scaled
    return xp.where(input < -1, tail, xp.log1p(-0.5 * erfc.kernels["*"](xp, -scaled)))


@log_ndtr.vjp
def log_ndtr_vjp(F, g, input):
    return g * (math.sqrt(2 / math.pi) / F.erfcx(input * -_ROOT_HALF))


@unary(at=("special.ndtri",), inplace=False, complex=False, domain=(0, 1), ref="scipy.special.ndtri")
def ndtri(xp, input):
    """Inverse of the normal distribution function; NaN outside of [0, 1].

    >>> import plugrad as torch
    >>> torch.special.ndtri(torch.tensor([0., 0.5, 0.9]))
    tensor([  -inf, 0.0000, 1.2816])
    """
    tail = xp.copysign(_erfcinv_tail(xp, 2 * xp.minimum(input, 1 - input)), input - 0.5)
    centre = _erfinv_centre(xp, 2 * input - 1)
    return _ROOT_TWO * xp.where(xp.abs(input - 0.5) <= 0.35, centre, tail)


@ndtri.vjp
def ndtri_vjp(F, g, y):
    return g * (F.exp(y * y * 0.5) * _ROOT_TWO_PI)


@unary(at=("special.entr",), inplace=False, complex=False, domain=(0, None), ref="scipy.special.entr")
def entr(xp, input):
    """Entropy `-x log(x)`; zero at zero, -inf below.

    >>> import plugrad as torch
    >>> torch.special.entr(torch.tensor([-1., 0., 0.5]))
    tensor([  -inf, 0.0000, 0.3466])
    """
    inner = xp.where(input == 0, 0, -input * xp.log(input))
    return xp.where(input < 0, -math.inf, inner).astype(input.dtype)


@entr.vjp
def entr_vjp(F, g, input):
    return g * (-F.log(input) - 1)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
