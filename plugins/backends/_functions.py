"""Functions of elements, for ops and kernels: one launch of a kernel of ours, which takes less to call than CuPy's.

What a kernel does not serve, such as other types and orders in memory, CuPy's function does.
"""

from __future__ import annotations

import functools
import pathlib

from plugrad.extend import in_single, load_inline

_load = functools.partial(load_inline, cuda=pathlib.Path(__file__).with_name("functions.cu"), like=0, per="pack")
_UNARY = {
    "negative": "negative", "sqrt": "root", "tanh": "hyperbolic", "abs": "magnitude", "absolute": "magnitude",
}  # fmt: skip
_BINARY = {"add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "true_divide": "divide"}
_NUMBERS = int, float, bool
_unary = {name: _load(name=name, arrays=1, types="floating") for name in {*_UNARY.values()}}


def _forms(name) -> tuple:
    """Return the kernels of two arrays of one shape, of one that is repeated, and of an array and a number."""
    part = _load(name=f"{name}_part", arrays=2, numbers=2, types="floating", sizes=False)
    number = _load(name=f"{name}_number", arrays=1, numbers=2, types="floating")
    return _load(name=name, arrays=2, types="floating"), part, number


_binary = {name: _forms(name) for name in {*_BINARY.values()}}
_masked = functools.partial(load_inline, cuda=pathlib.Path(__file__).with_name("functions.cu"), per="element")
_choose_number = _masked(name="choose_number", arrays=2, numbers=2, masks=(1,), like=0)
_choose = _masked(name="choose", arrays=3, masks=(2,), like=0)
_fill = _masked(name="fill", arrays=2, numbers=1, masks=(1,))


def fill_where(out, mask, number) -> bool:
    """Write a number where a mask of the same shape holds; return whether that was done."""
    return out.shape == mask.shape and type(number) in _NUMBERS and _fill(out, mask, number) is None


def choosing(otherwise):
    """Return `where` of masks and arrays of one shape by a kernel, which else is `otherwise`."""

    def where(condition, *arrays):
        if len(arrays) == 2 and hasattr(condition, "shape"):
            x, z = arrays
            shape, result = condition.shape, NotImplemented
            if type(z) in _NUMBERS:
                result = _choose_number(x, condition, z, False) if _has(x, shape) else result
            elif type(x) in _NUMBERS:
                result = _choose_number(z, condition, x, True) if _has(z, shape) else result
            elif _has(x, shape) and _has(z, shape):
                result = _choose(x, z, condition)
            if result is not NotImplemented:
                return result
        return otherwise(condition, *arrays)

    return where


def _has(array, shape):
    return getattr(array, "shape", None) == shape


class Functions:
    """CuPy's functions, of which some are kernels of ours.

    `halves` are those that compute half precision in single, round once, and whose gradients by their formulas are of
    half precision, too.
    """

    halves = frozenset({"add", "subtract", "multiply", "true_divide", "negative", "sqrt", "tanh", "abs", "absolute"})

    def __init__(self, cupy):
        self.cupy = cupy

    def __getattr__(self, name):
        function = ufunc = getattr(self.cupy, name)
        if name in _UNARY or name in _BINARY:
            function = _call(name, functools.partial(in_single(lambda _, *operands: ufunc(*operands)), None))
        setattr(self, name, function)
        return function


def ufuncs(cupy) -> dict:
    """Return what takes the place of CuPy's ufuncs in kernels: these functions, with all that a ufunc has."""
    return {name: _beside(getattr(cupy, name), name) for name in (*_UNARY, *_BINARY)}


def _beside(ufunc, name):
    served = _call(name, ufunc)

    def call(*operands, **options):
        return ufunc(*operands, **options) if options or len(operands) != ufunc.nin else served(*operands)

    call.__name__, call.__doc__ = name, ufunc.__doc__
    call.__dict__.update({each: getattr(ufunc, each) for each in dir(ufunc) if each[0] != "_"})
    return call


def _call(name, otherwise):
    if name in _UNARY:
        return _of_one(_unary[_UNARY[name]], otherwise)
    return _of_two(*_binary[_BINARY[name]], otherwise)


def _of_one(kernel, otherwise):
    def call(x):
        result = kernel(x)
        return otherwise(x) if result is NotImplemented else result

    return call


def _of_two(same, part, number, otherwise):
    def call(x, z):
        if type(z) in _NUMBERS:
            result = number(x, z, False)
        elif type(x) in _NUMBERS:
            result = number(z, x, True)
        else:
            result = _of_arrays(same, part, x, z)
        return otherwise(x, z) if result is NotImplemented else result

    return call


def _of_arrays(same, part, x, z):
    try:
        one, other = x.shape, z.shape
    except AttributeError:  # a complex number, say
        return NotImplemented
    if one == other:
        return same(x, z)
    if len(other) <= len(one) and (z.size == 1 or other == one[len(one) - len(other) :]):
        return part(x, z, z.size, False)
    if len(one) <= len(other) and (x.size == 1 or one == other[len(other) - len(one) :]):
        return part(z, x, x.size, True)
    return NotImplemented
