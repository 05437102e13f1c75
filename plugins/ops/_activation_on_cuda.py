"""Activation functions, and what limits elements to a range, on CUDA: a launch for each, and one for its slopes."""

from __future__ import annotations

import functools
import pathlib

from plugrad.extend import load_inline, native

load = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_name("activation.cu"), like=0, per="pack", types="floating"
)


def slopes(call, xp, g, values, *numbers):
    """What is in different orders is copied first: one launch, where the formula has many."""
    result = call(g, values, *numbers)
    if result is NotImplemented:
        return call(xp.ascontiguousarray(g), xp.ascontiguousarray(values), *numbers)
    return result


def on_cuda(op, name=None, given=lambda *rest: rest, numbers=None, more=()) -> None:
    """Give an op of one array its kernel of activation.cu, and one for its gradient, NAME_grad.

    `given` returns the `numbers` that the kernels take from the op's other arguments, by default these, and None for
    what they do not serve; the gradient's kernel takes `more` beside them.
    """
    name, numbers = name or op.name, len(op.parameters) - 1 if numbers is None else numbers

    @op.kernel("cuda")
    @native(load(name=name, arrays=1, numbers=numbers), otherwise=op, halves=True)
    def forward(call, xp, input, *rest):
        taken = given(*rest)
        return NotImplemented if taken is None else call(input, *taken)

    @op.vjp_kernel("cuda")
    @native(load(name=f"{name}_grad", arrays=2, numbers=numbers + len(more)))
    def backward(call, xp, g, input, *rest):
        taken = given(*rest)
        return NotImplemented if taken is None else slopes(call, xp, g, input, *taken, *more)
