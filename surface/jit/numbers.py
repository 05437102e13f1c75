"""Numbers of staged programs: as in TorchScript they are C's, integers of 64 bits and floats that may be infinite."""

from __future__ import annotations

import functools
import math

import numpy

from plugrad.kernels import module, why_none

__all__ = ["MATH", "OF_C"]

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


def wrapped(n):
    """Return an integer with its lowest 64 bits."""
    return n if LOWEST <= n <= HIGHEST else (n - LOWEST) % (1 << 64) + LOWEST


if why_none() is None and hasattr(module(), "wrapped"):  # at each operator of two ints
    wrapped = module().wrapped


def quotient(a, b):
    """Return a / b as a float; of a division by zero infinity, or NaN."""
    try:
        return a / b
    except ZeroDivisionError:
        return _of_numpy(numpy.divide, a, b)


def floored(a, b):
    """Return the largest whole number up to the float a / b."""
    ratio = quotient(a, b)
    return float(math.floor(ratio)) or math.copysign(0.0, ratio) if math.isfinite(ratio) else ratio


def remainder(a, b):
    """Return what is left of a for whole numbers of b, with the sign of b."""
    try:
        return math.fmod(b + math.fmod(a, b), b)
    except ValueError:
        return math.nan


def power(a, b):
    """Return the float a ** b; ZeroDivisionError for zero to the power of what is below it."""
    a, b = float(a), float(b)
    if not a and b < 0:
        raise ZeroDivisionError("0.0 cannot be raised to a negative power")
    try:
        return math.pow(a, b)
    except (ValueError, OverflowError):
        return _of_numpy(numpy.float_power, a, b)


def gamma(x):
    """Return the gamma function, infinite where it is too large, NaN for negative whole numbers."""
    try:
        return math.gamma(x)
    except (ValueError, OverflowError):
        return math.copysign(math.inf, x) if not x or x > 0 else math.nan


def lgamma(x):
    """Return the logarithm of the absolute value of the gamma function, infinite at its poles."""
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def whole(function):
    """Return a function of Python's whose result, if it is an integer, has 64 bits."""

    @functools.wraps(function)
    def of_c(*args):
        result = function(*args)
        return wrapped(result) if type(result) is int else result

    return of_c


def _of_numpy(function, *numbers):
    with numpy.errstate(all="ignore"):
        return float(function(*map(float, numbers)))


def _of_math(name, other):
    own = getattr(math, name)

    def function(*numbers):
        try:
            return own(*numbers)
        except (ValueError, OverflowError):  # where C has infinity, or NaN
            return _of_numpy(other, *numbers)

    return function


# Operators by sign and type of the result.
OF_C = {
    **{(sign, "int"): wrapped for sign in ("+", "-", "*", "<<")},
    ("/", "float"): quotient, ("//", "float"): floored, ("%", "float"): remainder,
}  # fmt: skip
_AS_NUMPY = {
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "sinh", "cosh", "tanh")},
    **{name: name for name in "sin cos tan sinh cosh exp expm1 log log1p log2 log10 sqrt fmod".split()},
}  # fmt: skip
MATH = {"pow": power, "gamma": gamma, "lgamma": lgamma, "factorial": whole(math.factorial)} | {
    name: _of_math(name, getattr(numpy, other)) for name, other in _AS_NUMPY.items()
}
