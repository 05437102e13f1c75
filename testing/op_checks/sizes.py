"""Checks of an op with many numbers of elements, and of threads: kernels have other ways for some of them."""

from __future__ import annotations

import warnings
from contextlib import suppress

import plugrad
from plugrad.process_state.settings import NUMBER_OF_THREADS
from plugrad.testing.calls import Skip, agree, call, differentiable_outputs, each, is_random, outcome
from plugrad.testing.op_checks.elementwise import LARGE, large_sample, other_options
from plugrad.testing.op_checks.references import against_reference, reference
from plugrad.testing.op_checks.variations import REFUSED, with_slopes
from plugrad.testing.samples import Maker, Sample, inside

POWERS = [2**k for k in range(5, 13)]
SIZES = sorted({*range(1, 34), *POWERS, *(n - 1 for n in POWERS), *(n + 1 for n in POWERS), 100, 1000, 5000})
STEP = 1e-5  # of a measured slope
COUNTS = (1, 2, 3, 5)  # of threads


def elements(op, device):
    """The results, and gradients, of some elements are those of as many of a long row, whatever their number."""
    given = large_sample(op, device).map(lambda t: t[: SIZES[-1]])
    if is_random(op, given.map(lambda t: t[:8])):
        raise Skip("the result is random")
    whole = with_slopes(op, given)
    for n in SIZES[:-1]:
        alone = with_slopes(op, given.map(lambda t, n=n: t[:n].clone()))
        for (what, all_of_it), (_, right) in zip(whole, alone, strict=True):
            agree(right, all_of_it[:n], f"inputs of {n} elements against those of {SIZES[-1]}, {what}", rtol=1e-9)


def rows(op, device):
    """A reduction of rows of any length is that of the reference, and has the slope that its gradient says."""
    options, make = other_options(op), Maker(op.name + " sizes", device=device)
    if "dim" in op.parameters and "dim" not in op.defaults:
        options["dim"] = 0
    if is_random(op, Sample((make(8, **inside(op)),), options)):
        raise Skip("the result is random")
    function = None
    with suppress(Skip):
        function = reference(op.ref)
    for n in SIZES[1:]:  # of a single element there is no deviation
        sample = Sample((_apart(op, make, n),), options)
        label = f"an input of {n} elements"
        if function is not None:
            with suppress(*REFUSED):  # the check "value" says what the reference has not
                against_reference(op, function, sample.detached(), label)
        if op.differentiable and differentiable_outputs(op, sample):
            _assert_slope(op, sample, make, label)


def _apart(op, make, n):
    """Return a tensor of elements of which none is so near to another, or to 0, that a step changes their order."""
    bounds = inside(op)
    if "dtype" in bounds:
        return make(n, **bounds)
    low, high = bounds.get("low", -2.0), bounds.get("high", 2.0)
    places = low + (make.random.permutation(n) + 0.3) / n * (high - low)
    return plugrad.from_numpy(places).to(make.device).requires_grad_()


def _assert_slope(op, sample, make, label) -> None:
    """Assert that results change along one direction as the gradients say, where that can be measured."""
    (x,) = sample.tensors()
    direction = make(*x.shape, low=0.5, high=1.0).detach()
    outputs = differentiable_outputs(op, sample)
    (told,) = plugrad.autograd.grad([y.sum() for y in outputs], [x], allow_unused=True)
    if told is None:
        return

    def moved(step):
        with plugrad.no_grad():
            results = call(op, Sample((x.detach() + step * direction,), sample.kwargs))
        results = results if isinstance(results, (tuple, list)) else (results,)
        return sum(float(y.sum()) for y in results if y.is_floating_point())

    slopes = [(moved(step) - moved(-step)) / (2 * step) for step in (STEP, STEP / 2)]
    error = abs(slopes[0] - slopes[1])
    said = float((told * direction).sum())
    size = max(abs(said), abs(slopes[1]), 1e-3)
    assert not abs(said - slopes[1]) > 1e-4 * size + 8 * error or error > 1e-3 * size, (
        f"{label}: along one direction the slope is {slopes[1]:.9g}, and {said:.9g} by the gradient of argument "
        f"{op.parameters[0]!r}"
    )


def numbers_of_threads(op, device):
    """With any number of threads results and gradients are the same, but for the order in which is added up."""
    samples = [sample for _, sample in each(op, device)]
    with suppress(Skip):
        samples.append(large_sample(op, device) if op.broadcasts else _long_rows(op, device))
    samples = [sample for sample in samples if not is_random(op, sample)]
    if not samples:
        raise Skip("the result is random")
    every, before = [], NUMBER_OF_THREADS.read()
    try:
        for count in COUNTS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # without threadpoolctl the BLAS keeps its own
                plugrad.set_num_threads(count)
            every.append([outcome(op, sample) for sample in samples])
    finally:
        NUMBER_OF_THREADS.write(before)
    for count, outcomes in zip(COUNTS[1:], every[1:], strict=True):
        for number, (ours, theirs) in enumerate(zip(outcomes, every[0], strict=True)):
            for (what, one), (_, other) in zip(ours, theirs, strict=True):
                if one is not None and other is not None:
                    agree(one, other, f"sample {number}, {count} threads against 1, {what}", rtol=1e-9)


def _long_rows(op, device) -> Sample:
    """Return a sample of a reduction of many elements."""
    if not op.reduces:
        raise Skip("what it takes is not known")
    options, make = other_options(op), Maker(op.name + " long", device=device)
    if "dim" in op.parameters:
        options["dim"] = 1
    return Sample((make(4, LARGE // 4, **inside(op)),), options)
