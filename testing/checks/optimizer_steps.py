"""Small problems for the checks of optimizers, and what comes of some steps."""

from __future__ import annotations

import plugrad
from plugrad.testing.calls import agree
from plugrad.testing.checks.guesses import declared, options, or_skip
from plugrad.testing.samples import Maker, Sample, as_sample

SIZES = ((3, 4), (5,), (), (4, 3))  # the last one is transposed


def each(cls) -> list:
    """Return the options with which an optimizer is checked: those it declares, or usual ones; skip without any."""
    return or_skip(options_of, cls)


def options_of(cls) -> list:
    source = declared(cls)
    if source is None:
        return [options(cls, 1)]
    return [as_sample(given) for given in source(Maker(cls.__name__))]


def sizes_of(cls) -> tuple:
    """Return the shapes of the parameters with which an optimizer is checked: it may say in `sizes` which it takes."""
    return getattr(cls, "sizes", SIZES)


def parameters(device="cpu", sizes=SIZES) -> list:
    """Return leaf tensors of several shapes, the last of them not contiguous."""
    make = Maker("parameters", device=device)
    tensors = [make(*size).detach() for size in sizes]
    tensors[-1] = tensors[-1].t().contiguous().t()
    return [t.requires_grad_() for t in tensors]


def quadratic(tensors, sign=1.0):
    """Return half of the weighted squared distance from 1/4, elements weighted unequally."""
    total = 0.0
    for t in tensors:
        weights = plugrad.linspace(0.5, 1.5, max(t.numel(), 1), dtype=t.dtype, device=t.device).reshape(t.shape)
        total = total + 0.5 * (weights * (t - 0.25) ** 2).sum()
    return sign * total


def build(cls, given: Sample, tensors, **more):
    """Construct an optimizer over tensors, or over parameter groups."""
    return cls(tensors, *given.args, **{**given.kwargs, **more})


def steps(optimizer, tensors, count, sign=1.0) -> float:
    """Make some steps and return the loss before the last of them."""

    def closure():
        optimizer.zero_grad()
        loss = quadratic(tensors, sign)
        loss.backward()
        return loss

    loss = None
    for _ in range(count):
        loss = optimizer.step(closure)
    assert loss is not None, "step(closure) returns None: call the closure with gradients on, and return its result"
    return float(loss)


def assert_equal(some, others, label, rtol=1e-11, atol=1e-14):
    """Assert that parameters moved by two optimizers are the same but for rounding."""
    for number, pair in enumerate(zip(some, others, strict=True)):
        agree(*[t.detach() for t in pair], f"{label}: parameter {number}", rtol=rtol, atol=atol)
