"""Views that were made before their base required grad: each use of them does what it does in PyTorch."""

from __future__ import annotations

import itertools
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad

VIEWS = {
    "recorded": "v = b[:2]",
    "no_grad": "with T.no_grad(): v = b[:2]",
    "inference": "with T.inference_mode(): v = b[:2]",
    "one of several": "v = b.unbind(0)[0]",
    "of a view": "v = b.view(-1)[1:]",
    "with a flag": "v = b[:2].requires_grad_()",
    "detached": "v = b.detach()",
}
BEFORE = ["", "b.add_(1)", "v.detach().add_(1)", "with T.no_grad(): b.add_(1)", "b.data.add_(1)"]
FLAGS = [
    "b.requires_grad_()",
    "b.requires_grad_(); b.requires_grad_(False)",
    "b.requires_grad = True; b.requires_grad_(False); b.requires_grad_()",
]
AFTER = [
    "", "with T.no_grad(): v.add_(1)", "with T.no_grad(): b.add_(1)", "v.add_(1)", "v.requires_grad_()",
    "v.requires_grad_(False)", "v.detach_()", "v.requires_grad_()\nwith T.no_grad(): v.add_(1)",
    "b.requires_grad_(False)", "u = v * 3", "v.mul_(o.sum())",
]  # fmt: skip
USES = [
    "(v * 2).sum().backward()", "v.sum().backward()", "s = T.autograd.grad((v * 2).sum(), b, allow_unused=True)",
    "s = T.autograd.grad((v * 2).sum(), v, allow_unused=True)", "w = v[...]\nw.sum().backward()",
    "with T.no_grad(): w = v[...]\n(w * 2).sum().backward()", "w = v.detach().requires_grad_()\nw.sum().backward()",
    "(v * 2).sum().backward(inputs=[v])", "w = T.nn.Parameter(v)\nw.sum().backward()", "w = v.view(-1)\nw.add_(1)",
    "(b * v.sum()).sum().backward()", "w = v.grad_fn", "w = v.clone()\nw.mul_(v)\nw.sum().backward()",
]  # fmt: skip


def described(tensor, T):
    if not isinstance(tensor, T.Tensor):
        return tensor is None
    try:
        leaf = tensor.is_leaf, tensor.grad_fn is None
    except RuntimeError:
        leaf = "refused"
    grad = None if leaf == "refused" or tensor.grad is None else tensor.grad.tolist()
    return tensor.tolist(), tensor.requires_grad, leaf, grad


def shown(T, steps):
    """Return what a program did on a library: the errors of its steps, and what is to be seen of its variables."""
    names = {"T": T, "b": T.tensor([1.0, 2.0, 3.0]), "o": T.tensor([2.0, 1.0, 3.0], requires_grad=True)}
    errors = []
    for step in steps:
        try:
            exec(step, names)
        except Exception as error:
            errors.append(type(error).__name__)
        else:
            errors.append(None)
    seen = {name: described(names[name], T) for name in "bvwou" if name in names}
    return errors, seen, [described(one, T) for one in names.get("s", ())]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("view", VIEWS)
def test_views_made_before_their_base_required_grad(view):
    programs = list(itertools.product(BEFORE, FLAGS, AFTER, USES))
    for steps in programs[sum(map(ord, view)) % 7 :: 7]:  # a seventh of them, another one for each kind of view
        program = [step for step in (VIEWS[view], *steps) if step]
        assert shown(torch, program) == shown(plugrad, program), "\n".join(program)


def test_a_tensor_without_views_stays_as_it_was():
    x = plugrad.ones(3)
    x.requires_grad_()
    y = x.detach().requires_grad_()
    layer = plugrad.nn.Linear(2, 2).requires_grad_(False).requires_grad_()
    assert x._view is y._view is layer.weight._view is None  # so that its calls need no look at it
