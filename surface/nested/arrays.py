"""The data of nested tensors: one array of all elements, and what says which of them make up which component.

Like an array it has `shape` and `dtype`, can be copied, cast and added: what a walk backward asks of a gradient.
"""

from __future__ import annotations

import functools
import math

import numpy

from plugrad.extend import from_raw
from plugrad.nested.sizes import RaggedSize, ragged_size
from plugrad.subclasses.held import HeldArray


class NestedArray(HeldArray):
    """What both layouts have: `values`, which may be None in what is only a pattern."""

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.values.size

    def pattern(self):
        """Return the same without values."""
        return self.with_values(None)

    def copy(self):
        """Return an array with a copy of the values."""
        return self.with_values(self.values.copy())

    def __add__(self, other):
        if not isinstance(other, NestedArray) or not self.is_like(other):
            raise ValueError("gradients of nested tensors add up if they have one pattern")
        return self.with_values(self.values + other.values)

    def __iadd__(self, other):
        self.values = (self + other).values
        return self


class JaggedArray(NestedArray):
    """One array in which the components lie one after another along a dimension.

    Component i has the places `offsets[i]` to `offsets[i + 1]`, or as many as `lengths[i]`. `ragged` says which
    dimension of the nested tensor that is; the values have one dimension less, having no batch.
    """

    layout = "jagged"

    def __init__(self, values, offsets, lengths=None, ragged=1):
        self.values, self.offsets, self.lengths, self.ragged = values, offsets, lengths, ragged
        self.ragged_size = ragged_size(offsets if lengths is None else lengths)

    @property
    def batch(self) -> int:
        """The number of components."""
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple:
        """The size of each dimension: a symbol in the place of that which varies."""
        shape = self.values.shape
        return (self.batch, *shape[: self.ragged - 1], self.ragged_size, *shape[self.ragged :])

    def with_values(self, values, ragged=None):
        """Return an array of the same offsets with other values, in which another dimension may be the ragged one."""
        return JaggedArray(values, self.offsets, self.lengths, ragged or self.ragged)

    def is_like(self, other) -> bool:
        """Whether another array is ragged in the same way."""
        return type(other) is JaggedArray and other.ragged_size == self.ragged_size and other.ragged == self.ragged

    @functools.cached_property
    def bounds(self) -> tuple:
        """Two arrays of NumPy's: where each component begins, and how long it is."""
        offsets = numpy.asarray(from_raw(self.offsets).tolist(), numpy.int64)
        lengths = offsets[1:] - offsets[:-1]
        return offsets[:-1], lengths if self.lengths is None else numpy.asarray(from_raw(self.lengths).tolist())

    @property
    def longest(self) -> int:
        """The length of the longest component."""
        return int(self.bounds[1].max(initial=0))

    def rows(self, total):
        """Return for each of `total` places of the values the number of its component, in NumPy's array."""
        numbers = numpy.searchsorted(self.bounds[0], numpy.arange(total), "right") - 1
        return numbers.clip(0)


class ListArray(NestedArray):
    """A flat array of the elements of components that have any sizes, one after another."""

    layout = "strided"

    def __init__(self, values, shapes):
        self.values, self.shapes = values, [tuple(shape) for shape in shapes]

    @property
    def shape(self) -> tuple:
        """The size of each dimension: a symbol where components differ."""
        return (len(self.shapes), *map(self._common, zip(*self.shapes)))

    @staticmethod
    def _common(sizes):
        return sizes[0] if len({*sizes}) == 1 else RaggedSize(sizes, None)

    def with_values(self, values):
        """Return an array of components of the same sizes with other values."""
        return ListArray(values, self.shapes)

    def is_like(self, other) -> bool:
        """Whether the components of another array have the same sizes."""
        return type(other) is ListArray and other.shapes == self.shapes

    @property
    def counts(self) -> list:
        """The number of elements of each component."""
        return [math.prod(shape) for shape in self.shapes]
