"""The CPU, on NumPy."""

from __future__ import annotations

import ctypes
import importlib
import operator
import os
import sys

import numpy

import plugrad
from plugrad.extend import Backend, collect, hookimpl, native_function

from ._mersenne import Source

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library


def keep_freed_memory(size: int = 1 << 28) -> bool:
    """Tell the GNU C library to keep up to `size` freed bytes for reuse; return whether it could be told.

    By default it returns every array of more than 128 KiB to the system as soon as it is freed, and a training step
    then spends half of its time in page faults on the arrays of the next step (474 faults per step of a small
    convolutional network, 0.2 with this).
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, size) and mallopt(_M_TRIM_THRESHOLD, size))


def align_memory() -> bool:
    """Let NumPy's arrays of this thread begin with a line of the cache; return whether they do.

    Where a vector lies in two lines an access costs two: NumPy's sum of 10,000 elements takes 1.7 times as long.
    """
    return plugrad.kernels.why_none() is None and plugrad.kernels.module().align_memory()


class Functions:
    """NumPy's functions, of which some are in C: with the same results, and sooner there for small arrays.

    `halves` are those that compute half precision in single, round once, and whose gradients by their formulas are of
    half precision, too.
    """

    IN_C = {"add", "subtract", "multiply", "divide", "negative", "absolute", "square", "sqrt"}
    OPERATORS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv}

    def __init__(self):
        self.halves = () if plugrad.kernels.why_none() else {"add", "subtract", "multiply", "true_divide", "negative"}

    def __getattr__(self, name):
        function = getattr(numpy, name)
        name_of_ufunc = getattr(function, "__name__", name)  # numpy.true_divide is numpy.divide
        if name_of_ufunc in self.IN_C:
            function = native_function(name_of_ufunc, self.OPERATORS.get(name_of_ufunc, function))
        setattr(self, name, function)
        return function

    def over(self, name):
        """Return the ufunc of a name as a function that writes its result over its first operand."""
        ufunc = getattr(numpy, name)

        def over(*operands):
            return ufunc(*operands, operands[0])

        return native_function(ufunc.__name__, over, True) if ufunc.__name__ in self.IN_C else over


_halve = native_function("halve", lambda *arrays: NotImplemented)
_HALVES = {"fe", "ef", "fE", "Ef"}  # float32 to float16 and bfloat16 (E), and back
_MANY = 64  # elements from which on this is quicker than NumPy
_arrange = native_function("arrange", lambda *arrays: NotImplemented)
# The same of copies, and of those in another order.
_LONG, _WIDE = (1 << 15, 1 << 12) if plugrad.kernels.is_native(_arrange) else (sys.maxsize, sys.maxsize)


class CPU(Backend):
    """Host memory and NumPy."""

    name = "cpu"
    xp = numpy
    functions = Functions()
    array_type = numpy.ndarray
    numbered = False

    def __init__(self):
        if os.environ.get("PLUGRAD_KEEP_MEMORY") != "0":  # which leaves all allocators alone
            keep_freed_memory()
            align_memory()

    def from_numpy(self, array, index):
        return array

    def to_numpy(self, array):
        return array

    def cast(self, array, dtype):
        kinds = array.dtype.char + dtype.char
        if kinds in _HALVES and array.size >= _MANY and array.flags.c_contiguous:
            result, narrows = numpy.empty(array.shape, dtype), kinds[0] == "f"
            single, half = (array, result) if narrows else (result, array)
            if _halve(single, half, narrows) is None:
                return result
        if dtype.itemsize >= array.dtype.itemsize:
            return array.astype(dtype)
        with numpy.errstate(all="ignore"):  # what is too large becomes infinite
            return array.astype(dtype)

    def copy(self, array):
        if array.__class__ is numpy.ndarray and array.size >= (_LONG if array.flags.c_contiguous else _WIDE):
            result = numpy.empty(array.shape, array.dtype)
            if _arrange(array, result) is None:
                return result
        return array.copy()

    def generator(self, seed):
        return Source(seed)

    def scipy(self, name):
        return importlib.import_module(f"scipy.{name}")


@hookimpl
def plugrad_backends():
    return collect(Backend, globals())
