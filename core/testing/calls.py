"""What the checks of an op share: calling it with samples, its gradients, comparing with a label."""

from __future__ import annotations

import plugrad

from .comparison import assert_close
from .samples import Maker, samples_of
from .structure import is_float, tensors_in


class Skip(Exception):
    """Raised inside a check which does not apply; the case then returns the reason."""


def call(op, sample):
    """Call an op with a sample's arguments, its random numbers seeded."""
    plugrad.manual_seed(0)
    return sample.call(op.function)


def each(op, device):
    """Yield (what to call it, sample) for the samples of an op; skip where there are none."""
    found = samples_of(op, device=device)
    if not found:
        raise Skip("no samples")
    for number, sample in enumerate(found):
        yield f"sample {number} {sample}", sample


def leaves(sample) -> list:
    """Return the tensors of a sample that require grad."""
    return [t for t in tensors_in((sample.args, sample.kwargs)) if t.requires_grad]


def argument(sample, op, number) -> str:
    """Name the argument that holds the tensor at a place among those that require grad."""
    wanted = leaves(sample)[number]
    positional = zip(
        [*op.parameters, *[f"argument {i}" for i in range(len(sample.args))]], sample.args, strict=False
    )
    for name, value in [*positional, *sample.kwargs.items()]:
        if any(t is wanted for t in tensors_in(value)):
            return name
    return f"input {number}"


def agree(actual, expected, label, *, rtol=1e-10, atol=1e-12, **options):
    """Assert that two results are close, saying where."""
    try:
        assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True, **options)
    except AssertionError as error:
        raise AssertionError(f"{label}: {error}") from None


def differentiable_outputs(op, sample) -> list:
    """Return the outputs of an op that require grad."""
    return [y for y in tensors_in(call(op, sample)) if is_float(y) and y.requires_grad]


def gradients(op, sample, create_graph=False):
    """Return the gradients of an op's leaves for a fixed random grad_output."""
    outputs = differentiable_outputs(op, sample)
    wanted = leaves(sample)
    if not outputs or not wanted:
        raise Skip("no output requires grad")
    make = Maker(op.name + " cotangent")
    cotangents = [make(*y.shape, dtype=y.dtype, requires_grad=False).to(y.device) for y in outputs]
    return list(
        plugrad.autograd.grad(outputs, wanted, cotangents, create_graph=create_graph, allow_unused=True)
    )
