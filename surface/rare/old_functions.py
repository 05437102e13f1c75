"""Older names around Function: `FunctionMeta`, `BackwardCFunction`, `NestedIOFunction`."""

from __future__ import annotations

from plugrad.autograd import Function
from plugrad.autograd.function_node import FunctionNode as BackwardCFunction

__all__ = ["BackwardCFunction", "FunctionMeta", "NestedIOFunction"]

FunctionMeta = type(Function)  # PyTorch's Functions have a metaclass of their own, ours need none


class NestedIOFunction(Function):
    """The old base of Functions of nested arguments.

    Define `forward_extended` and `backward_extended`. Function itself takes nested lists, tuples and dicts of tensors:
    derive from that.
    """

    def forward(self, *args):
        """Compute the result, by `forward_extended`."""
        return self.forward_extended(*args)

    def backward(self, *grads):
        """Return a gradient for each input, by `backward_extended`."""
        return self.backward_extended(*grads)

    def forward_extended(self, *input):
        """Compute the result; overridden by every Function of this kind."""
        raise NotImplementedError("forward_extended() must be implemented by a NestedIOFunction")

    def backward_extended(self, *grad_output):
        """Return a gradient for each input; Functions of this kind override it."""
        raise NotImplementedError("backward_extended() must be implemented by a NestedIOFunction")
