"""The regularised incomplete gamma functions.

The power series left of the bulk and the continued fraction right of it, as in Numerical Recipes 6.2, with the common
factor computed so that it stays exact for large arguments (Temme, SIAM J. Math. Anal. 10 (1979)).
"""

from __future__ import annotations

import math

from plugrad.extend import Op, binary, collect, hookimpl

from ._checks import refuse
from .gamma import _stirling, lgamma

_MOST_STEPS = 10000


def _excess(xp, a, x):
    """`m - log(1 + m)` for `m = (x - a) / a`, without cancellation near zero."""
    m = (x - a) / a
    r = m / (2 + m)
    square = r * r
    series = xp.zeros_like(m)
    for k in range(25, 1, -2):
        series = series * square + 1 / k
    near = r * m - 2 * r * square * series
    return xp.where(xp.abs(m) < 0.3, near, m - xp.log(x / a))


def _factor(xp, a, x):
    """`x^a exp(-x) / gamma(a)`."""
    large = xp.maximum(a, 10)
    outer = xp.sqrt(large / (2 * math.pi)) * xp.exp(-large * _excess(xp, large, x) - _stirling(large))
    inner = xp.exp(a * xp.log(x) - x - lgamma.kernels["*"](xp, a))
    return xp.where(a < 10, inner, outer)


def _series(xp, a, x, todo):
    """The lower function: DLMF 8.11.4, where `todo`; ones elsewhere."""
    a, x = xp.where(todo, a, 1), xp.where(todo, x, 0)
    term = 1 / a
    total, n = term, a
    for _ in range(_MOST_STEPS):
        n = n + 1
        term = term * (x / n)
        total = total + term
        if not bool(xp.any(term > total * 1e-17)):
            break
    return total * _factor(xp, a, x)


def _fraction(xp, a, x, todo):
    """The upper function: DLMF 8.9.2 by Lentz's method, where `todo`."""
    a, x = xp.where(todo, a, 0.5), xp.where(todo, x, 100)
    tiny = 1e-30
    b = x + 1 - a
    c = xp.full_like(x, 1 / tiny)
    d = 1 / b
    total = d
    for i in range(1, _MOST_STEPS):
        numerator = -i * (i - a)
        b = b + 2
        d, c = numerator * d + b, b + numerator / c
        d = 1 / xp.where(xp.abs(d) < tiny, tiny, d)
        c = xp.where(xp.abs(c) < tiny, tiny, c)
        step = d * c
        total = total * step
        if not bool(xp.any(xp.abs(step - 1) > 2e-16)):
            break
    return total * _factor(xp, a, x)


def _small_upper(xp, a, x, todo):
    """The upper function for small arguments, where one less the lower function would cancel (DLMF 8.7.3)."""
    a, x = xp.where(todo, a, 0.5), xp.where(todo, x, 0.5)
    logarithm, power = a * xp.log(x), -x
    total = xp.zeros_like(x)
    for n in range(1, 40):
        total = total + power / (a + n)
        power = power * (-x / (n + 1))
    lgamma_next = lgamma.kernels["*"](xp, a + 1)
    return -xp.expm1(logarithm - lgamma_next) - xp.exp(logarithm - lgamma.kernels["*"](xp, a)) * total


def _lower_and_upper(xp, a, x):
    with_dtype = a.dtype
    a, x = xp.broadcast_arrays(a.astype("float64"), x.astype("float64"))
    valid = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    left = valid & (x < a + 1)
    tail = valid & (x >= a + 1)
    # Below this curve the upper function is small because `a` is: take it directly.
    curve = xp.where(x <= 0.5, -0.4 / xp.log(xp.minimum(x, 0.5)), x / 1.1)
    small = left & (x <= 1.1) & (a < curve)
    lower = _series(xp, a, x, left)
    upper = _fraction(xp, a, x, tail)
    upper = xp.where(tail, upper, xp.where(small, _small_upper(xp, a, x, small), 1 - lower))
    lower = xp.where(tail, 1 - upper, lower)
    # Limits: all mass lies below an infinite x, and none below an infinite a; a = 0 puts it at zero.
    full = (a >= 0) & ((x == math.inf) & (a < math.inf) | (a == 0) & (x > 0))
    none = (x == 0) & (a > 0) | (a == math.inf) & (x >= 0) & (x < math.inf)
    lower = xp.where(valid, lower, xp.where(full, 1.0, xp.where(none, 0.0, math.nan)))
    upper = xp.where(valid, upper, xp.where(full, 0.0, xp.where(none, 1.0, math.nan)))
    return lower.astype(with_dtype), upper.astype(with_dtype)


@binary(name="igamma", aliases=("special.gammainc",), ref="scipy.special.gammainc", numbers="none")
def igamma(xp, input, other):
    """Regularised lower incomplete gamma function P(input, other).

    Args:
        input: shape parameters, not negative.
        other: upper ends of the integral, not negative. Only they have a gradient.

    >>> import plugrad as torch
    >>> torch.special.gammainc(torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.8647])
    """
    refuse("biuc", "igamma", input, other)
    return _lower_and_upper(xp, input, other)[0]


@igamma.vjp("input")
def igamma_vjp_input(F, g):
    raise NotImplementedError("the derivative for 'igamma: input' is not implemented: detach the first argument")


@igamma.vjp("other")
def igamma_vjp_other(F, g, input, other):
    return g * F.exp((input - 1) * F.log(other) - other - F.lgamma(input))


@igamma.samples
def igamma_samples(make):
    yield make(3, low=0.5, high=4).detach(), make(3, low=0.5, high=4)


@binary(name="igammac", aliases=("special.gammaincc",), ref="scipy.special.gammaincc", numbers="none")
def igammac(xp, input, other):
    """Regularised upper incomplete gamma function Q(input, other) = 1 - P.

    Args:
        input: shape parameters, not negative.
        other: lower ends of the integral, not negative. Only they have a gradient.

    >>> import plugrad as torch
    >>> torch.special.gammaincc(torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.1353])
    """
    refuse("biuc", "igammac", input, other)
    return _lower_and_upper(xp, input, other)[1]


@igammac.vjp("input")
def igammac_vjp_input(F, g):
    raise NotImplementedError("the derivative for 'igammac: input' is not implemented: detach the first argument")


@igammac.vjp("other")
def igammac_vjp_other(F, g, input, other):
    return -g * F.exp((input - 1) * F.log(other) - other - F.lgamma(input))


@igammac.samples
def igammac_samples(make):
    yield make(3, low=0.5, high=4).detach(), make(3, low=0.5, high=4)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
