"""The CPU, on NumPy."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys

import numpy

from plugrad.extend import Backend, collect, hookimpl

from ._mersenne import Source

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library


def keep_freed_memory(size: int = 1 << 28) -> bool:
    """Tell the GNU C library to keep up to `size` freed bytes for reuse; return whether it could be told.

    By default it returns every array of more than 128 KiB to the system as soon as it is freed, and a training step
    then spends half of its time in page faults on the arrays of the next step (474 faults per step of a small
    convolutional network, 0.2 with this). `PLUGRAD_KEEP_MEMORY=0` leaves the allocator alone.
    """
    if not sys.platform.startswith("linux") or os.environ.get("PLUGRAD_KEEP_MEMORY") == "0":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, size) and mallopt(_M_TRIM_THRESHOLD, size))


class CPU(Backend):
    """Host memory and NumPy."""

    name = "cpu"
    xp = numpy
    array_type = numpy.ndarray
    numbered = False

    def __init__(self):
        keep_freed_memory()

    def from_numpy(self, array, index):
        return array

    def to_numpy(self, array):
        return array

    def generator(self, seed):
        return Source(seed)

    def scipy(self, name):
        return importlib.import_module(f"scipy.{name}")


@hookimpl
def plugrad_backends():
    return collect(Backend, globals())
