"""Checks of an op beyond its samples: options at other values, special points, other dtypes, its other kernel."""

from __future__ import annotations

import re

import numpy

import plugrad
from plugrad.testing.calls import Skip, agree, call, described, each, graded, is_random, kernel_replaced, outcome
from plugrad.testing.checks.documents import text_of
from plugrad.testing.op_checks.elementwise import LARGE, large_sample, operands, with_tensors
from plugrad.testing.op_checks.gradients import assert_right
from plugrad.testing.op_checks.option_values import varied
from plugrad.testing.op_checks.references import against_reference, reference
from plugrad.testing.samples import Maker, Sample, inside
from plugrad.testing.tensors import gradients_of_sum, is_float, is_float_dtype, reals, tensors_in, to_numpy

POINTS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0)  # where samples do not go, and formulas divide by nothing
BYTES = ([3, 5, 5, 200, 1, 255, 0, 7], [5, 3, 5, 100, 255, 1, 9, 2], [2, 2, 1, 3, 9, 4, 1, 7])
REFUSED = (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError)  # what an op may say of its options


# ---------------------------------------------------------------------------------------------------- options


def options(op, device):
    """With each option at another value its value, gradient and meta result are right, too."""
    done = 0
    for label, sample in varied(op, device):
        try:
            real = tensors_in(call(op, sample.detached()))
            differentiable = op.differentiable and graded(op, sample)
        except (*REFUSED, AssertionError):  # options may exclude each other, and `inplace` a gradient
            continue
        done += 1
        against_reference_of(op, sample, label)
        against_meta(op, sample, real, label)
        if differentiable:
            assert_right(op, sample, label)
    if not done:
        raise Skip("no option has a default that tells other values")


def lists(op, device):
    """Of a list of a single tensor, and of twice as many, the gradient is right, too, or it is refused."""
    done = 0
    for label, sample in each(op, device):
        given = sample.args[0] if sample.args else None
        if not isinstance(given, (list, tuple)) or len(given) < 2 or sample.through is not None:
            continue
        longer = [*given, *Sample((given,)).copied().args[0]]
        several = f"{len(longer)} tensors"
        for what, tensors in ("a single tensor", given[:1]), ("a single tensor", given[-1:]), (several, longer):
            changed = Sample(([*tensors], *sample.args[1:]), sample.kwargs)
            try:
                differentiable = graded(op, changed)
            except REFUSED:
                continue
            if differentiable:
                assert_right(op, changed, f"{label} with {what} in argument {op.parameters[0]!r}")
                done += 1
    if not done:
        raise Skip("no list of its samples can be shorter or longer")


def against_reference_of(op, sample, label):
    """Assert that results are those of the op's reference, if it has one and that takes the sample."""
    if op.ref is None or sample.through is not None:
        return
    try:
        against_reference(op, reference(op.ref), sample, label)
    except (Skip, *REFUSED):  # the reference may not have the option
        return


def against_meta(op, sample, real, label):
    """Assert that the meta device tells shape and dtype of the results; what it refuses is another check's."""
    try:
        symbolic = tensors_in(call(op, sample.map(lambda t: t.detach().to("meta"))))
    except (NotImplementedError, RuntimeError):  # the check "meta device" says why
        return
    for number, (one, other) in enumerate(zip(real, symbolic, strict=True)):
        facts = [(tuple(t.shape), t.dtype) for t in (one, other)]
        assert facts[0] == facts[1], f"{label}, result {number}: meta says {facts[1]}, it is {facts[0]}"


# ---------------------------------------------------------------------------------------------------- special points


def special_points(op, device):
    """Gradients are right at 0, 1, 1/2 and 2 and their negatives, where that is inside of the domain, too."""
    count, sample = operands(op)
    low, high = (None, None) if op.domain is None else op.domain
    points = [x for x in POINTS if (low is None or x > low) and (high is None or x < high)]
    make = Maker(op.name + " points", device=device)
    for place in range(count):
        for x in points:
            tensors = [make(**inside(op)).detach().requires_grad_() for _ in range(count)]
            tensors[place] = plugrad.tensor(x, dtype=plugrad.float64, device=device, requires_grad=True)
            given = with_tensors(sample, count, tensors)
            if graded(op, given):
                assert_right(op, given, f"operand {place} at {x}")


def large(op, device):
    """Of many elements results and gradients are what they are for half of them, and for a few, alone."""
    given = large_sample(op, device)
    if is_random(op, given.map(lambda t: t[:8])):
        raise Skip("the result is random")
    whole, half = with_slopes(op, given), LARGE // 2 + 1
    for part in (slice(None, half), slice(half, None), slice(None, 8), slice(LARGE - 8, None)):
        alone = with_slopes(op, given.map(lambda t, part=part: t[part]))
        label = f"inputs of {LARGE} elements against {alone[0][1].numel()} of them"
        for (what, all_of_it), (_, right) in zip(whole, alone, strict=True):
            agree(all_of_it[part], right, f"{label}, {what}", rtol=1e-9)


def with_slopes(op, sample) -> list:
    """Return pairs (what, tensor) of the result of a call, and of the gradients of the sum of its elements."""
    sample = sample.map(lambda t: t.requires_grad_(op.differentiable))
    result, inputs = call(op, sample), sample.tensors()
    slopes = gradients_of_sum([result], inputs) if result.requires_grad else ()
    named = [(f"the gradient of input {i}", g) for i, g in enumerate(slopes) if g is not None]
    return [("the result", result.detach()), *named]


# ---------------------------------------------------------------------------------------------------- dtypes


def precision(op, device):
    """In float32 values and gradients are those of float64 at the same point, but for rounding."""
    for label, sample in each(op, device):
        narrow = sample.map(lambda t: _cast(t, _NARROW))
        try:
            rounded = _everything(op, narrow)
        except REFUSED:  # the check "promotion" says which dtypes must do
            continue
        _assert_narrow(op, sample, rounded, f"{label} in float32")
        if not is_random(op, sample):
            _assert_rounded(op, rounded, narrow.map(lambda t: _cast(t, _WIDE)), f"{label} in float32")


def _everything(op, sample) -> list:
    """Return pairs (what, tensor) of the results of a call and its gradients."""
    return [(what, tensor) for what, tensor in outcome(op, sample) if tensor is not None]


def _assert_narrow(op, sample, rounded, label):
    """Assert that a result of float32 inputs is not a float64, where all that is not float is left as it was."""
    given = sample.tensors()
    said = "dtype" in op.parameters or re.search(r"float64|double|complex128", text_of(op))
    if said or sample.through is not None or any(t.dtype not in _NARROW for t in given):
        return
    for what, one in rounded:
        assert one.dtype not in _NARROW, (
            f"{label}, {what}: it is {one.dtype}; keep the dtype of the input, or say float64 in the docstring"
        )


_NARROW = {plugrad.float64: plugrad.float32, plugrad.complex128: plugrad.complex64}
_WIDE = {narrow: wide for wide, narrow in _NARROW.items()}


def _cast(tensor, table):
    if tensor.dtype not in table:
        return tensor
    return tensor.detach().to(table[tensor.dtype]).requires_grad_(tensor.requires_grad)


def _assert_rounded(op, rounded, wide, label):
    """Assert that tensors differ from those in float64 by no more than rounding, of the inputs or on the way."""
    expected = _everything(op, wide)
    given = wide.tensors()
    size = max((numpy.abs(_finite(t)).max(initial=0.0) for t in given), default=0.0)
    for number, ((what, one), (_, right)) in enumerate(zip(rounded, expected, strict=True)):
        if not is_float(right) or not is_float(one) or one.dtype is right.dtype:
            continue
        assert one.shape == right.shape, f"{label}, {what}: its shape is {tuple(one.shape)}"
        values, exact = reals(one), reals(right)
        known = numpy.isfinite(exact)
        scale = numpy.abs(exact[known]).max(initial=0.0)
        with numpy.errstate(all="ignore"):
            allowed = 64 * plugrad.finfo(one.dtype).eps * (numpy.abs(exact) + scale + min(size, 1 + scale))
            wrong = known & ~(numpy.abs(values - exact) <= allowed)
            if wrong.any():
                wrong &= ~(numpy.abs(values - exact) <= allowed + 16 * _spread(op, wide, number, exact))
        if wrong.any():
            place = int(wrong.argmax())
            raise AssertionError(
                f"{label}, {what}: value {place} is {values[place]:.9g}, and in float64, at the same point, "
                f"{exact[place]:.9g}"
            )


def _finite(tensor):
    values = reals(tensor) if is_float(tensor) else numpy.zeros(0)
    return values[numpy.isfinite(values)]


def _spread(op, sample, number, exact):
    """Return how much results move when float inputs do, by some units in the last place of float32."""
    random, far = numpy.random.default_rng(0), numpy.zeros(len(exact))
    for _ in range(3):
        moved = sample.map(lambda t: _moved(t, random))
        other = reals(_everything(op, moved)[number][1])
        with numpy.errstate(invalid="ignore"):
            far = numpy.fmax(far, numpy.abs(other - exact)) if other.shape == exact.shape else far + numpy.inf
    return far


def _moved(tensor, random):
    if not is_float(tensor):
        return tensor
    return (tensor.detach() * (1 + 2e-7 * float(random.uniform(-1, 1)))).requires_grad_(tensor.requires_grad)


def complex_gradient(op, device):
    """Gradients of complex inputs agree with measured slopes, where the op takes them."""
    done = 0
    for label, sample in each(op, device):
        if sample.through is not None or any(t.dtype.is_complex for t in sample.tensors()):
            continue
        turned = sample.map(_turned)
        try:
            if is_random(op, turned) or not graded(op, turned):
                continue
        except REFUSED:  # it does not take complex numbers
            continue
        try:
            assert_right(op, turned, f"{label}, complex")
        except AssertionError as error:
            advice = "write conj(F, ...) around factors of the formula, or declare complex=False"
            raise AssertionError(f"{error}; {advice}") from None
        done += 1
    if not done:
        raise Skip("it does not take complex numbers")


def _turned(tensor):
    """Return a complex tensor for a float tensor that requires grad; imaginary parts are less than a half."""
    if not (tensor.requires_grad and is_float(tensor)):
        return tensor
    array = to_numpy(tensor)
    slant = 0.25 * numpy.random.default_rng(array.size).uniform(-1, 1, array.shape)
    return plugrad.from_numpy(numpy.asarray(array + 1j * slant)).to(tensor.device).requires_grad_()


def whole_numbers(op, device):
    """Of whole numbers the value is the same in integers, where the op takes them, as in float64.

    What an op of no family gives in integers may be rounded: it is compared where all that float64 gives is whole.
    In 32, 16 and 8 bits elementwise ops are compared where the value fits.
    """
    if getattr(op, "promote", None) == "bits":
        raise Skip("it is of bits, which are others for the same number in another dtype")
    done = 0
    for label, sample in each(op, device):
        if any(isinstance(value, float) for value in (*sample.args, *sample.kwargs.values())):
            continue  # integers may not be able to hold it
        given = sample.tensors()
        if sample.through is not None or any(t.dtype.is_complex or _are_parts(t) for t in given):
            continue
        whole = sample.map(lambda t: t.detach().round() + 0.0 if is_float(t) else t)  # + 0.0: not -0.0
        rest = Sample(whole.args[1:], whole.kwargs).map(lambda t: t.abs() if is_float(t) else t)  # no power of -1
        whole = Sample((*whole.args[:1], *rest.args), rest.kwargs)
        most = max((float(t.detach().abs().max()) for t in whole.tensors() if is_float(t) and t.numel()), default=0)
        for dtype in (plugrad.int64, *(_FEWER_BITS if op.broadcasts else ())):
            if most > plugrad.iinfo(dtype).max:
                break
            counted = whole.map(lambda t, dtype=dtype: t.to(dtype) if is_float_dtype(t.dtype) else t)
            try:
                actual, expected = tensors_in(call(op, counted)), tensors_in(call(op, whole))
            except (*REFUSED, ArithmeticError):
                break
            if is_random(op, counted):
                break
            for number, (one, right) in enumerate(zip(actual, expected, strict=True)):
                _assert_counted(op, to_numpy(one), to_numpy(right), f"{label} in {dtype}, result {number}")
            done += 1
    if not done:
        raise Skip("it does not take integers")


_FEWER_BITS = (plugrad.int32, plugrad.int16, plugrad.int8)


def _are_parts(tensor) -> bool:
    """Whether numbers lie between 0 and 1, as probabilities do: rounded, they would mean something else."""
    return is_float(tensor) and tensor.numel() > 1 and bool(((tensor > 0) & (tensor < 1)).all())


def _assert_counted(op, values, exact, label):
    """Assert that a result of whole numbers in integers is the one in float64."""
    if values.dtype.kind == "i" and values.dtype.itemsize < 8 and values.shape == exact.shape:
        fits = (exact == numpy.round(exact)) & (numpy.abs(exact) < numpy.iinfo(values.dtype).max)
        values, exact = values[fits], exact[fits]
    if numpy.issubdtype(values.dtype, numpy.inexact):
        agree(values, exact, label, rtol=1e-4, atol=1e-5, check_dtype=False)
    elif numpy.isfinite(exact).all() and (op.broadcasts or op.reduces or (exact == numpy.round(exact)).all()):
        agree(values.astype("float64"), exact.astype("float64"), label)


def bytes_(op, device):
    """In uint8 a result is what it is in float64, wherever that is a whole number which fits."""
    count, sample = operands(op)
    tensors = [plugrad.tensor(row, dtype=plugrad.uint8, device=device) for row in BYTES[:count]]
    given = with_tensors(sample, count, tensors)
    try:
        actual, expected = call(op, given), call(op, given.map(lambda t: t.double()))
    except (*REFUSED, ArithmeticError):
        raise Skip("it does not take bytes") from None
    values, exact = to_numpy(actual), to_numpy(expected)
    if values.dtype != numpy.uint8 or is_random(op, given):
        raise Skip("it does not give bytes")
    fits = (exact == numpy.round(exact)) & (exact >= 0) & (exact < 256)
    agree(values[fits].astype("float64"), exact[fits].astype("float64"), "whole numbers in uint8 against float64")


def python_numbers(op, device):
    """A Python number in place of an operand gives what a tensor without dimensions gives there."""
    done = 0
    count, sample = operands(op)
    make = Maker(op.name + " numbers", device=device)
    for place in range(count):
        tensors = [make(3, **inside(op)) for _ in range(count)]
        number = make(**inside(op)).item()
        single, plain = list(tensors), list(tensors)
        single[place], plain[place] = plugrad.tensor(number, dtype=plugrad.float64, device=device), number
        single, plain = with_tensors(sample, count, single), with_tensors(sample, count, plain)
        try:
            actual = _everything(op, plain)
        except REFUSED:  # not every operand may be a number
            continue
        except Exception as error:
            name = op.parameters[place]
            raise AssertionError(f"argument {name!r} a Python number: it raises {described(error)}") from error
        for (what, one), (_, other) in zip(actual, _everything(op, single), strict=True):
            agree(one, other, f"argument {op.parameters[place]!r} a Python number, {what}")
        done += 1
    if not done:
        raise Skip("it takes no Python numbers")


# ---------------------------------------------------------------------------------------------------- kernels


def general_kernel(op, device):
    """The general kernel gives what the CPU's own gives."""
    for label, sample in each(op, device):
        plain = sample.detached()
        expected = tensors_in(call(op, plain))
        with kernel_replaced(op, "cpu", None):
            results = tensors_in(call(op, plain))
        for number, (one, other) in enumerate(zip(results, expected, strict=True)):
            agree(one, other, f"{label}, result {number} of the general kernel against that for 'cpu'")
