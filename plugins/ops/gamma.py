"""The gamma function and its kin: logarithm, derivatives, incomplete integrals, zeta."""

from __future__ import annotations

import math

from plugrad.extend import Op, binary, collect, composite, elementwise, hookimpl, unary

from . import _gamma_erf_tables as tables
from ._horner import horner

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


# ---------------------------------------------------------------- logarithm of gamma


def _stirling(x):
    """The part of `log(gamma(x))` that vanishes for large `x` (DLMF 5.11.1)."""
    inverse = 1 / x
    return horner(inverse * inverse, tables.STIRLING) * inverse


def _lgamma_positive(xp, x):
    # Multiply or divide the argument into [1.5, 2.5], where a polynomial takes over; Stirling's series from 8 on.
    # The distance from 2 is always the difference of exact numbers, for full accuracy near the roots 1 and 2.
    low, least = x < 1.5, x < 0.5
    product = xp.where(least, x * (x + 1), xp.where(low, x, 1))
    small = xp.where(low, 2, xp.minimum(x, 8))
    over = xp.ones_like(x)
    for _ in range(6):
        high = small > 2.5
        over, small = xp.where(high, over * (small - 1), over), xp.where(high, small - 1, small)
    excess = xp.where(least, x, xp.where(low, x - 1, small - 2))
    inner = excess * horner(excess, tables.LGAMMA) - xp.log(product) + xp.log(over)
    large = xp.maximum(x, 8)
    outer = (large - 0.5) * (xp.log(large) - 1) + (_HALF_LOG_TWO_PI - 0.5) + _stirling(large)
    return xp.where(x < 8, inner, xp.where(x == math.inf, x, outer))


@unary(aliases=("special.gammaln",), complex=False, ref="scipy.special.gammaln")
def lgamma(xp, input):
    """Logarithm of the absolute value of the gamma function.

    Source: recurrence (DLMF 5.5.1), reflection (5.5.3) and Stirling's series (5.11.1).

    >>> import plugrad as torch
    >>> torch.lgamma(torch.tensor([0.5, 4.]))
    tensor([0.5724, 1.7918])
    """
    negative = input < 0
    right = _lgamma_positive(xp, xp.where(negative, 1 - input, input))
    sine = xp.abs(xp.sin(math.pi * (input - xp.rint(input))))
    reflected = math.log(math.pi) - xp.log(sine) - right
    result = xp.where(negative, reflected, right)
    return xp.where(input == -math.inf, math.inf, result).astype(input.dtype)


@lgamma.vjp
def lgamma_vjp(F, g, input):
    return g * F.digamma(input)


@composite(aliases=("special.multigammaln",), inplace=True)
def mvlgamma(F, input, p):
    """Logarithm of the multivariate gamma function of dimension `p`.

    Args:
        input: tensor of values above `(p - 1) / 2`.
        p: positive dimension.

    >>> import plugrad as torch
    >>> torch.mvlgamma(torch.tensor([2.]), 2)
    tensor([0.4516])
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    total = p * (p - 1) / 4 * math.log(math.pi)
    for j in range(p):
        total = F.lgamma(F.add(input, -j / 2)) + total
    return total


# ---------------------------------------------------------------- derivatives


@unary(aliases=("special.psi", "special.digamma"), complex=False, ref="scipy.special.digamma")
def digamma(xp, input):
    """Logarithmic derivative of the gamma function.

    Source: recurrence and reflection (DLMF 5.5.2, 5.5.4), the asymptotic series 5.11.2, and on [1, 2] a polynomial
    with the root split off.

    >>> import plugrad as torch
    >>> torch.digamma(torch.tensor([1., 0.5]))
    tensor([-0.5772, -1.9635])
    """
    negative = input < 0
    x = xp.where(negative, 1 - input, input)
    small, total = xp.minimum(x, 9), xp.zeros_like(x)
    low = small < 1
    small, total = xp.where(low, small + 1, small), xp.where(low, -1 / small, total)
    for _ in range(7):
        high = small > 2
        small, total = xp.where(high, small - 1, small), xp.where(high, total + 1 / (small - 1), total)
    first, second = tables.DIGAMMA_ROOT
    inner = total + ((small - first) - second) * horner(small - 1.5, tables.DIGAMMA)
    large = xp.maximum(x, 9)
    inverse = 1 / (large * large)
    outer = xp.log(large) - 0.5 / large - inverse * horner(inverse, tables.DIGAMMA_TAIL)
    result = xp.where(x < 9, inner, outer)
    away = input - xp.rint(input)
    result = xp.where(negative, result - math.pi / xp.tan(math.pi * away), result)
    pole = xp.where(negative & (away == 0), math.nan, result)
    return xp.where(input == 0, xp.copysign(math.inf, -input), pole).astype(input.dtype)


@digamma.vjp
def digamma_vjp(F, g, input):
    return g * F.polygamma(1, input)


def _hurwitz(xp, s, q):
    """Hurwitz's zeta function for s > 1 by Euler and Maclaurin (DLMF 25.11.28), from q + n > 9 on."""
    total, power = xp.zeros_like(q + s), None
    start, steps = q, 0
    while steps < 10 or steps < 10000 and bool(xp.any(start < 9)):
        power = start**-s
        total, start, steps = total + power, start + 1, steps + 1
    power = start**-s
    total = total + power * start / (s - 1) + 0.5 * power
    factor, inverse = power * s / start, 1 / (start * start)
    for k, coefficient in enumerate(tables.ZETA, 1):
        total = total + factor * coefficient
        factor = factor * ((s + (2 * k - 1)) * (s + 2 * k)) * inverse
    return xp.where(q == math.inf, 0, total)


@binary(promote="float", at=("special.zeta",), inplace=False, ref="scipy.special.zeta", numbers="both")
def zeta(xp, input, other):
    """Hurwitz's zeta function: the sum of `(other + k) ** -input`.

    Args:
        input: exponents; NaN below 1.
        other: where the sum starts.

    Source: Euler-Maclaurin summation, DLMF 25.11.28.

    >>> import plugrad as torch
    >>> torch.special.zeta(torch.tensor([2.]), torch.tensor([1.]))
    tensor([1.6449])
    """
    s, q = xp.asarray(input), xp.asarray(other)
    valid = (s > 1) & ((q > 0) | (xp.rint(s) == s) & (xp.rint(q) != q))
    result = xp.where(valid, _hurwitz(xp, xp.where(valid, s, 2), xp.where(valid, q, 1)), math.nan)
    pole = (s == 1) | (s > 1) & (q <= 0) & (xp.rint(q) == q)
    dtype = (input if hasattr(input, "dtype") else other).dtype
    return xp.where(pole, math.inf, result).astype(dtype)


@zeta.vjp("input")
def zeta_vjp_input(F, g):
    raise NotImplementedError("the derivative of 'special.zeta' with respect to its first argument is not implemented")


@zeta.vjp("other")
def zeta_vjp_other(F, g, input, other):
    return g * -input * F.zeta(input + 1, other)


@zeta.samples
def zeta_samples(make):
    yield make(3, low=1.5, high=5), make(3, low=0.5, high=4)


def _check_order(n) -> None:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")


@elementwise(
    tensors=("input",), promote="float", at=("polygamma", "special.polygamma"), inplace=False, complex=False
)  # fmt: skip
def polygamma(xp, n, input):
    """Derivative of order `n` of the digamma function.

    Args:
        n: order, not negative.
        input: tensor.

    Source: DLMF 5.15.1 and 5.15.3 (as Hurwitz's zeta function), reflection for the first derivative.

    >>> import plugrad as torch
    >>> torch.polygamma(1, torch.tensor([1.]))
    tensor([1.6449])
    """
    _check_order(n)
    if n == 0:
        return digamma.kernels["*"](xp, input)
    if n > 1:
        scale = math.gamma(n + 1) * (1 if n % 2 else -1)
        return scale * zeta.kernels["*"](xp, float(n + 1), input)
    low = input < 0.5
    right = zeta.kernels["*"](xp, 2.0, xp.where(low, 1 - input, input))
    sine = xp.sin(math.pi * (input - xp.rint(input))) / math.pi
    return xp.where(low, 1 / (sine * sine) - right, right)


@polygamma.vjp("input")
def polygamma_vjp(F, g, n, input):
    return g * F.polygamma(n + 1, input)


@polygamma.samples
def polygamma_samples(make):
    for n in range(4):
        yield n, make(3, low=0.5, high=4)


@composite(name="polygamma_method", at=("Tensor.polygamma",), inplace=True)
def polygamma_method(F, input, n):
    """Derivative of order `n` of the digamma function at the tensor.

    >>> import plugrad as torch
    >>> torch.tensor([1.]).polygamma(1)
    tensor([1.6449])
    """
    return F.polygamma(n, input)


@mvlgamma.samples
def mvlgamma_samples(make):
    yield make(3, 4, low=2, high=5), 3


@polygamma_method.samples
def polygamma_method_samples(make):
    yield make(3, low=0.5, high=3), 1


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
