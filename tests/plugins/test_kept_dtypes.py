"""Results and gradients have the dtype of the inputs, whatever kernels and formulas compute in."""

import math

import pytest

import plugrad as torch
from plugrad import registry
from plugrad.testing import samples_of
from plugrad.testing.tensors import tensors_in


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_results_and_gradients_keep_the_dtype(dtype):
    """What kernels and formulas compute in a wider dtype comes back in the input's."""
    wanted, checked = getattr(torch, dtype), 0
    for name, op in registry.ops.items():
        if not op.differentiable or op.provider is None or not op.provider.builtin or name == "angle_of_complex":
            continue
        try:
            samples = samples_of(op, wanted)
        except Exception:  # samples that are not meant for this dtype
            continue
        for sample in samples:
            leaves = [t for t in tensors_in((sample.args, sample.kwargs)) if t.requires_grad]
            try:
                outputs = [y for y in tensors_in(sample.call(op.function)) if y.requires_grad]
            except (RuntimeError, TypeError, ValueError, KeyError):  # refused
                continue
            if not outputs or not leaves or any(t.dtype is not wanted for t in leaves):
                continue
            for create_graph in (False, True):
                try:
                    grads = torch.autograd.grad(
                        outputs, leaves, [torch.ones_like(y) for y in outputs], create_graph=create_graph,
                        retain_graph=True, allow_unused=True,
                    )  # fmt: skip
                except (RuntimeError, TypeError):  # refused, as are the gradients of some ops in low precision
                    continue
                for g in grads:
                    assert g is None or g.dtype is wanted, f"{name}: {g.dtype}"
                    checked += 1
    assert checked > 500


@pytest.mark.parametrize("name", ["max", "min", "median", "cummax", "aminmax", "mode"])
def test_values_beside_indices_keep_bfloat16(name):
    x = torch.tensor([[1.0, 5.0], [3.0, 2.0]], dtype=torch.bfloat16)
    values, others = getattr(torch, name)(x, dim=0)
    expected = {  # mode and median: of two values the smaller
        "max": ([3, 5], [1, 0]), "min": ([1, 2], [0, 1]), "median": ([1, 2], [0, 1]), "mode": ([1, 2], [0, 1]),
        "cummax": ([[1, 5], [3, 5]], [[0, 0], [1, 0]]), "aminmax": ([1, 2], [3, 5]),
    }  # fmt: skip
    assert (values.tolist(), others.tolist()) == expected[name]
    assert values.dtype is torch.bfloat16 and others.dtype is (torch.bfloat16 if name == "aminmax" else torch.int64)


def test_numbers_do_not_widen_gradients():
    special = torch.special
    for function, slope in (
        (lambda a: special.xlogy(a, 3.0), math.log(3)),
        (lambda a: special.xlog1py(a, 3.0), math.log(4)),
        (lambda a: torch.ldexp(a, torch.tensor(2)), 4.0),
    ):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        (g,) = torch.autograd.grad(function(x).sum(), x)
        assert g.dtype is torch.float32 and g.tolist() == pytest.approx([slope] * 2)
