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
        """Return contiguous elements of another dtype."""
        return empty(self.shape, dtype)

    def copy(self):
        """Return a contiguous array of the same shape and dtype."""
        return empty(self.shape, self.dtype)

    def __repr__(self):
        return f"MetaArray({self.shape}, {self.dtype})"


def _strides(shape, itemsize):
    steps, step = [], itemsize
    for n in reversed(shape):
        steps.append(step)
        step *= max(n, 1)
    return tuple(reversed(steps))


def empty(shape, dtype) -> MetaArray:
    """Return a contiguous array without data."""
    shape = tuple(int(n) for n in shape)
    dtype = numpy.dtype(dtype)
    return MetaArray(numpy.lib.stride_tricks.as_strided(numpy.empty(1, dtype), shape, _strides(shape, dtype.itemsize)))


class Meta(Backend):
    """Shape rules instead of kernels."""

    name = "meta"
    xp = numpy
    array_type = MetaArray
    symbolic = True

    def from_numpy(self, array, index):
        return empty(array.shape, array.dtype)

    def to_numpy(self, array):
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! A module is given memory by `module.to_empty(device='cpu')`"
        )

    def empty(self, shape, dtype):
        """Return a contiguous array without data."""
        return empty(shape, dtype)

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
