"""How samples of gamma and beta distributions move with their parameters: implicit reparameterization gradients.

M. Figurnov, S. Mohamed, A. Mnih, arXiv:1805.08498: the value of the distribution function stays. Its derivative is an
integral of the density times its score, over the lower or the upper tail, whichever does not pass the mode. In the
logarithm (or the logit) of the variable the integrand falls monotonously from the sample on, and Gauss's quadrature of
two panels gives nine digits.
"""

from __future__ import annotations

from functools import cache

import numpy

NEGLIGIBLE = 45.0  # exp(-45) < 1e-19
NEAR = 12.0  # beyond it exp(-s) has died out, and what remains is one exponential
BLOCK = 2048


@cache
def _quadrature():
    return numpy.polynomial.legendre.leggauss(40)


def _end(xp, exponent):
    """Where a falling exponent has reached -45, by bisection of the logarithm."""
    here = exponent(1.0)
    low, high = here * 0 - 80.0, here * 0 + 710.0
    for _ in range(48):
        middle = 0.5 * (low + high)
        beyond = ~(exponent(xp.exp(middle)) > -NEGLIGIBLE)
        low, high = xp.where(beyond, low, middle), xp.where(beyond, middle, high)
    return xp.exp(high)


def _integral(xp, exponent, score):
    """The integral of exp(exponent(s)) * score(s) from 0 to infinity, for each element."""
    nodes, weights = [xp.asarray(part)[:, None] for part in _quadrature()]
    end = _end(xp, exponent)
    near, total = xp.minimum(end, NEAR), 0.0
    for start, stop in ((0.0, near), (near, end)):
        half = 0.5 * (stop - start)
        s = start + half * (1 + nodes)
        total = total + half * (weights * xp.exp(exponent(s)) * score(s)).sum(0)
    return total


def _in_blocks(xp, function, *arrays):
    arrays = xp.broadcast_arrays(*[array.astype("float64") for array in arrays])
    flat = [array.ravel() for array in arrays]
    parts = [function(*[part[start : start + BLOCK] for part in flat]) for start in range(0, flat[0].size, BLOCK)]
    return xp.concatenate(parts).reshape(arrays[0].shape) if parts else xp.zeros(arrays[0].shape)


def gamma_derivative(xp, digamma, alpha, x):
    """dx / d alpha of standard gamma samples `x` of shape `alpha`."""

    def some(alpha, x):
        side = xp.where(x <= alpha, -1.0, 1.0)
        shift = xp.log(xp.where(x > 0, x, 1.0)) - digamma(alpha)
        integral = _integral(xp, lambda s: side * alpha * s - x * xp.expm1(side * s), lambda s: shift + side * s)
        return xp.where(x > 0, side * x * integral, 0 * x)

    return _in_blocks(xp, some, alpha, x)


def beta_derivative(xp, digamma, x, alpha, total):
    """dx / d alpha over (1 - x) of beta samples `x` of parameters `alpha` and `total - alpha`."""

    def some(x, alpha, total):
        side = xp.where(x * total <= alpha, -1.0, 1.0)
        shift = xp.log(xp.where(x > 0, x, 1.0)) - digamma(alpha) + digamma(total)

        def spread(s):
            return xp.log1p(x * xp.expm1(side * s))

        integral = _integral(
            xp, lambda s: alpha * side * s - total * spread(s), lambda s: shift + side * s - spread(s)
        )
        return xp.where(x > 0, side * x * integral, 0 * x)

    return _in_blocks(xp, some, x, alpha, total)
