"""Backends whose arrays have a shape, strides and a dtype, and no data: shape rules run instead of kernels."""

from __future__ import annotations

import numpy

from plugrad.autograd.rare.orders import order_of_operands
from plugrad.devices.backend import Backend
from plugrad.devices.device import TensorType, device


class SymbolicBackend(Backend):
    """Base of symbolic backends, with `name`, `array_type`, `outline`, `from_outline`.

    The *outline* of an array is a NumPy array of its shape, strides and dtype over a single element of memory. View ops
    run on it as they are, since they compute strides and read nothing. For every other op its shape rule says shape
    and dtype of the result, and NumPy, asked about outlines, its layout.
    """

    xp = numpy
    symbolic = True
    numbered = False

    def outline(self, array) -> numpy.ndarray:
        """Return the outline of an array."""
        raise NotImplementedError(f"backend {self.name!r} does not give the outline of its arrays")

    def from_outline(self, outline: numpy.ndarray, base=None):
        """Return the array of an outline; `base` is the array that it views, or None."""
        raise NotImplementedError(f"backend {self.name!r} does not make arrays of outlines")

    def from_numpy(self, array, index):
        """Return an array of the shape, layout and dtype of a NumPy array."""
        return self.from_outline(_outline(array.shape, array.dtype, (array,)))

    def to_numpy(self, array):
        """Raise NotImplementedError: there is no data."""
        raise NotImplementedError(f"Cannot copy out of {self.name} tensor; no data!")

    def empty(self, shape, dtype, operands=()):
        """Return an array, contiguous or laid out as an elementwise op on `operands`."""
        return self.from_outline(_outline(shape, dtype, [self.outline(operand) for operand in operands]))

    def probe(self, array) -> numpy.ndarray:
        """Return a NumPy array of one element per dimension, to ask a kernel its dtype."""
        return numpy.ones((1,) * array.ndim, array.dtype)

    def host_type(self, dtype) -> TensorType:
        """Return the CPU tensor type that stands for a NumPy dtype in probes and outlines."""
        return device("cpu").tensor_type(numpy.dtype(dtype))

    def view(self, op, raw):
        """Return the results of a view op on an array, given the op's other arguments."""
        source = raw[0]
        outline = self.outline(source).view(_Unreadable)
        result = op.compute(self.host_type(source.dtype), [outline, *raw[1:]])
        if result is outline:
            return source
        if isinstance(result, (tuple, list)):
            return tuple(self._part(item, outline, source) for item in result)
        return self._part(result, outline, source)

    def _part(self, result, outline, source):
        if result is outline:
            return source
        if numpy.may_share_memory(result.view(_Unreadable), outline):
            return self.from_outline(result, source)
        return self.empty(result.shape, result.dtype)


class _Unreadable(numpy.ndarray):
    """An outline while a view op runs on it: there is no memory behind it that `reshape` could copy."""

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 else shape
        try:
            return super().reshape(shape, copy=False)
        except ValueError:
            if self.flags.c_contiguous:  # then it is the sizes that don't fit
                raise
            return _outline(self.shape, self.dtype).view(_Unreadable).reshape(shape)

    def __array_function__(self, function, types, args, kwargs):
        if function is numpy.may_share_memory:  # NumPy's answer goes by addresses, and outlines overlap at random
            return _memory(args[0]) is _memory(args[1])
        return super().__array_function__(function, types, args, kwargs)


def _memory(array):
    while array.base is not None:
        array = array.base
    return array


def _outline(shape, dtype, operands=()) -> numpy.ndarray:
    """Return an outline: contiguous, or laid out as an elementwise result of operands is."""
    shape = tuple(int(n) for n in shape)
    dtype = numpy.dtype(dtype)
    if 0 in shape or all(operand.flags.c_contiguous for operand in operands):
        order = range(len(shape))
    else:
        order = order_of_operands(shape, [(operand.shape, operand.strides) for operand in operands])
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return numpy.lib.stride_tricks.as_strided(numpy.empty(1, dtype), shape, strides)
