"""The order in which a gradient's elements lie in memory: that of the leaf which gets it.

PyTorch promises it of `.grad`, so that optimizers and programs that look at strides meet both in one order: a leaf
whose elements lie densely, in whatever order of the dimensions, has a gradient with its strides; any other a row-major
one.
"""

from __future__ import annotations

from plugrad.tensor.tensor import make


def in_order_of(leaf, array, xp):
    """Return the array of a gradient in the order of a leaf's array: itself, or a copy that nobody else holds."""
    if array.shape != leaf.shape or not array.size:
        return array
    wanted = _steps(leaf)
    result = xp.empty_like(leaf, dtype=array.dtype)
    if _steps(result) != wanted:
        result = xp.empty(leaf.shape, array.dtype)
    if _steps(result) == _steps(array):
        return array
    result[...] = array
    return result


def _steps(array) -> list:
    """The strides in elements of the dimensions that have more than one."""
    return [stride // array.itemsize for stride, n in zip(array.strides, array.shape) if n > 1]


def laid_out(g, tensor):
    """Return a gradient that is a tensor, and nobody else's, with its elements in the order of a leaf's."""
    if g._type.symbolic:
        return g
    return make(in_order_of(tensor._data, g._data, g._type.xp), g._type, g._edge)
