"""Writes between forward and backward that PyTorch takes are taken, and harmless: with the samples of PyTorch's op_db.

`test_saved_values.py` compares both ways, with our own samples; these reach further overloads and options. What is
refused here alone is listed.
"""

from __future__ import annotations

import warnings

import numpy
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs it")
    import opinfo

import opinfo_binding
from opinfo_checks import spread, tensors_in
from opinfo_convert import Converter, Unconvertible, to_numpy

import plugrad

REFUSED = {
    "singular and eigenvectors are computed in backward, not already in forward": """
        linalg.cond input 0, linalg.eigvals input 0, linalg.eigvalsh input 0, linalg.matrix_norm input 0,
        linalg.norm input 0, linalg.svdvals input 0, norm:nuc input 0""",
    "backward computes from the logits again what PyTorch keeps, which saves memory": """
        nn.functional.cross_entropy input 0""",
    "PyTorch takes the gradients in forward, chunk by chunk, where it may": """
        nn.functional.linear_cross_entropy:chunked input 0, nn.functional.linear_cross_entropy:chunked input 1,
        nn.functional.linear_cross_entropy:chunked input 2""",
    "PyTorch multiplies a copy, which it makes to lay out the operands": """
        kron input 0, kron input 1, nn.functional.instance_norm input 3""",
    "PyTorch keeps the scaled input": "nn.functional.scaled_dot_product_attention input 1, special.ndtr input 0",
    "PyTorch keeps the result, from which the gradient of a negative modulus can't be told": """
        polar input 0, polar input 1""",
    "the powers are a running product, which PyTorch copies": "linalg.vander result 0",
    "PyTorch keeps what it made of the mask": """
        masked.amax input 1, masked.amin input 1, masked.cumprod input 1, masked.cumsum input 1,
        masked.log_softmax input 1, masked.logaddexp input 2, masked.logaddexp input 3, masked.logsumexp input 1,
        masked.mean input 1, masked.norm input 1, masked.prod input 1, masked.softmax input 1, masked.softmin input 1,
        masked.std input 1, masked.sum input 1, masked.var input 1""",
    "a conjugate is a copy, from which nothing would reach the tensor": "H result 0, conj result 0, mH result 0",
}
KNOWN = {tuple(entry.split()) for entries in REFUSED.values() for entry in entries.split(",")}
OVERLAP = {"as_strided", "unfold"}  # results with elements that are one in memory, which are then written several times
SAMPLES = 3
PROVIDED = [key for key in opinfo.select(plugrad)[0] if opinfo.database()[key].supports_autograd]

pytestmark = pytest.mark.usefixtures("one_thread")


class _Inputs(Converter):
    """Makes the leaves of a call, and hands what is no leaf to the op, which may be written."""

    def __init__(self, library):
        super().__init__(library)
        self.inputs = []

    def tensor(self, tensor):
        made = super().tensor(tensor)
        self.inputs.append(made.clone() if tensor.requires_grad else made)
        return self.inputs[-1]


class Call:
    """One call in one library, and the gradients of its results for the leaves."""

    def __init__(self, library, function, sample):
        convert = _Inputs(library)
        arguments = convert((sample.input, *sample.args)), convert(sample.kwargs)
        self.library, self.leaves, self.input = library, convert.leaves, convert.inputs
        library.manual_seed(0)
        self.result = list(tensors_in(function(*arguments[0], **arguments[1])))

    def gradients(self):
        outputs = [y for y in self.result if y.requires_grad]
        pulls = [self.library.ones_like(y) for y in outputs]
        found = self.library.autograd.grad(outputs, self.leaves, pulls, allow_unused=True)
        return [numpy.zeros(()) if g is None else to_numpy(g) for g in found]


def after_write(library, function, sample, place, number):
    """Return the gradients after a tensor that went in or came out was written; None where that is refused."""
    call = Call(library, function, sample)
    tensor = getattr(call, place)[number]
    try:
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.add_(1)
        else:
            tensor.copy_(tensor.clone())
        return call.gradients()
    except RuntimeError:
        return None


def same(one, other) -> bool:
    return all(
        numpy.array_equal(a, b, equal_nan=True) or not (a.any() or b.any()) for a, b in zip(one, other, strict=True)
    )


def differences(key, dtype) -> tuple[set, set]:
    """Return what is refused here alone, and what gives other gradients when it is written."""
    op, refused, wrong = opinfo.database()[key], set(), set()
    functions = {library: opinfo_binding.bind(op, library) for library in (torch, plugrad)}
    for sample in spread(op.sample_inputs("cpu", dtype, requires_grad=True), SAMPLES):
        try:
            theirs = Call(torch, functions[torch], sample)
            if not any(y.requires_grad for y in theirs.result):
                continue
            theirs.gradients()
        except (Unconvertible, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            continue
        right = Call(plugrad, functions[plugrad], sample).gradients()
        for place in ("input", "result"):
            for number in range(len(getattr(theirs, place))):
                ours = after_write(plugrad, functions[plugrad], sample, place, number)
                if ours is not None and not same(ours, right):
                    wrong.add((key, place, str(number)))
                elif ours is None and after_write(torch, functions[torch], sample, place, number) is not None:
                    refused.add((key, place, str(number)))
    return refused, wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", PROVIDED)
def test_writes_that_pytorch_takes(key):
    refused, wrong = set(), set()
    for dtype in {torch.float64, torch.complex128} & opinfo.database()[key].supported_backward_dtypes("cpu"):
        for entries, more in zip((refused, wrong), differences(key, dtype)):
            entries |= more
    assert refused == {entry for entry in KNOWN if entry[0] == key}
    assert not wrong or key in OVERLAP


def test_lists_name_entries():
    assert {entry[0] for entry in KNOWN} | OVERLAP <= set(PROVIDED)
