"""The meta device: shapes, strides and dtypes without data.

An array is stood for by a NumPy array of the right shape and strides over a single element of memory. View ops run on
it as they are, since they compute strides and read nothing; for every other op its shape rule makes the result.
"""

from __future__ import annotations

import numpy

from plugrad.extend import Backend, collect, hookimpl, type_of


class MetaArray:
    """A shape, strides and a dtype; `outline` is the NumPy array over one element that carries them."""

    __slots__ = ("outline", "base", "__weakref__")

    def __init__(self, outline, base=None):
        self.outline, self.base = outline, base

    shape = property(lambda self: self.outline.shape)
    strides = property(lambda self: self.outline.strides)
    dtype = property(lambda self: self.outline.dtype)
    ndim = property(lambda self: self.outline.ndim)
    size = property(lambda self: self.outline.size)
    itemsize = property(lambda self: self.outline.itemsize)
    flags = property(lambda self: self.outline.flags)

    def astype(self, dtype):
        """Return elements of another dtype, in the same order of dimensions."""
        return empty(self.shape, dtype, (self.outline,))

    def copy(self):
        """Return another array of the same shape and dtype, in the same order of dimensions."""
        return empty(self.shape, self.dtype, (self.outline,))

    def __repr__(self):
        return f"MetaArray({self.shape}, {self.dtype})"


def _order(shape, operands):
    """Return the dimensions as NumPy lays out an elementwise result in memory, the outermost first.

    NumPy is asked for the result of the first two elements along each dimension, which takes next to no memory.
    """
    few = tuple(slice(2) for _ in shape)
    inputs = [numpy.broadcast_to(operand, shape)[few] for operand in operands]
    flags = [["readonly"]] * len(inputs) + [["writeonly", "allocate"]]
    walk = numpy.nditer([*inputs, None], op_flags=flags, op_dtypes=[None] * len(inputs) + ["B"], order="K")
    steps = walk.operands[-1].strides
    return sorted(range(len(shape)), key=lambda axis: -steps[axis])


def empty(shape, dtype, operands=()) -> MetaArray:
    """Return an array without data: contiguous, or laid out as NumPy does an elementwise result of operands."""
    shape = tuple(int(n) for n in shape)
    dtype = numpy.dtype(dtype)
    if 0 in shape or all(operand.flags.c_contiguous for operand in operands):
        order = range(len(shape))
    else:
        order = _order(shape, operands)
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return MetaArray(numpy.lib.stride_tricks.as_strided(numpy.empty(1, dtype), shape, strides))


class Meta(Backend):
    """Shape rules instead of kernels."""

    name = "meta"
    xp = numpy
    array_type = MetaArray
    symbolic = True

    def from_numpy(self, array, index):
        return empty(array.shape, array.dtype, (array,))

    def to_numpy(self, array):
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! A module is given memory by `module.to_empty(device='cpu')`"
        )

    def empty(self, shape, dtype, operands=()):
        """Return an array without data, laid out as an elementwise result of operands if there are any."""
        return empty(shape, dtype, [operand.outline for operand in operands])

    def probe(self, array):
        """Return a NumPy array of one element per dimension: for asking a kernel for its result's dtype."""
        return numpy.ones((1,) * array.ndim, array.dtype)

    def host_type(self, dtype):
        """Return the CPU tensor type of a dtype."""
        return type_of(numpy.empty(0, dtype))

    def view(self, op, raw):
        """Run a view op on the outline of its input."""
        source = raw[0]
        outline = source.outline
        try:
            made = op.compute(self.host_type(source.dtype), [outline, *raw[1:]])
        except ValueError:  # this view needs a copy, which would be contiguous
            whole = empty(source.shape, source.dtype).outline
            made = op.compute(self.host_type(source.dtype), [whole, *raw[1:]])
            if not isinstance(made, (tuple, list)):
                return empty(made.shape, made.dtype)
        if isinstance(made, (tuple, list)):
            return tuple(MetaArray(item, source) for item in made)
        # What NumPy computed anew has no base: it is no view.
        return empty(made.shape, made.dtype) if made.base is None else MetaArray(made, source)


@hookimpl
def plugrad_backends():
    return collect(Backend, globals())
