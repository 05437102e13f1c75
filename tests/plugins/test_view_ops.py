"""Ops that may return a view: a result marked as one has its input's memory, any other has its own."""

import numpy
import pytest

import plugrad as torch
from plugrad import registry
from plugrad.testing import samples_of
from plugrad.testing.tensors import tensors_in

VIEWS = sorted(name for name, op in registry.ops.items() if op.family == "view" and op.provider.builtin)


def backwards(x):
    return x.permute(tuple(reversed(range(x.ndim))))


LAYOUTS = {
    "plain": lambda x: x,
    "reversed dimensions": lambda x: backwards(backwards(x).contiguous()),
    "a part": lambda x: torch.stack([x, x], -1)[..., 0],
    "a copy by reshape": lambda x: torch.stack([x, x], 0).transpose(0, -1).reshape(-1)[: x.numel()].reshape(x.shape),
}


@pytest.mark.parametrize("name", VIEWS)
def test_marked_as_a_view_where_memory_is_shared(name):
    op, count = registry.op(name), 0
    for sample in samples_of(op):
        for arrange in LAYOUTS.values():
            moved = sample.map(lambda t, arrange=arrange: arrange(t.detach()))
            (given,) = tensors_in(moved.args[:1])
            try:
                results = tensors_in(moved.call(op.function))
            except RuntimeError:  # `view` refuses a layout that needs a copy
                continue
            for result in results:
                if result is not given and result.numel():
                    shared = numpy.shares_memory(result._raw, given._raw)
                    assert result._is_view() == (shared or op.follows), given.stride()
                    count += 1
    assert count


STRIDED = {
    "of a broadcast input": (lambda x: x.expand(4, 3), (4, 3), (0, 1), 0),
    "part of a broadcast input": (lambda x: x.expand(4, 3), (2, 2), (1, 0), 1),
    "of windows": (lambda x: x.as_strided((2, 2), (1, 1)), (3,), (1,), 0),
    "into windows": (lambda x: x, (2, 2), (1, 1), 0),
    "beyond the input": (lambda x: x[1:], (3,), (1,), 0),
}


@pytest.mark.parametrize("name", STRIDED)
def test_gradients_of_explicit_layouts_where_elements_share_memory(name):
    before, *layout = STRIDED[name]
    x = torch.arange(3.0, dtype=torch.float64).requires_grad_()

    def strided(x):
        return before(x).as_strided(*layout)

    if name == "beyond the input":  # what stands in memory before a slice is no input of as_strided: no gradient
        strided(x).sum().backward()
        assert x.grad.tolist() == [0, 1, 1]
    else:
        assert torch.autograd.gradcheck(strided, [x]) and torch.autograd.gradgradcheck(strided, [x])
