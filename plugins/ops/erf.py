"""The error function, the normal distribution, and their kin: SciPy's values, our gradients."""

from __future__ import annotations

import math

import numpy

from plugrad.extend import Op, collect, hookimpl, scipy_of, unary

from ._elements import of_elements

_ROOT_HALF = math.sqrt(0.5)
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


# ---------------------------------------------------------------- error functions


# atanh(erf(x)) / x in x^2, weighted so that tanh of it has a relative error of 1e-7.
_SINGLE = (
    1.4189273250719165e-07, -5.669010865077254e-06, 8.763976416960168e-05, -0.0006197892996178967,
    -0.0001918272342534909, 0.1027690549217359, 1.1283792743319312,
)  # fmt: skip


def _erf_single(x):
    """`erf` of float32 numbers with NumPy's vectorised `tanh`, in a ninth of SciPy's time: GELU is made of it."""
    square = x * x
    total = square * _SINGLE[0]
    for coefficient in _SINGLE[1:-1]:
        total += coefficient
        total *= square
    total += _SINGLE[-1]
    total *= x
    return numpy.tanh(total)


@unary(aliases=("special.erf",), complex=False, ref="scipy.special.erf")
def erf(xp, input):
    """Error function of each element.

    >>> import plugrad as torch
    >>> torch.erf(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8427])
    """
    if xp is numpy and input.dtype.itemsize == 4:
        return _erf_single(input)
    return scipy_of(xp, "special").erf(input)


of_elements(erf, "error_function", halves=False)


@erf.vjp
def erf_vjp(F, g, input):
    return g * (F.exp(-(input * input)) * _TWO_OVER_ROOT_PI)


@unary(aliases=("special.erfc",), complex=False, ref="scipy.special.erfc")
def erfc(xp, input):
    """One less the error function of each element, exact where that is tiny.

    >>> import plugrad as torch
    >>> torch.erfc(torch.tensor([0., 1.]))
    tensor([1.0000, 0.1573])
    """
    special = scipy_of(xp, "special")
    near = special.erfc(input)
    return near if input.dtype.itemsize < 8 else xp.where(input > 1, _tail(xp, special, input, 1), near)


def _tail(xp, special, x, scale):
    """`erfc(sqrt(scale) * x)` of float64 numbers above 1, of which SciPy rounds the square and loses subnormal results.

    A number of 24 bits has an exact square. The power is multiplied by its root twice, so that it is rounded only once.
    """
    x = xp.clip(x, 1, 40)
    head = x.astype("float32").astype(x.dtype)
    root = xp.exp(head * head * (-0.5 * scale))
    rest = xp.exp((head - x) * (head + x) * scale)
    return root * (special.erfcx(x * math.sqrt(scale)) * rest * root)


@erfc.vjp
def erfc_vjp(F, g, input):
    return g * (F.exp(-(input * input)) * -_TWO_OVER_ROOT_PI)


@unary(at=("special.erfcx",), inplace=False, node="SpecialErfcxBackward0", complex=False, ref="scipy.special.erfcx")
def erfcx(xp, input):
    """Scaled complementary error function `exp(x^2) erfc(x)`.

    >>> import plugrad as torch
    >>> torch.special.erfcx(torch.tensor([0., 10.]))
    tensor([1.0000, 0.0561])
    """
    return scipy_of(xp, "special").erfcx(input)


@erfcx.vjp
def erfcx_vjp(F, g, input, y):
    return g * (2 * input * y - _TWO_OVER_ROOT_PI)


@unary(
    aliases=("special.erfinv",), complex=False, domain=(-1, 1), ref="scipy.special.erfinv",
    autocast={"cuda": "float32"},
)  # fmt: skip
def erfinv(xp, input):
    """Inverse of the error function; NaN outside of [-1, 1].

    >>> import plugrad as torch
    >>> torch.erfinv(torch.tensor([0., 0.5, 1.]))
    tensor([0.0000, 0.4769,    inf])
    """
    return xp.copysign(scipy_of(xp, "special").erfinv(input), input)  # SciPy loses the sign of -0.0


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
    special = scipy_of(xp, "special")
    near = special.ndtr(input)
    return near if input.dtype.itemsize < 8 else xp.where(input < -1, 0.5 * _tail(xp, special, -input, 0.5), near)


@ndtr.vjp
def ndtr_vjp(F, g, input):
    return g * (F.exp(input * input * -0.5) * (1 / _ROOT_TWO_PI))


@unary(
    at=("special.log_ndtr",), inplace=False, node="SpecialLogNdtrBackward0", complex=False, ref="scipy.special.log_ndtr"
)
def log_ndtr(xp, input):
    """Logarithm of the normal distribution function, without underflow.

    >>> import plugrad as torch
    >>> torch.special.log_ndtr(torch.tensor([-10., 0.]))
    tensor([-53.2313,  -0.6931])
    """
    return scipy_of(xp, "special").log_ndtr(input)


@log_ndtr.vjp
def log_ndtr_vjp(F, g, input):
    return g * (math.sqrt(2 / math.pi) / F.erfcx(input * -_ROOT_HALF))


@unary(
    at=("special.ndtri",), inplace=False,
    node="SpecialNdtriBackward0", complex=False, domain=(0, 1), ref="scipy.special.ndtri",
)
def ndtri(xp, input):
    """Inverse of the normal distribution function; NaN outside of [0, 1].

    >>> import plugrad as torch
    >>> torch.special.ndtri(torch.tensor([0., 0.5, 0.9]))
    tensor([  -inf, 0.0000, 1.2816])
    """
    return scipy_of(xp, "special").ndtri(input)


@ndtri.vjp
def ndtri_vjp(F, g, y):
    return g * (F.exp(y * y * 0.5) * _ROOT_TWO_PI)


@unary(
    at=("special.entr",), inplace=False,
    node="SpecialEntrBackward0", complex=False, domain=(0, None), ref="scipy.special.entr",
)
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
