"""Every op, and its gradients, captured and launched: bit by bit what it gives eagerly, or a clear refusal."""

import warnings

import pytest

import plugrad as torch
from plugrad import registry
from plugrad.testing import samples_of
from plugrad.testing.calls import differentiable_outputs, leaves, same_bits
from plugrad.testing.tensors import tensors_in
from support import known_failures
from support.ops_on_devices import HERE, NOBODYS, OURS, to_device

ABSENT = known_failures.read("cupy_on_cpu.txt")
KNOWN = known_failures.read("graphs.txt")
NAMES = [name for name in OURS if name not in {*HERE, *NOBODYS} and "value" not in ABSENT.get(name, ())]


def computed(op, sample):
    """Return the results of a call on fresh copies, and the gradients of what was given."""
    given = sample.map(lambda t: t.detach().clone().requires_grad_(t.requires_grad))
    results = tensors_in(given.call(op.function))
    outputs = [one for one in results if one.requires_grad]
    gradients = []
    if leaves(given) and outputs:
        ones = [torch.ones_like(one) for one in outputs]
        gradients = torch.autograd.grad(outputs, leaves(given), ones, allow_unused=True)
    return [one.detach() for one in (*results, *gradients) if one is not None]


def attempted(op, sample):
    """Return why an op can't be captured, None where its launches are right."""
    torch.cuda.manual_seed(0)
    eager = [one.clone() for one in computed(op, sample)]
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            found = computed(op, sample)
    except RuntimeError as error:
        assert "CUDA graph" in str(error), error
        assert not torch.cuda.is_current_stream_capturing()
        return str(error)
    for _ in range(2):
        torch.cuda.manual_seed(0)
        graph.replay()
        torch.cuda.synchronize()
        for one, wanted in zip(found, eager, strict=True):
            assert one.device.type == "cpu" or same_bits(one.cpu(), wanted.cpu())
    return None


@pytest.mark.parametrize("name", NAMES)
def test_op_in_a_graph(name, everything, on_stand_in):
    """A third of the ops where a part is wanted. On a GPU another algorithm of cuBLAS may change the last bits."""
    if not on_stand_in or not everything and NAMES.index(name) % 3:
        pytest.skip("bits are the stand-in's, or a part of them is wanted")
    op = registry.op(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            differentiable_outputs(op, samples_of(op)[0])
            refused = attempted(op, to_device(samples_of(op)[0], "cuda"))
        except NotImplementedError:  # there is no gradient
            return
    if name in KNOWN:
        assert refused, f"can be captured now, remove from tests/known/graphs.txt: {name}"
    else:
        assert refused is None, refused
