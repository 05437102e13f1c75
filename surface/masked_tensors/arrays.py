"""The data of masked tensors: an array of elements beside one that says which of them are seen.

Like an array it has `shape` and `dtype`, can be copied, cast and added: what a walk backward asks of a gradient.
"""

from __future__ import annotations

import numpy

from plugrad.extend import from_raw
from plugrad.subclasses.held import HeldArray, adds_to_dense


class MaskedArray(HeldArray):
    """Raw arrays of elements and of a mask, both dense or both sparse of one pattern."""

    def __init__(self, data, mask):
        self.data, self.mask = data, mask

    @property
    def values(self):
        """The elements, seen or not."""
        return self.data

    @property
    def shape(self) -> tuple:
        """The size of each dimension."""
        return self.data.shape

    @property
    def size(self) -> int:
        """How many elements there are, seen or not."""
        return self.data.size

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
        return from_raw(self.data).masked_fill(from_raw(self.mask).logical_not(), 0)._raw

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

    def add_to(self, array) -> None:
        """Add the elements that are seen to a dense array, in place."""
        array[...] += self.filled()

    __array_ufunc__ = adds_to_dense
