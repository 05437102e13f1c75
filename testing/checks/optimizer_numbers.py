"""Checks of optimizers by the numbers of parameters and gradients: complex, tiny and large, many and few."""

from __future__ import annotations

import itertools

import plugrad
from plugrad.testing.calls import Skip
from plugrad.testing.checks.optimizer_steps import assert_equal, build, each, parameters, quadratic, sizes_of
from plugrad.testing.samples import Maker


def complex_parameters(cls, device):
    """Complex parameters, where it takes them, move as pairs of real numbers do."""
    for given in each(cls):
        make = Maker("complex parameters", device=device)
        pairs = [make(*size, 2).detach().requires_grad_() for size in sizes_of(cls)]
        numbers = [plugrad.view_as_complex(t.detach().clone()).requires_grad_() for t in pairs]
        try:
            one, other = build(cls, given, numbers), build(cls, given, pairs)
            for _ in range(4):
                one.zero_grad(), other.zero_grad()
                quadratic([plugrad.view_as_real(t) for t in numbers]).backward(), quadratic(pairs).backward()
                one.step(lambda numbers=numbers: quadratic([plugrad.view_as_real(t) for t in numbers]))
                other.step(lambda pairs=pairs: quadratic(pairs))
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            raise Skip("it does not take complex parameters") from None
        assert_equal([plugrad.view_as_real(t.detach()) for t in numbers], pairs, f"options {given}, complex numbers")


def scales(cls, device):
    """Where gradients are tiny or large, and beside those 0, a step is finite, and leads down."""
    for given, scale in itertools.product(each(cls), (1e-4, 1e6)):
        tensors = [plugrad.zeros_like(t).requires_grad_() for t in parameters(device, sizes_of(cls))]
        slopes = [plugrad.linspace(1.0, 1.5, max(t.numel(), 1), dtype=t.dtype).reshape(t.shape) for t in tensors]
        slopes = [(scale * slope).to(device) for slope in slopes]
        for slope in [slope for slope in slopes if slope.numel() > 1]:
            slope.reshape(-1)[0] = 0.0

        def closure(tensors=tensors, slopes=slopes):
            for t, slope in zip(tensors, slopes, strict=True):
                t.grad = slope.clone()
            return sum((slope * t).sum() for slope, t in zip(slopes, tensors, strict=True)).detach()

        build(cls, given, tensors).step(closure)
        for number, (t, slope) in enumerate(zip(tensors, slopes, strict=True)):
            where = f"options {given}: with gradients of about {scale:g} a step leads parameter {number}"
            assert bool(t.isfinite().all()), f"{where} to infinity"
            assert float((slope * t.detach()).sum()) < 0, f"{where} nowhere, or uphill"


def assert_by_elements(cls, given, device):
    """Assert that each element of a parameter is updated as it is in a small parameter."""
    (whole,) = parameters(device, ((64, 3),))
    parts = [row.clone().requires_grad_() for row in whole.detach()]
    one, other = build(cls, given, [whole]), build(cls, given, parts)
    for _ in range(4):
        whole.grad = whole.detach() - 0.25
        for part in parts:
            part.grad = part.detach() - 0.25
        one.step(lambda: plugrad.zeros(())), other.step(lambda: plugrad.zeros(()))
    assert_equal([whole], [plugrad.stack([part.detach() for part in parts])], f"options {given}, by itself, row by row")
