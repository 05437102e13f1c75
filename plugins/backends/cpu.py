"""The CPU, on NumPy."""

from __future__ import annotations

import numpy

from plugrad.extend import Backend, collect, hookimpl


class CPU(Backend):
    """Host memory and NumPy."""

    name = "cpu"
    xp = numpy
    array_type = numpy.ndarray

    def from_numpy(self, array, index):
        return array

    def to_numpy(self, array):
        return array


@hookimpl
def plugrad_backends():
    return collect(Backend, globals())
