"""Numbers drawn one by one, by rejection: how many uniform ones each of them takes, its own value decides.

On the CPU they are PyTorch's for the same seed: the same algorithms in the same order of draws, in float64.
"""

from __future__ import annotations

import math

import numpy

THIRD = float(numpy.float32(1 / 3))  # PyTorch's constant
LEAST = float(numpy.finfo("float64").tiny)
# What Stirling's series leaves of log k!, for k = 0 ... 9.
_TAILS = [math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi)) for k in range(10)]


def one_by_one(source):
    """Return (uniform, normal), functions that draw one float64 each; None if the source has no such numbers."""
    if not isinstance(source, numpy.random.Generator) or not hasattr(source.bit_generator, "spare"):
        return None
    bits = source.bit_generator
    word = bits.random_raw

    def uniform():
        return ((word() << 32 | word()) & (2**53 - 1)) * 2.0**-53

    def normal():
        spare, bits.spare = bits.spare, None
        if spare is not None:
            return spare
        angle = 2 * math.pi * uniform()
        radius = math.sqrt(-2 * math.log1p(-uniform()))
        bits.spare = radius * math.sin(angle)
        return radius * math.cos(angle)

    return uniform, normal


def gamma(alpha, uniform, normal):
    """A gamma number of shape `alpha` and scale 1: G. Marsaglia, W. W. Tsang, ACM TOMS 26 (2000)."""
    scale = 1.0
    if alpha < 1:
        if alpha == 0:
            return 0.0
        scale = math.pow(1 - uniform(), 1 / alpha)
        alpha += 1
    if not alpha < math.inf:
        return alpha
    d = alpha - THIRD
    c = 1 / math.sqrt(9 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = normal()
            y = 1 + c * x
        v, u, square = y * y * y, 1 - uniform(), x * x
        if u < 1 - 0.0331 * square * square or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


def poisson(rate, uniform, _):
    """A Poisson number: by products below a rate of 10, else W. Hörmann's transformed rejection (1993)."""
    if rate < 10:
        if not rate > 0:
            return rate if rate != rate else 0.0
        end, product, count = math.exp(-rate), 1.0, 0
        while True:
            product *= uniform()
            if product <= end:
                return float(count)
            count += 1
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha, border = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        if us == 0:
            continue
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= border:
            return float(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        if math.log(max(v, LEAST)) + math.log(inverse_alpha) - math.log(a / (us * us) + b) <= (
            k * log_rate - rate - math.lgamma(k + 1)
        ):
            return float(k)


def binomial(count, p, uniform, _):
    """A binomial number: by waiting times below 10 expected successes, else by W. Hörmann's BTRS (1993)."""
    if count != count or p != p:
        return math.nan
    if count <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return count
    if p > 0.5:
        return count - binomial(count, 1 - p, uniform, _)
    if count * p >= 10:
        return _many_successes(count, p, uniform)
    waited, successes, log_failure = 0.0, 0.0, math.log1p(-p)
    while True:
        u = uniform()
        waited += math.ceil(math.log(u) / log_failure) if u > 0 else math.inf
        if waited > count:
            return successes
        successes += 1


def _tail(k):
    if k < 10:
        return _TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


def _many_successes(n, p, uniform):
    deviation = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c, border, odds = n * p + 0.5, 0.92 - 4.2 / b, p / (1 - p)
    alpha, m = (2.83 + 5.1 / b) * deviation, math.floor((n + 1) * p)
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        if us == 0:
            continue
        k = math.floor((2 * a / us + b) * u + c)
        if us >= 0.07 and v <= border:
            return float(k)
        if k < 0 or k > n:
            continue
        v = math.log(max(v * alpha / (a / (us * us) + b), LEAST))
        bound = (
            (m + 0.5) * math.log((m + 1) / (odds * (n - m + 1)))
            + (n + 1) * math.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
            + _tail(m) + _tail(n - m) - _tail(k) - _tail(n - k)
        )  # fmt: skip
        if v <= bound:
            return float(k)


def draw(sampler, source, *parameters):
    """Return float64 numbers of `sampler(*parameters, uniform, normal)` for each element; None if it can't be had."""
    ways = one_by_one(source)
    if ways is None:
        return None
    arrays = numpy.broadcast_arrays(*[numpy.asarray(one, "float64") for one in parameters])
    rows = zip(*[array.ravel().tolist() for array in arrays])
    return numpy.array([sampler(*row, *ways) for row in rows], "float64").reshape(arrays[0].shape)
