"""Checks of backends against the CPU: each op on each device that can be used here, and that its own kernel ran."""

from __future__ import annotations

import contextlib
import functools

import plugrad
from plugrad import registry
from plugrad.testing.calls import Skip, call, graded, gradients, is_random, kernel_replaced
from plugrad.testing.comparison import assert_close
from plugrad.testing.samples import samples_of
from plugrad.testing.tensors import is_float, tensors_in

BUDGET = {"float64": 256, "float32": 256, "complex128": 256, "complex64": 256, "float16": 8, "bfloat16": 8}  # ULPs
DTYPES = ("float64", "float32")


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
    """The kernel gives on its backend what the op gives on the CPU, and it is the one that runs."""
    reason = registry.reason(kernel.backend)
    if reason is not None:
        raise Skip(f"device {kernel.backend!r} can't be used here: {reason}")
    op = registry.op(kernel.op_name)
    assert op.kernels.get(kernel.backend) is kernel.function, (
        f"op {kernel.op_name!r} runs another kernel on {kernel.backend!r}"
    )
    if kernel.backend == "cpu":
        raise Skip("it is the CPU's own")
    parity(op, device, kernel.backend)


def parity(op, device, backend):
    """Results and gradients on a backend are those of the CPU, within so many units in the last place."""
    done = 0
    with _counted(op, backend) as calls:
        for dtype in DTYPES:
            for number, sample in enumerate(samples_of(op, dtype=getattr(plugrad, dtype))):
                _compare(op, sample, backend, f"{backend}, {dtype}, sample {number} {sample}")
                done += 1
    if not done:
        raise Skip("no samples")
    assert calls is None or calls[0], f"the kernel that the op has for {backend!r} did not run"


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


def _compare(op, sample, backend, label):
    moved = sample.map(lambda t: t.detach().to(backend).requires_grad_(t.requires_grad))
    expected, actual = tensors_in(call(op, sample)), tensors_in(call(op, moved))
    assert len(expected) == len(actual), f"{label}: {len(actual)} results, on the CPU {len(expected)}"
    if is_random(op, sample):  # each device has random numbers of its own
        return
    given = sample.tensors()
    for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
        assert not given or one.device.type == backend, f"{label}: result {number} is on {one.device}"
        close(one, other, f"{label}, result {number}")
    if graded(op, sample):
        pairs = zip(gradients(op, moved), gradients(op, sample), strict=True)
        for number, (one, other) in enumerate(pairs):
            assert (one is None) == (other is None), f"{label}: gradient {number} is None on one device alone"
            if one is not None:
                assert one.device.type == backend, f"{label}: gradient {number} is on {one.device}"
                close(one, other, f"{label}, gradient {number}")


def close(actual, expected, label):
    """Assert that a result of a backend is within the budget of units in the last place of the largest element."""
    actual, expected = actual.detach().cpu(), expected.detach().cpu()
    unit = 0.0
    if is_float(expected):
        unit = BUDGET.get(expected.dtype.name, 8) * plugrad.finfo(expected.dtype).eps
    finite = expected.abs()[expected.isfinite()] if is_float(expected) else expected.reshape(-1)[:0]
    largest = float(finite.max()) if finite.numel() else 0.0
    try:
        assert_close(actual, expected, rtol=unit, atol=unit * largest, equal_nan=True)
    except AssertionError as error:
        raise AssertionError(f"{label}: {error}") from None
