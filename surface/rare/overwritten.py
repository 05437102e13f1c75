"""What becomes of the history of a tensor that an op without gradient has written, such as a comparison in place."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.autograd import Function


class _Overwriting(Function):
    """The result of the op: its gradient is zero for all that it was made of."""

    @staticmethod
    def forward(ctx, result, *sources):
        return result.detach()

    @staticmethod
    def backward(ctx, g):
        return None, *[g.new_zeros(shape, dtype=dtype) for shape, dtype in ctx.sources]


def overwriting(op, target, result, values):
    """Return the result that an op without gradient writes to `target` as one that requires grad, as its inputs do."""
    sources = [value for value in values if isinstance(value, Tensor) and value.requires_grad]
    described = [(tuple(source.shape), source.dtype) for source in sources]
    function = type(op.node_name.rpartition("Backward")[0], (_Overwriting,), {"sources": described})
    return function.apply(result.to(target.dtype), *sources)
