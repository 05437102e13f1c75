"""The order in which a gradient's elements lie in memory: that of the tensor which it is the gradient of.

PyTorch promises it of a leaf's `.grad`, so that optimizers and programs that look at strides meet both in one order: a
leaf whose elements lie densely, in whatever order of the dimensions, has a gradient with its strides; any other a
row-major one. And where a part of a tensor's memory was written, the same part of its gradient is looked for there.
"""

from __future__ import annotations

from plugrad.graph.modes import LEAF
from plugrad.tensor.tensor import make


def grad_for(tensor, array, ttype):
    """Return the array of a tensor's gradient in the order of the tensor's elements."""
    array = _in_shape_of(tensor, array, ttype, lambda shape: ttype.xp.broadcast_to(array, shape).copy())
    return in_order_of(tensor._data.strides, array, ttype)


def grad_tensor_for(tensor, g):
    """Return a gradient that is a tensor, and nobody else's, as `grad_for` has it."""
    g = _in_shape_of(tensor, g, g._type, lambda shape: g.expand(shape).clone())
    return laid_out(g, tensor._data.strides)


def _in_shape_of(tensor, g, ttype, broadcast):
    """Return the gradient of a leaf that may have got another shape after it was used; RuntimeError if it can't fit."""
    shape = tensor._data.shape
    if tensor._edge is not LEAF or tuple(g.shape) == shape or ttype.symbolic:
        return g
    try:
        return broadcast(shape)
    except (RuntimeError, ValueError):
        raise RuntimeError(
            f"a gradient of shape {tuple(g.shape)} reaches a leaf of shape {shape}: that had another shape when it was "
            "used, and got this one by `.data` or under no_grad(). Compute anew what you differentiate."
        ) from None


def in_order_of(strides, array, ttype):
    """Return an array of a tensor type in the order that strides say: itself, or a copy that nobody else holds."""
    if ttype.symbolic or not array.size or len(strides) != array.ndim:
        return array
    wanted, here = _steps(strides, array.shape), _steps(array.strides, array.shape)
    if wanted == here and sum(step * (n - 1) for step, n in zip(array.strides, array.shape)) < array.nbytes:
        return array  # densely, and only the strides of dimensions of one element differ
    order = sorted(range(array.ndim), key=lambda d: -strides[d])
    places = [order.index(d) for d in range(array.ndim)]
    result = ttype.xp.empty([array.shape[d] for d in order], array.dtype).transpose(places)
    if _steps(result.strides, array.shape) != wanted:
        result = ttype.xp.empty(array.shape, array.dtype)
    if _steps(result.strides, array.shape) == here:
        return array
    result[...] = array
    return result


def _steps(strides, shape) -> list:
    """The strides of the dimensions that have more than one element."""
    return [stride for stride, n in zip(strides, shape) if n > 1]


def laid_out(g, strides):
    """Return a gradient that is a tensor, and nobody else's, with its elements in the order that strides say."""
    data = g._data if g.is_sparse else in_order_of(strides, g._data, g._type)
    return g if data is g._data else make(data, g._type, g._edge)
