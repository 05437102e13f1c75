"""What gradient formulas are written with, beside the ops themselves."""

from __future__ import annotations

import numpy

from plugrad.dispatch.formulas import conj
from plugrad.tensor.shapes import axes

__all__ = ["complement", "conj", "keep_dims", "multilinear"]


def multilinear(op, *names, without=()) -> None:
    """Declare that an op is linear in each of some inputs, for forward derivatives.

    Their tangents then go through the op itself, in place of the input, with the others as they are.

    Args:
        op: the record.
        *names: inputs in which it is linear.
        without: inputs that are merely added, such as a bias: None is given for them.
    """
    op.jvps += [_OpItself(op, name, without) for name in names]


class _OpItself:
    """The rule for the tangent of one input of a multilinear op: see `plugrad.dispatch.op.Formula`."""

    def __init__(self, op, name, without):
        self.op, self.inputs, self.without = op, (name,), without
        self.asks = self.wants = tuple([other for other in op.parameters if other != name and other not in without])
        self.function, self.name = self.push, f"{op.name} itself"

    def push(self, F, tangent, *others):
        """Return the op of the tangent in place of the input."""
        values = dict(zip(self.asks, others)) | dict.fromkeys(self.without) | {self.inputs[0]: tangent}
        named = {name: values[name] for name in self.op.keyword_only}
        return F(self.op)(*[values[name] for name in self.op.positional], **named)


def keep_dims(F, g, shape, dim, keepdim):
    """Return a reduction's gradient `g` with its reduced dimensions as size 1.

    >>> import numpy, plugrad
    >>> from plugrad.extend import keep_dims
    >>> keep_dims(plugrad.extend.F, plugrad.ones(2), (2, 3), 1, False).shape
    torch.Size([2, 1])
    """
    if keepdim or not len(shape):
        return g
    if dim is None or (isinstance(dim, (tuple, list)) and not len(dim)):
        return F.reshape(g, (1,) * len(shape))
    reduced = axes(dim, len(shape))
    reduced = reduced if isinstance(reduced, tuple) else (reduced,)
    return F.reshape(g, tuple(1 if i in reduced else n for i, n in enumerate(shape)))


_ONES: dict = {}  # NumPy dtype -> 1 as a 0-d array


def complement(F, value):
    """Return 1 - value, for gradient formulas: quicker than the operator.

    >>> import numpy
    >>> from plugrad.extend import F, complement
    >>> complement(F, numpy.array([0.25, 1.0]))
    array([0.75, 0.  ])
    """
    if type(value) is not numpy.ndarray:
        return 1 - value
    one = _ONES.get(value.dtype)
    if one is None:
        one = _ONES[value.dtype] = numpy.ones((), value.dtype)
    return one - value
