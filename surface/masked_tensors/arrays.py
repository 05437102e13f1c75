"""The data of masked tensors: an array of elements beside one that says which of them are seen.

Like an array it has `shape` and `dtype`, can be copied, cast and added: what a walk backward asks of a gradient.
"""

from __future__ import annotations

import numpy

from plugrad.extend import from_raw


class MaskedArray:
    """Raw arrays of elements and of a mask, both dense or both sparse of one pattern."""

    __array_priority__ = 2000  # before NumPy's own arrays and scalars
    strides = ()  # gradients have the order that they come in

    def __init__(self, data, mask):
        self.data, self.mask = data, mask

    @property
    def home(self) -> str:
        """The device type that the arrays are on."""
        return from_raw(self.data).device.type

    @property
    def base(self):
        """Whose memory it is: never its own, so that whoever wants to write, as to a `.grad`, copies it first."""
        return self.data

    @property
    def shape(self) -> tuple:
        """The size of each dimension."""
        return self.data.shape

    @property
    def dtype(self):
        """The dtype of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """How many elements there are, seen or not."""
        return self.data.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.data.itemsize

    def copy(self):
        """Return an array that shares no memory with this one."""
        return MaskedArray(self.data.copy(), self.mask.copy())

    def astype(self, dtype):
        """Return an array with elements of another dtype."""
        return MaskedArray(self.data.astype(dtype), self.mask)

    def filled(self):
        """Return the elements, with zero for those that are masked out."""
        if hasattr(self.data, "with_values"):
            return self.data.with_values(numpy.where(self.mask.values, self.data.values, 0).astype(self.dtype))
        return from_raw(self.data).masked_fill(from_raw(self.mask).logical_not(), 0)._data

    def __add__(self, other):
        """Return a sum of gradients: what one of them masks out adds nothing to it."""
        if not isinstance(other, MaskedArray):
            return self.filled() + other
        if hasattr(self.mask, "with_values"):
            seen = self.mask.with_values(self.mask.values | other.mask.values)
        else:
            seen = self.mask | other.mask
        return MaskedArray(self.filled() + other.filled(), seen)

    __radd__ = __add__

    def __iadd__(self, other):
        """Add in place, as to a `.grad`; no place for a sum with a dense array is here."""
        if not isinstance(other, MaskedArray):
            raise ValueError("a dense array can't be added to a masked one in place")
        total = self + other
        self.data, self.mask = total.data, total.mask
        return self

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        """Add to a dense array, in place too: what a gradient of ordinary ops and one of these come to."""
        if ufunc is not numpy.add or method != "__call__":
            return NotImplemented
        dense = inputs[0] if inputs[1] is self else inputs[1]
        if out is None:
            return self + dense
        out[0][...] += self.filled()
        return out[0]
