"""The backward of a function as a function: gradients of higher orders are those of such functions."""

from __future__ import annotations

import operator

import plugrad
from plugrad.testing.tensors import differentiable, is_float, reals, recording, tensors_in


class Gradient:
    """A function of the arguments of `func`, of parameters, and of one gradient for each differentiable output.

    It returns the gradients of the arguments that are `wanted`, one bool for each tensor, and of the parameters. Called
    under no_grad it runs backward unrecorded.
    """

    def __init__(self, func, wanted, inputs: int, parameters):
        self.func, self.wanted, self.parameters = func, wanted, parameters
        self.inputs, self.given = inputs, inputs + len(parameters)
        self.kept = None, None, None  # the arguments of the last `repeated` call, their values, and what it recorded

    def __call__(self, *arguments):
        recorded = plugrad.is_grad_enabled()
        with recording():
            return self._pull(self._outputs(self.func, arguments), arguments, recorded, recorded)

    def repeated(self, *arguments):
        """Return the same, of what was recorded at the last such call if only gradients of outputs changed since."""
        recorded = plugrad.is_grad_enabled()
        tensors = tensors_in(arguments[: self.given])
        values = [reals(t).tobytes() for t in tensors if is_float(t)]
        before, then, outputs = self.kept
        same = before is not None and len(tensors) == len(before) and all(map(operator.is_, tensors, before))
        with recording():
            if not same or values != then:
                self.kept = None, None, None
                func = self.func.repeated if isinstance(self.func, Gradient) else self.func
                outputs = self._outputs(func, arguments)
                self.kept = tensors, values, outputs
            return self._pull(outputs, arguments, True, recorded)

    def _outputs(self, func, arguments):
        for tensor, want in zip(tensors_in(arguments[: self.inputs]), self.wanted, strict=True):
            if want and not tensor.requires_grad:
                tensor.requires_grad_()
        return differentiable(func(*arguments[: self.inputs]))

    def _pull(self, outputs, arguments, retain, create) -> tuple:
        if not outputs:
            return ()
        tensors = tensors_in(arguments[: self.inputs])
        chosen = [tensor for tensor, want in zip(tensors, self.wanted, strict=True) if want] + list(self.parameters)
        pulls = list(arguments[self.given :])
        grads = plugrad.autograd.grad(outputs, chosen, pulls, retain, create_graph=create, allow_unused=True)
        return tuple(g for g in grads if g is not None)
