"""The swish activation: `input * sigmoid(beta * input)`, and a layer that learns beta."""

from __future__ import annotations

import plugrad
from plugrad.extend import Module, Op, Parameter, collect, elementwise, hookimpl

plugrad_api = (1, 2)


@elementwise(tensors=("input", "beta"), promote="float")
def swish(xp, input, beta=1.0):
    """Swish of each element: input * sigmoid(beta * input).

    Args:
        input: float tensor of any shape.
        beta: number or tensor that broadcasts with `input`; 1 gives SiLU, large values approach ReLU.

    The formula is that of Ramachandran, Zoph and Le, "Searching for activation functions" (2017).

    >>> import plugrad as torch
    >>> torch.swish(torch.tensor([0.0, 2.0]))
    tensor([0.0000, 1.7616])
    """
    # The logistic function as exp(-log(1 + exp(-x))): it does not overflow, and is exact where it is tiny, too.
    return input * xp.exp(-xp.logaddexp(0.0, -beta * input))


@swish.vjp("input")
def swish_vjp_input(F, g, input, beta):
    gate = F.sigmoid(input * beta)
    return g * (gate + beta * input * gate * (1 - gate))


@swish.vjp("beta")
def swish_vjp_beta(F, g, input, beta):
    gate = F.sigmoid(input * beta)
    return g * input * input * gate * (1 - gate)


@swish.samples
def swish_samples(make):
    yield make(3, 4)
    yield make(3, 4), make(4)
    yield make(2, low=-800, high=800)


class Swish(Module):
    """Swish with a learnable beta.

    >>> import plugrad as torch
    >>> torch.nn.Swish(beta=2.0)(torch.tensor([1.0])).detach()
    tensor([0.8808])
    """

    def __init__(self, beta=1.0, *, device=None, dtype=None):
        super().__init__()
        self.start = beta
        self.beta = Parameter(plugrad.empty((), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set beta back to its value at construction."""
        with plugrad.no_grad():
            self.beta.fill_(self.start)

    def forward(self, input):
        return plugrad.swish(input, self.beta)

    def extra_repr(self):
        return f"beta={self.beta.item():g}"

    @staticmethod
    def samples(make):
        """Yield what to test it with: the constructor's arguments, and those of the call."""
        yield (), make(2, 3)
        yield 2.0, make(4)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
