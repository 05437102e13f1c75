"""Checks of backends against the CPU: each op on each device that can be used here, and that its own kernel ran."""

from __future__ import annotations

import contextlib
import functools

import numpy

import plugrad
from plugrad import registry
from plugrad.testing.calls import Skip, call, gradients, is_random, kernel_replaced, leaves, outcome
from plugrad.testing.comparison import assert_close
from plugrad.testing.guises import GUISES
from plugrad.testing.samples import samples_of
from plugrad.testing.tensors import differentiable, is_float, tensors_in

BUDGET = {"float64": 256, "float32": 256, "complex128": 256, "complex64": 256, "float16": 8, "bfloat16": 8}  # ULPs
DTYPES = ("float64", "float32")
MOVES = {"cpu", "cuda"}  # to another device
IN_MEMORY = {"as_strided", "as_strided_copy", "resize_", "resize_as_"}  # look at what lies there, whatever the strides
ROUNDED = {"empty", "tiny", "large"}  # guises in which gradients may be differences of numbers that are almost equal
AMONG_EQUALS = {"topk", "kthvalue", "mode"}  # which of equal elements comes first each device decides


def available() -> list:
    """Return the names of the backends that can run here, other than cpu and meta."""
    names = []
    for name in sorted(registry.backends):
        if name in ("cpu", "meta"):
            continue
        if registry.reason(name) is None and not registry.backend(name).symbolic:
            names.append(name)
    return names


def of_op(op) -> dict:
    """Return the checks of an op on the backends that can be used here."""
    return {f"parity {name}": functools.partial(parity, backend=name) for name in available()}


def checks(kernel) -> dict:
    """Return the checks of a kernel for an op of another plugin."""
    return {"parity": kernel_parity}


def kernel_parity(kernel, device):
    """It is the kernel that runs, and gives what the op gives on the CPU; one for the CPU what that gives without."""
    reason = registry.reason(kernel.backend)
    if reason is not None:
        raise Skip(f"device {kernel.backend!r} can't be used here: {reason}")
    op = registry.op(kernel.op_name)
    assert op.kernels.get(kernel.backend) is kernel.function, (
        f"op {kernel.op_name!r} runs another kernel on {kernel.backend!r}"
    )
    if kernel.backend == "cpu":
        _against_general(op)
    else:
        parity(op, device, kernel.backend)


def _against_general(op) -> None:
    """Assert that an op gives with its kernel for the CPU what it gives with the one for any backend."""
    done = 0
    with _counted(op, "cpu") as calls:
        for label, sample, guise, _ in _cases(op, "cpu"):
            given = sample.map(GUISES[guise])
            try:
                with kernel_replaced(op, "cpu", None):
                    expected = outcome(op, given)
            except Exception:  # it refuses such inputs
                continue
            done += 1
            for (what, one), (_, other) in zip(outcome(op, given), expected, strict=True):
                if guise in ROUNDED and what.startswith("the gradient"):
                    continue
                where = f"{label}, {what}, against the kernel for any backend"
                assert (one is None) == (other is None), f"{where}: one of them is None"
                if one is not None:
                    close(one, other, where, given=given.tensors())
    if not done:
        raise Skip("no samples")
    assert calls[0], "the kernel that the op has for 'cpu' did not run"


def _cases(op, backend):
    """Yield (label, sample, guise, is random) for each dtype, sample and guise in which an op is compared."""
    for dtype in DTYPES:
        for number, sample in enumerate(samples_of(op, dtype=getattr(plugrad, dtype))):
            guises, random = _guises(op, sample)
            for guise in guises:
                yield f"{backend}, {dtype}, sample {number} {sample}, {guise}", sample, guise, random


def parity(op, device, backend):
    """Results and gradients on a backend are those of the CPU, within so many units in the last place.

    So they are for samples whose memory has strides, and for those with infinities, NaN, ties, tiny and large numbers.
    """
    done = 0
    with _counted(op, backend) as calls:
        for label, sample, guise, random in _cases(op, backend):
            done += _compare(op, sample.map(GUISES[guise]), backend, label, random, guise not in ROUNDED)
    if not done:
        raise Skip("no samples")
    assert calls is None or calls[0], f"the kernel that the op has for {backend!r} did not run"


def _guises(op, sample) -> tuple:
    """Return (the guises in which a sample is compared, whether its results are random).

    There are none where the CPU refuses the sample, which has checks of its own.
    """
    try:
        random = is_random(op, sample)
    except Exception:
        return [], False
    if random or op.name in IN_MEMORY:
        return ["contiguous"], random
    left_out = {"with ties"} if op.name in AMONG_EQUALS else set()
    left_out |= set() if op.names else {"empty"}  # ops of ops look at their inputs before
    return [name for name in GUISES if name not in left_out], False


@contextlib.contextmanager
def _counted(op, backend):
    """Count the calls of the kernel that an op has for a backend; None where it has none of its own."""
    own = op.kernels.get(backend)
    if own is None:
        yield None
        return
    calls = [0]

    @functools.wraps(own)
    def counted(*args, **kwargs):
        calls[0] += 1
        return own(*args, **kwargs)

    with kernel_replaced(op, backend, counted):
        yield calls


def _compare(op, sample, backend, label, random, with_gradients) -> bool:
    """Compare an op on a backend with the CPU; return whether the CPU takes the sample."""
    moved = sample.map(lambda t: _moved(t.detach(), backend).requires_grad_(t.requires_grad))
    try:
        expected = tensors_in(call(op, sample))
    except Exception:
        return False
    actual = tensors_in(call(op, moved))
    assert len(expected) == len(actual), f"{label}: {len(actual)} results, on the CPU {len(expected)}"
    if random:  # each device has random numbers of its own
        described = [[(t.shape, t.dtype) for t in results] for results in (actual, expected)]
        assert described[0] == described[1], f"{label}: the results are {described[0]}, on the CPU {described[1]}"
        return True
    given = sample.tensors()
    for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
        here = not given or op.name in MOVES or one.device.type == backend
        assert here, f"{label}: result {number} is on {one.device}"
        close(one, other, f"{label}, result {number}", given=given)
    recorded = [(differentiable(y), leaves(x)) for y, x in ((expected, sample), (actual, moved))]
    if with_gradients and all(recorded[0]):
        assert recorded[1][0], f"{label}: no result requires grad, on the CPU one does"
        try:
            expected = gradients(op, sample, recorded=recorded[0])
        except NotImplementedError:  # it has no derivative, and says so
            return True
        for number, (one, other) in enumerate(zip(gradients(op, moved, recorded=recorded[1]), expected, strict=True)):
            assert (one is None) == (other is None), f"{label}: gradient {number} is None on one device alone"
            if one is not None:
                assert one.device.type == backend, f"{label}: gradient {number} is on {one.device}"
                close(one, other, f"{label}, gradient {number}", given=given)
    return True


def _moved(tensor, backend):
    """Return a tensor on a backend, with steps in its memory where it has some."""
    moved = tensor.to(backend)
    return plugrad.stack([moved, moved], -1)[..., 0] if not tensor.is_contiguous() else moved


def close(actual, expected, label, least=0.0, given=()):
    """Assert that a result of a backend is within the budget of units in the last place of the largest element.

    These are of the coarsest dtype among the result and what was `given`: parts of an op may compute in that.
    `least`: the size that the largest element counts as, if it is smaller.
    """
    actual, expected = actual.detach().cpu(), expected.detach().cpu()
    if _are_equal(actual, expected):
        return
    dtypes = {one.dtype for one in (expected, *given) if is_float(expected) and is_float(one)}
    unit = max([BUDGET.get(dtype.name, 8) * plugrad.finfo(dtype).eps for dtype in dtypes], default=0.0)
    finite = expected.abs()[expected.isfinite()] if is_float(expected) else expected.reshape(-1)[:0]
    largest = max(least, float(finite.max()) if finite.numel() else 0.0)
    try:
        assert_close(actual, expected, rtol=unit, atol=unit * largest, equal_nan=True)
    except AssertionError as error:
        raise AssertionError(f"{label}: {error}") from None


def _are_equal(actual, expected) -> bool:
    """Whether two tensors are the same to the bit, which is told in a twentieth of the time of a comparison."""
    arrays = actual._raw, expected._raw
    return (
        all(type(array) is numpy.ndarray for array in arrays)
        and (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        and arrays[0].tobytes() == arrays[1].tobytes()
    )
