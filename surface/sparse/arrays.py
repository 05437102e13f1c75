"""The data of sparse tensors in coordinate form: NumPy arrays of indices and values.

Like an array it has `shape` and `dtype`, can be copied, cast and added: what a walk backward asks of a gradient.
"""

from __future__ import annotations

import math

import numpy

from plugrad.subclasses.held import HeldArray, adds_to_dense


def whole(shape) -> tuple:
    """Return a shape whose places can be numbered in 64 bits; RuntimeError for one that has more."""
    shape = tuple(shape)
    if math.prod([n or 1 for n in shape]) >= 1 << 63:
        raise RuntimeError(f"numel: integer multiplication overflow: the shape {shape} has 2 ** 63 places or more")
    return shape


class SparseArray(HeldArray):
    """Indices, values and a shape; `values` may be None in what is only a pattern.

    `indices` are (sparse dimensions, entries), in any order and with duplicates unless `is_coalesced`. Dimensions
    beyond those are dense: `values` is (entries, *dense dimensions).
    """

    home = "cpu"  # the device type that these arrays are on
    layout = "sparse_coo"
    batch_dim, blocksize = 0, ()  # what compressed ones may have

    def __init__(self, indices, values, shape, is_coalesced=False):
        self.indices, self.values, self.shape = indices, values, whole(shape)
        self.is_coalesced = is_coalesced or indices.shape[1] < 2

    @property
    def size(self) -> int:
        """How many elements a dense array of the shape has."""
        return int(numpy.prod(self.shape, dtype=numpy.int64))

    @property
    def entries(self) -> int:
        """How many entries are stored."""
        return self.indices.shape[1]

    @property
    def sparse_dim(self) -> int:
        """How many of the dimensions the indices are for."""
        return len(self.indices)

    def parts(self) -> tuple:
        """Return the arrays of indices."""
        return (self.indices,)

    def pattern(self):
        """Return the same without values."""
        return self.with_values(None)

    def with_values(self, values):
        """Return an array of the same pattern with other values, which may have other dense dimensions."""
        shape = self.shape if values is None else self.shape[: self.sparse_dim] + values.shape[1:]
        return SparseArray(self.indices, values, shape, self.is_coalesced)

    def is_like(self, other) -> bool:
        """Whether another array has the very same indices."""
        alike = type(other) is type(self) and other.layout == self.layout
        return alike and all(map(numpy.array_equal, self.parts(), other.parts()))

    def copy(self):
        """Return an array that shares no memory with this one."""
        return SparseArray(self.indices.copy(), self.values.copy(), self.shape, self.is_coalesced)

    # ------------------------------------------------------------------------------------------ forms

    def coordinates(self):
        """Return the array in coordinate form."""
        return self

    def order(self):
        """Return which of the values, in one row, is which entry in coordinate form; None if they are in that order."""
        return None

    def place(self, dims=None):
        """Return for each entry one number that says where it is, in some of the sparse dimensions or all."""
        dims = range(self.sparse_dim) if dims is None else dims
        number = numpy.zeros(self.entries, numpy.int64)
        for dim in dims:
            number *= self.shape[dim]
            number += self.indices[dim]
        return number

    def merged(self) -> tuple:
        """Return (the pattern with each place once, in order; for each entry the number of its place there)."""
        _, first, inverse = numpy.unique(self.place(), return_index=True, return_inverse=True)
        return SparseArray(self.indices[:, first], None, self.shape, True), inverse.reshape(-1)

    def coalesced(self):
        """Return the array with each place once, in order."""
        if self.is_coalesced:
            return self
        pattern, inverse = self.merged()
        values = numpy.zeros((pattern.entries, *self.values.shape[1:]), self.values.dtype)
        numpy.add.at(values, inverse, self.values)
        return pattern.with_values(values)

    def dense(self):
        """Return a dense NumPy array."""
        array = numpy.zeros(self.shape, self.dtype)
        self.add_to(array)
        return array

    def add_to(self, array) -> None:
        """Add the entries to a dense array, in place."""
        if self.sparse_dim:
            numpy.add.at(array, tuple(self.indices), self.values)
        else:  # each entry is of the whole shape
            array += self.values.sum(0, dtype=self.values.dtype)

    # ------------------------------------------------------------------------------------------ sums of gradients

    def __add__(self, other):
        if not isinstance(other, SparseArray):
            array = numpy.array(other, numpy.result_type(other, self.dtype))
            self.add_to(array)
            return array
        if self.is_like(other) and self.is_coalesced:
            return self.with_values(self.values + other.values)
        # A walk adds what arrives later, the gradient of the older node, in front: they are in the forward's order.
        indices = numpy.concatenate([other.indices, self.indices], 1)
        return SparseArray(indices, numpy.concatenate([other.values, self.values]), self.shape)

    __radd__ = __add__

    def __iadd__(self, other):
        """Add in place, as to a `.grad`; the sum with a dense array is another array, a dense one."""
        if not isinstance(other, SparseArray):
            return NotImplemented
        total = self + other
        self.indices, self.values, self.is_coalesced = total.indices, total.values, total.is_coalesced
        return self

    __array_ufunc__ = adds_to_dense
