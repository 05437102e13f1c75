"""Results of composites are views of what they are in PyTorch, and may be written in place where they may be there."""

from __future__ import annotations

import contextlib
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from plugrad import registry
from support import twins

OPS = {name: dotted for name, dotted in twins.public_ops().items() if registry.ops[name].family == "composite"}
MODES = "without gradients", "under no_grad", "of leaves", "of others"

# What differs, with reasons.
NO_VIEWS = {
    "PyTorch's last step is a view of what it computed, which nobody else has": """
        adaptive_avg_pool1d adaptive_max_pool1d adaptive_max_pool1d_with_indices avg_pool1d chain_matmul einsum ifft
        ihfft inner instance_norm linalg_cond max_pool1d max_pool1d_with_indices multi_dot
        multi_head_attention_forward norm_except_dim repeat_interleave tensordot unravel_index""",
    "PyTorch's has a history, whose derivative it then lacks": "detach_copy",
    "a conjugate is a copy, from which nothing would reach the tensor": "adjoint",
}
OPS.pop("cuda")  # there may be no such device
KNOWN = {name for names in NO_VIEWS.values() for name in names.split()}

pytestmark = pytest.mark.usefixtures("one_thread")


def facts(library, dotted, sample, mode) -> list:
    """Return of each result whether it is a leaf, and a view of which input; and whether it may be written."""
    inputs = []

    def change(array, requires_grad):
        tensor = library.from_numpy(array)
        if mode != MODES[0] and requires_grad:
            tensor.requires_grad_()
            tensor = tensor * 1 if mode == MODES[3] else tensor
        inputs.append(tensor)
        return tensor

    args, kwargs = twins.convert(library, (list(sample.args), dict(sample.kwargs)), change)
    library.manual_seed(0)
    with library.no_grad() if mode == MODES[1] else contextlib.nullcontext():
        results = twins.tensors_in(library, twins.lookup(library, dotted)(*args, **kwargs))
    found = []
    for one in results:
        base = one._base
        places = [place for place, tensor in enumerate(inputs) if tensor is base or tensor is one]
        found.append((one.is_leaf, one._is_view(), places, base is not None and not places, written(library, one)))
        if mode != MODES[1]:
            found.append((one.requires_grad, one.is_leaf))
    return found


def written(library, tensor) -> bool:
    """Whether a tensor may be multiplied in place by one that requires grad."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    try:
        tensor.mul_(library.ones((), dtype=tensor.dtype, requires_grad=True))
    except RuntimeError:
        return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
def test_results_are_views_as_in_pytorch(name):
    differs = set()
    for sample in twins.samples(name)[:6]:
        for mode in MODES:
            try:
                theirs = facts(torch, OPS[name], sample, mode)
            except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):
                continue  # PyTorch does not take the sample
            if facts(plugrad, OPS[name], sample, mode) != theirs:
                differs.add(mode)
    assert bool(differs) == (name in KNOWN), differs


def test_lists_name_composites():
    assert KNOWN <= set(OPS)


@pytest.mark.parametrize("call", [
    lambda T, x: T.ormqr(x, T.ones(0, dtype=x.dtype), x), lambda T, x: x.sum_to_size(3, 3), lambda T, x: T.rot90(x, 0),
])  # fmt: skip
def test_what_a_composite_hands_through_stays_the_view_that_it_was(call):
    found = []
    for T in (torch, plugrad):
        base = T.arange(9.0, dtype=T.float64)
        try:
            result = call(T, base.view(3, 3))
        except RuntimeError as error:
            found.append(type(error))
            continue
        result.add_(1)
        found.append((result._base is base, base.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("grad", [True, False])
def test_gradients_of_what_was_written_reach_what_it_came_from(grad):
    found = []
    for T in (torch, plugrad):
        a = (T.eye(2, dtype=T.float64) * 3 + 1).requires_grad_()
        b, w = T.ones(2, 2, dtype=T.float64), T.full((), 2.0, dtype=T.float64, requires_grad=True)
        with contextlib.nullcontext() if grad else T.no_grad():
            y = T.kron(a, b)
        y.mul_(w)
        (y * y).sum().backward()
        found.append([None if one.grad is None else one.grad.flatten().tolist() for one in (a, w)])
    for theirs, ours in zip(*found):
        assert (theirs is None) == (ours is None) and (ours is None or ours == pytest.approx(theirs))


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "enable_grad"])
@pytest.mark.parametrize("call", [
    "t_()", "unsqueeze_(1)", "squeeze_()", "transpose_(0, 1)", "swapaxes_(1, 0)", "as_strided_((3,), (2,), 1)",
])  # fmt: skip
def test_gradients_pass_in_the_shape_that_a_view_was_given_afterwards(call, mode):
    def gradient(library):
        x = library.arange(9.0).reshape(3, 3).requires_grad_()
        view = (x * 2)[:1 if call == "squeeze_()" else 3]
        with getattr(library, mode)():
            eval(f"view.{call}")
        (view * library.arange(float(view.numel())).reshape(view.shape)).sum().backward()
        return x.grad.tolist()

    assert gradient(plugrad) == gradient(torch)
