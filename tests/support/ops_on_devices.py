"""Comparing what an op gives on a device with what it gives on the CPU."""

from __future__ import annotations

import plugrad
from plugrad import registry
from plugrad.testing import assert_close
from plugrad.testing.calls import call, differentiable_outputs, gradients, leaves, same_bits
from plugrad.testing.tensors import tensors_in
from support import known_failures

OURS = sorted(name for name, op in registry.ops.items() if op.provider.builtin and op.family != "factory")
HERE = {"cpu", "cuda", "from_numpy", "numpy", "pin_memory"}  # ops that are about the host or one device
UNSEEN = {name for name, checks in known_failures.read("cupy_on_cpu.txt").items() if "value" in checks}
NOBODYS = {"empty_like", "new_empty", "new_empty_strided"}  # whose values are nobody's


def to_device(sample, device):
    """Return a sample with its tensors on a device, as leaves of their own."""
    return sample.map(lambda t: t.detach().to(device).requires_grad_(t.requires_grad))


def close(one, other, rtol, atol):
    assert_close(one.detach().cpu(), other.detach(), rtol=rtol, atol=atol, equal_nan=True)


def draws(op, sample) -> bool:
    """Whether results depend on the seed, which gives a device numbers of its own."""
    results = []
    for seed in (0, 1):
        plugrad.manual_seed(seed)
        results.append(tensors_in(sample.map(lambda t: t.detach().clone()).call(op.function)))
    return not all([same_bits(one, other) for one, other in zip(*results)])


def shares(sample, results) -> list:
    """For each result the numbers of the inputs whose memory it shares; of what NumPy or CuPy hold."""
    inputs = tensors_in((sample.args, sample.kwargs))
    return [[n for n, x in enumerate(inputs) if _memory(x) == _memory(y) is not None] for y in tensors_in(results)]


def _memory(tensor):
    dense = tensor.layout is plugrad.strided and tensor.numel() and not tensor.is_conj()
    return tensor.untyped_storage().data_ptr() if dense else None


def of_size_one(sample):
    """Return a sample whose tensors have one element in each dimension."""
    return sample.map(lambda t: t.detach()[(slice(1),) * t.ndim].clone().requires_grad_(t.requires_grad))


def compare_values(op, sample, device, rtol=1e-10, atol=1e-12, random=False):
    """Assert that an op's results on the device are those on the CPU; return the sample on the device."""
    expected = call(op, sample)
    there = to_device(sample, device)
    results = tensors_in(call(op, there))
    given, shared, right = tensors_in((there.args, there.kwargs)), shares(there, results), shares(sample, expected)
    assert shared == right, f"which inputs' memory results share: {shared}, not {right}"
    for result, right in zip(results, tensors_in(expected), strict=True):
        assert not given or result.device.type == device, f"the result is on {result.device}"
        assert result.dtype is right.dtype and result.shape == right.shape, f"{result.dtype}{tuple(result.shape)}"
        if device == "cuda" and op.name not in UNSEEN:
            assert result.is_contiguous() or not right.is_contiguous(), f"it lies in memory by {result.stride()}"
        if not random and op.name not in NOBODYS:
            close(result, right, rtol, atol)
    return there


def compare(op, sample, device, orders=(False, True), rtol=1e-9, atol=1e-11, random=False):
    """Assert that an op gives on the device what it gives on the CPU, and its gradients too.

    `orders` says how these are found: by the plain walk, and by the one that is recorded. Of `random` numbers only
    shapes and types are compared.
    """
    there = compare_values(op, sample, device, rtol / 10, atol / 10, random)
    if not leaves(sample) or not differentiable_outputs(op, sample) or random or op.name in NOBODYS:
        return
    try:
        expected = gradients(op, sample)
    except NotImplementedError:  # it has none on the CPU either
        return
    for create_graph in orders:
        for g, right in zip(gradients(op, there, create_graph), expected, strict=True):
            assert (g is None) == (right is None)
            if g is not None:
                assert g.device.type == device, f"a gradient is on {g.device}"
                close(g, right, rtol, atol)
