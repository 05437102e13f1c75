"""Copies of arrays in host memory, in C where that is quicker."""

from __future__ import annotations

import sys

import numpy

from plugrad.kernels.joining import is_native, native_function

_arrange = native_function("arrange", lambda *arrays: NotImplemented)
# Elements from which a copy in C repays the way to it, where there is one: in another order, and in the same, which
# several threads copy.
MANY, LONG = (1 << 12, 1 << 15) if is_native(_arrange) else (sys.maxsize, sys.maxsize)


def copy_to(result, array) -> None:
    """Write an array to another of its shape and dtype, whichever order each is in."""
    if array.__class__ is numpy.ndarray and array.size >= MANY:
        to, source = result, array
        if not to.flags.c_contiguous:
            order = sorted(range(to.ndim), key=lambda dim: -to.strides[dim])
            to, source = to.transpose(order), source.transpose(order)
        if to.flags.c_contiguous and _arrange(source, to) is None:
            return
    result[...] = array
