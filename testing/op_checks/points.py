"""Checks of an op where its samples are not: between and beyond them, at large numbers, in half floats."""

from __future__ import annotations

import math
from functools import partial

import numpy

import plugrad
from plugrad.testing.calls import Skip, agree, call, differentiable_outputs, each, graded, gradients, is_random, leaves
from plugrad.testing.op_checks.elementwise import operands, other_options, with_tensors
from plugrad.testing.op_checks.gradients import assert_right
from plugrad.testing.op_checks.variations import REFUSED, against_meta
from plugrad.testing.samples import Maker, Sample, inside
from plugrad.testing.tensors import differentiable, gradients_of_sum, is_float, tensors_in, to_numpy

POINTS, FAR = 1500, 250  # points between -4 and 4, and on each side beyond
LARGE = (30.0, 60.0, 90.0, 120.0, 500.0, 1e3, 1e4)  # the exponential of float32 ends at 88, that of float64 at 709


def dense_gradient(op, device):
    """The gradient is the slope at a thousand points, and far out, wherever that can be measured."""
    count, sample = operands(op)
    make = Maker(op.name + " dense", device=device)
    for place in range(count):
        x = _points(op, make.random)
        tensors = [make(**inside(op)).detach() for _ in range(count)]
        if is_random(op, with_tensors(sample, count, tensors)):
            raise Skip("the result is random")

        def values(moved, place=place, tensors=tensors):
            given = [*tensors[:place], plugrad.from_numpy(moved).to(device), *tensors[place + 1 :]]
            with plugrad.no_grad():
                return to_numpy(call(op, with_tensors(sample, count, given)))

        tensors[place] = plugrad.from_numpy(x).to(device).requires_grad_()
        outputs = differentiable(call(op, with_tensors(sample, count, tensors)))
        if len(outputs) != 1 or outputs[0].shape != x.shape or outputs[0].dtype is not plugrad.float64:
            continue
        (told,) = gradients_of_sum(outputs, [tensors[place]])
        tensors[place] = tensors[place].detach()
        if told is not None:
            _compare(x, to_numpy(told), *_slopes(values, x), f"operand {place}")


def _points(op, random):
    """Return points of an op's domain: many near zero, or in a narrow domain, and some far out."""
    low, high = (None, None) if op.domain is None else op.domain
    least, most = (-4.0 if low is None else low), (4.0 if high is None else high)
    least, most = (most - 8.0 if low is None else least), (least + 8.0 if high is None else most)
    far = 10.0 ** random.uniform(0.6, 3, FAR)
    near = random.uniform(least, most, POINTS)
    sides = [near, *([least - far] if low is None else []), *([most + far] if high is None else [])]
    return numpy.concatenate(sides)


def _slopes(values, x) -> tuple:
    """Return slopes measured at points, and how far off they may be."""
    with numpy.errstate(all="ignore"):
        step = 1e-4 * numpy.maximum(1.0, numpy.abs(x))
        ends = [(values(x + h), values(x - h), (x + h) - (x - h)) for h in (step, step / 2, step / 3)]
        coarse, fine, finest = ((up - down) / width for up, down, width in ends)
        rounding = 1e-13 * numpy.abs(ends[1][0]) / step
        return fine + (fine - coarse) / 3, numpy.maximum(abs(fine - coarse), abs(finest - fine)) + rounding


def _compare(x, told, slope, error, label) -> None:
    with numpy.errstate(all="ignore"):
        size = numpy.maximum(numpy.abs(slope), numpy.abs(told))
        wrong = (numpy.abs(told - slope) > 2e-3 * size + 4 * error) & (numpy.abs(told - slope) > 1e-9)
        wrong &= numpy.isfinite(slope) & (4 * error < 1e-2 * size)
    if wrong.sum() > 2:  # beside a jump one slope may be measured across it
        i = int(wrong.argmax())
        raise AssertionError(
            f"{label} at {x[i]:.6g}, and {int(wrong.sum()) - 1} more of {len(x)} points: the gradient is {told[i]:.9g},"
            f" measured is {slope[i]:.9g}"
        )


def large_numbers(op, device):
    """Where float64 has a finite result at large numbers that float32 can hold, float32 has one, too."""
    low, high = (None, None) if op.domain is None else op.domain
    points = [x for x in (*LARGE, *(-x for x in LARGE)) if (low is None or x > low) and (high is None or x < high)]
    if not points:
        raise Skip("its domain has no large numbers")
    if op.reduces:  # each of three equal numbers in a row
        columns = [numpy.repeat(numpy.array(points)[:, None], 3, 1)]
        sample = Sample((None,), {**other_options(op), "dim": 1})
    else:
        count, sample = operands(op)
        columns = [numpy.roll(numpy.array(points), 3 * i) for i in range(count)]
    outcomes = []
    for dtype in (plugrad.float32, plugrad.float64):
        tensors = [plugrad.from_numpy(column.copy()).to(dtype).to(device).requires_grad_() for column in columns]
        results = tensors_in(call(op, with_tensors(sample, len(columns), tensors)))
        outputs = differentiable(results)
        grads = gradients_of_sum(outputs, tensors) if outputs else []
        outcomes.append([("the result", y) for y in results] + [("a gradient", g) for g in grads if g is not None])
    for (what, narrow), (_, wide) in zip(*outcomes, strict=True):
        if not is_float(narrow):
            continue
        exact, rounded = to_numpy(wide), to_numpy(narrow)
        wrong = numpy.isfinite(exact) & (numpy.abs(exact) < 1e38) & ~numpy.isfinite(rounded)
        if wrong.any():
            i = int(wrong.argmax())
            inputs = ", ".join(f"{column.reshape(-1)[i * (column.size // exact.size)]:g}" for column in columns)
            raise AssertionError(
                f"at {inputs} {what} is {rounded.reshape(-1)[i]} in float32, and {exact.reshape(-1)[i]:g} in float64: "
                "a step on the way overflows"
            )


def zero_among(op, device):
    """The gradient of a reduction is right where one of the elements is 0."""
    done = 0
    for label, sample in each(op, device):
        given = leaves(sample)
        if sample.through is not None or len(given) != 1 or not given[0].numel():
            continue
        other = given[0].detach().clone()
        other.reshape(-1)[0] = 0.0
        with_zero = sample.map(lambda t, given=given, other=other: other.requires_grad_() if t is given[0] else t)
        with numpy.errstate(all="ignore"):
            try:
                differentiable_there = graded(op, with_zero)
            except REFUSED:
                continue
            if differentiable_there:
                assert_right(op, with_zero, f"{label} with a 0 as its first element")
                done += 1
    if not done:
        raise Skip("no sample is of one tensor that requires grad")


def equal_inputs(op, device):
    """Where two tensors of one shape are equal the gradient is not NaN, as long as the value is finite.

    One tensor in both places gives the same value as two equal ones.

    Where all elements are equal the gradient of a reduction adds up to its slope as all of them grow.
    """
    done = _assert_shared(op, device) if op.reduces else 0
    for label, sample in each(op, device):
        given = leaves(sample)
        twins = [t for t in given[1:] if t.shape == given[0].shape and t.dtype == given[0].dtype]
        if sample.through is not None or not twins:
            continue
        same = sample.map(lambda t, given=given, twins=twins: _equal(t, given[0], twins))
        try:
            pair = graded(op, same)
        except (ValueError, RuntimeError):  # it may refuse them
            continue
        if not pair or not all(bool(y.detach().isfinite().all()) for y in pair[0]):
            continue
        if not is_random(op, same):
            _assert_same_of_one(op, sample, twins, pair[0], label)
        for g in gradients_of_sum(*pair):
            assert g is None or not bool(g.isnan().any()), f"{label}, with equal tensors: a gradient is NaN"
        done += 1
    if not done:
        raise Skip("no sample has two tensors of one shape")


def _assert_same_of_one(op, sample, twins, expected, label) -> None:
    first = leaves(sample)[0]
    one = sample.map(lambda t: first if any(t is twin for twin in twins) else t)
    for number, (y, right) in enumerate(zip(differentiable_outputs(op, one), expected, strict=True)):
        agree(y, right, f"{label}, with one tensor in several places against equal ones, result {number}")


def _assert_shared(op, device) -> int:
    """Look at a reduction of equal elements, among which a maximum may choose; return how many samples could be."""
    done, step = 0, 1e-5
    for label, sample in each(op, device):
        given = leaves(sample)
        if sample.through is not None or len(sample.tensors()) != 1 or not given or not given[0].numel():
            continue
        fraction, exponent = math.frexp(float(given[0].detach().reshape(-1)[0]))
        height = math.ldexp(round(16 * fraction), exponent - 4)  # so short that means of it are exact

        def at(x, sample=sample):
            level = sample.map(lambda t: plugrad.full_like(t, x).requires_grad_())
            pair = graded(op, level)
            return pair and sum(float(y.detach().sum()) for y in pair[0]), pair

        try:
            (low, _), (middle, pair), (high, _) = at(height - step), at(height), at(height + step)
        except (ValueError, RuntimeError):
            continue
        if not pair or is_random(op, sample):
            continue
        told = sum(float(g.sum()) for g in gradients_of_sum(*pair) if g is not None)
        slopes = (middle - low) / step, (high - middle) / step
        smooth = numpy.isfinite([told, *slopes]).all() and abs(slopes[0] - slopes[1]) < 1e-3 * (1 + abs(slopes[0]))
        if smooth:
            slope = sum(slopes) / 2
            assert abs(told - slope) <= 1e-2 * (1e-2 + abs(slope)), (
                f"{label}, with equal elements: the gradient adds up to {told:.6g}, and the value grows by {slope:.6g} "
                "as all of them do: elements that are equal share it"
            )
            done += 1
    return done


def _equal(t, first, twins):
    return first.detach().clone().requires_grad_() if any(t is one for one in twins) else t


def halves(op, device):
    """In float16 values and gradients are those of float64 but for rounding; meta agrees on it and on bfloat16."""
    done = 0
    for label, sample in each(op, device):
        if sample.through is not None or not any(t.dtype is plugrad.float64 for t in sample.tensors()):
            continue
        for dtype in (plugrad.float16, plugrad.bfloat16):
            narrow = sample.map(lambda t, dtype=dtype: _moved(t, plugrad.float64, dtype))
            try:
                result = call(op, narrow)
            except REFUSED:
                continue
            where = f"{label} in {str(dtype).rpartition('.')[2]}"
            against_meta(op, narrow, tensors_in(result), where)
            if dtype is plugrad.float16 and not is_random(op, sample):
                wide = narrow.map(lambda t: _moved(t, plugrad.float16, plugrad.float64))
                _assert_half(result, call(op, wide), where)
                if graded(op, narrow) and graded(op, wide):
                    beside = [partial(_gradients_beside, op, wide, 1 + step) for step in (2**-9, -(2**-9))]
                    _assert_half(gradients(op, narrow), gradients(op, wide), f"{where}, gradient", 0.25, beside)
            done += 1
    if not done:
        raise Skip("it takes no half floats")


def _moved(tensor, dtype, other):
    """Return a tensor of one dtype in another, and any other tensor as it is."""
    return tensor.detach().to(other).requires_grad_(tensor.requires_grad) if tensor.dtype is dtype else tensor


def _gradients_beside(op, sample, factor):
    """Return the gradients where rounding may have put the numbers of a sample, beyond a kink, say."""

    def moved(t):
        return (t.detach() * factor).requires_grad_(t.requires_grad) if is_float(t) else t

    return gradients(op, sample.map(moved))


def _assert_half(result, exact, label, least=1e-3, beside=()) -> None:
    """Raise AssertionError unless results are exact but for the rounding of steps, or as in a place that is `beside`.

    `least` is the size of numbers on the way, whose differences results may be.
    """
    for number, (one, right) in enumerate(zip(tensors_in(result), tensors_in(exact), strict=True)):
        if not is_float(one) or one.shape != right.shape:
            continue
        actual, expected = to_numpy(one).astype(complex), to_numpy(right).astype(complex)
        wrong = _is_wrong(actual, expected, least)
        for other in beside:
            if wrong.any():
                wrong &= _is_wrong(actual, to_numpy(tensors_in(other())[number]).astype(complex), least)
        if wrong.any():
            i = int(wrong.reshape(-1).argmax())
            raise AssertionError(
                f"{label}, result {number}, element {i}: it is {actual.reshape(-1)[i].real:.6g}, and "
                f"{expected.reshape(-1)[i].real:.6g} in float64"
            )


def _is_wrong(actual, expected, least):
    with numpy.errstate(all="ignore"):
        plain = numpy.isfinite(expected) & (numpy.abs(expected) < 6e4)
        size = max(least, float(numpy.abs(numpy.where(plain, expected, 0)).max(initial=0)))
        return plain & ~(numpy.abs(actual - expected) <= 1e-2 * numpy.abs(expected) + 1e-2 * size)
