"""The order in which elements lie in memory: those of a gradient, and of the result of operands in several orders.

A gradient's order is that of the tensor which it is the gradient of. PyTorch promises it of a leaf's `.grad`, so that
optimizers and programs that look at strides meet both in one order: a leaf whose elements lie densely, in whatever
order of the dimensions, has a gradient with its strides; any other a row-major one. And where a part of a tensor's
memory was written, the same part of its gradient is looked for there.

In a result of operands the dimension lies outside in which the first operand that steps in both takes larger steps.
NumPy chooses rows as soon as any operand has them. `native/orders.inc` has the rule for NumPy's arrays.
"""

from __future__ import annotations

from plugrad.graph.modes import LEAF
from plugrad.kernels import module, why_none
from plugrad.tensor.tensor import Tensor, make


def order_of_operands(shape, operands) -> list:
    """Return the dimensions of the result of operands, each a shape and strides, from the outermost on."""

    def step(operand, d):
        d -= len(shape) - len(operand[0])
        return 0 if d < 0 or operand[0][d] == 1 else abs(operand[1][d])

    def lies_inside(one, other):
        for operand in operands:
            step_of_one, step_of_other = step(operand, one), step(operand, other)
            if step_of_one and step_of_other:
                if step_of_one != step_of_other:
                    return step_of_one < step_of_other
                if shape[one] < shape[other]:  # they overlap
                    return True
        return None  # no operand decides

    order = [d for d, n in enumerate(shape) if n != 1]
    for place in reversed(range(len(order) - 1)):
        for other in range(place + 1, len(order)):
            inside = lies_inside(order[place], order[other])
            if inside is False:
                break
            if inside:
                order[place], order[other], place = order[other], order[place], other
    return [d for d, n in enumerate(shape) if n == 1] + order


def _ordered(ttype, result, *operands):
    """Return the result of a function of elements as an array of a tensor type, in the order that operands give it."""
    if type(result) is not ttype.array_type:
        result = ttype.wrap(result)
    arrays = [array for array in operands if type(array) is type(result)]
    if not result.size or all([array.flags.c_contiguous for array in (result, *arrays)]):
        return result
    plain, *arrays = [getattr(array, "example", array) for array in (result, *arrays)]  # whose sizes do not vary
    order = order_of_operands(plain.shape, [(array.shape, array.strides) for array in arrays])
    places = sorted(range(result.ndim), key=order.__getitem__)
    wanted = ttype.xp.empty([result.shape[d] for d in order], result.dtype).transpose(places)
    if _steps(getattr(wanted, "example", wanted).strides, plain.shape) == _steps(plain.strides, plain.shape):
        return result
    wanted[...] = result
    return wanted


ordered = getattr(module(), "ordered", _ordered) if why_none() is None else _ordered


def order_others(array_type) -> None:
    """Have results of another type of arrays, too, lie in the order that their operands give them."""
    if ordered is not _ordered:
        module().order_others(array_type, _ordered)


def order_result(op, ttype, values, raw, result):
    """Return the result of an elementwise op in the order that PyTorch finds from the operands.

    Of operands of several dtypes that is the order after the cast.
    """
    if ttype.symbolic or ttype.is_open:
        return result
    places = [i for i in op.ordered_by if isinstance(values[i], Tensor)]
    arrays = [values[i]._raw for i in places]
    if len({array.dtype for array in arrays}) > 1:
        arrays = [raw[i] if raw[i] is array else ordered(ttype, raw[i], array) for i, array in zip(places, arrays)]
    return ordered(ttype, result, *arrays)


def grad_for(tensor, array, ttype):
    """Return the array of a tensor's gradient in the order of the tensor's elements."""
    array = _in_shape_of(tensor, array, ttype, lambda shape: ttype.xp.broadcast_to(array, shape).copy())
    return in_order_of(tensor._raw.strides, array, ttype)


def grad_tensor_for(tensor, g):
    """Return a gradient that is a tensor, and nobody else's, as `grad_for` has it."""
    g = _in_shape_of(tensor, g, g._type, lambda shape: g.expand(shape).clone())
    return laid_out(g, tensor._raw.strides)


def _in_shape_of(tensor, g, ttype, broadcast):
    """Return the gradient of a leaf that may have got another shape after it was used; RuntimeError if it can't fit."""
    shape = tensor._raw.shape
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
    data = g._raw if g.is_sparse else in_order_of(strides, g._raw, g._type)
    return g if data is g._raw else make(data, g._type, g._edge)
