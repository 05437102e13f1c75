"""`once_differentiable`: a backward that is not a differentiable computation itself."""

from __future__ import annotations

import functools

from plugrad import Tensor, is_grad_enabled, nest, no_grad
from plugrad.autograd import Function

__all__ = ["Once", "once_differentiable"]


class Once(Function):
    """The identity on the results of such a backward, which refuses to be differentiated and says why."""

    @staticmethod
    def forward(ctx, why, results, sources):
        ctx.why = why
        return tuple([result.detach() for result in results])

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(ctx.why)


def once_differentiable(backward):
    """Mark the `backward` of a Function as one that can't be differentiated again.

    >>> import plugrad as torch
    >>> class Twice(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @torch.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return torch.from_numpy(grad.numpy() * 2)
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> Twice.apply(x).sum().backward()
    >>> x.grad
    tensor([2.])
    """

    @functools.wraps(backward)
    def wrapper(ctx, *grads):
        with no_grad():
            results = backward(ctx, *grads)
        tensors = [leaf for leaf in nest.leaves(results) if isinstance(leaf, Tensor)]
        sources = [tensor for tensor in (*grads, *ctx.saved_tensors) if isinstance(tensor, Tensor)]
        if not tensors or not is_grad_enabled() or not any([tensor.requires_grad for tensor in sources]):
            return results
        why = (
            "trying to differentiate twice a function that was marked with @once_differentiable"
            f" ({ctx.name()}): write its backward with differentiable operations and remove the decorator"
        )
        kept = iter(Once.apply(why, tensors, sources))
        return nest.change(lambda leaf: next(kept) if isinstance(leaf, Tensor) else leaf, results)

    return wrapper
