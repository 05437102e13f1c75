"""Every op on CUDA against the CPU: values, gradients of first and second order, and in other types."""

from __future__ import annotations

import functools
import warnings

import pytest

import plugrad as torch
from plugrad import registry
from plugrad.testing import samples_of
from plugrad.testing.calls import call
from support import known_failures
from support.ops_on_devices import HERE, OURS, compare, compare_values, draws

TYPES = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.int64: 1e-5, torch.complex64: 1e-4}
LISTS = {True: "cupy_on_cpu.txt", False: "gpu.txt"}  # by whether it is the stand-in
KNOWN = {stand_in: known_failures.read(file) for stand_in, file in LISTS.items()}


def settle(name, check, failures, stand_in):
    """What is listed, for the stand-in or for a GPU, has to fail, and nothing else may."""
    if check in KNOWN[stand_in].get(name, ()):
        assert failures, f"passes now, remove from tests/known/{LISTS[stand_in]}: {name} {check}"
    else:
        assert not failures, "\n\n".join(failures.values())


def attempt(failures, check, label, function):
    try:
        function()
    except Exception as error:
        failures.setdefault(check, f"{label}: {type(error).__name__}: {error}"[:3000])


@pytest.mark.parametrize("name", [name for name in OURS if name not in HERE])
def test_op_on_cuda(name, everything, on_stand_in):
    """With all samples, or with the first alone where a part is wanted."""
    op, failures = registry.op(name), {}
    if not everything and "value" in KNOWN[on_stand_in].get(name, ()):
        pytest.skip("listed; the full run looks at it")
    samples = samples_of(op)
    for number, sample in enumerate(samples if everything else samples[:1]):
        orders = (False, True) if everything else (False,)
        attempt(
            failures, "value", f"{name}, sample {number} {sample}",
            lambda sample=sample, orders=orders: compare(op, sample, "cuda", orders, random=draws(op, sample)),
        )  # fmt: skip
    settle(name, "value", failures, on_stand_in)


def cast(tensor, dtype):
    """Return a tensor of another type, integers and bools as they are."""
    if not tensor.is_floating_point():
        return tensor
    whole = (tensor * 3).round() if dtype is torch.int64 else tensor
    return whole.detach().to(dtype).requires_grad_(tensor.requires_grad and dtype is not torch.int64)


@pytest.mark.parametrize("name", [name for name in OURS if name not in HERE])
def test_op_in_other_types(name, everything, on_stand_in):
    """What the CPU computes in a type CUDA computes too, and what it refuses CUDA refuses."""
    if not everything or "value" in KNOWN[on_stand_in].get(name, ()):
        pytest.skip("a part of the full run, of ops that the device has")
    op, failures = registry.op(name), {}
    for dtype, error in TYPES.items():
        for sample in samples_of(op)[:2]:
            given, label = sample.map(lambda t, dtype=dtype: cast(t, dtype)), f"{name} in {dtype} {sample}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call(op, given)
                except Exception as expected:
                    def refused(given=given, expected=expected):
                        with pytest.raises(Exception) as caught:
                            call(op, given.map(lambda t: t.to("cuda")))
                            torch.cuda.synchronize()
                        kinds = (torch.AcceleratorError, *type(expected).__mro__[:-3])  # by name, or told later
                        assert caught.errisinstance(kinds), f"{caught.value!r}, not {expected!r}"

                    attempt(failures, "types", label, refused)
                else:
                    def agree(given=given, error=error):
                        compare_values(op, given, "cuda", error, error, draws(op, given))

                    attempt(failures, "types", label, agree)
                    if not on_stand_in and "types" not in failures:
                        attempt(failures, "types", f"gradient of {label}", functools.partial(
                            compare, op, given, "cuda", (False,), 10 * error, 10 * error, draws(op, given)
                        ))  # fmt: skip
    settle(name, "types", failures, on_stand_in)
