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
    "of .data": "b = b.data\nv = b[:2]",
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
    "b.requires_grad_(False)", "u = v * 3", "v.mul_(o.sum())", "b.t_()",
]  # fmt: skip
USES = [
    "(v * 2).sum().backward()", "v.sum().backward()", "s = T.autograd.grad((v * 2).sum(), b, allow_unused=True)",
    "s = T.autograd.grad((v * 2).sum(), v, allow_unused=True)", "w = v[...]\nw.sum().backward()",
    "with T.no_grad(): w = v[...]\n(w * 2).sum().backward()", "w = v.detach().requires_grad_()\nw.sum().backward()",
    "(v * 2).sum().backward(inputs=[v])", "w = T.nn.Parameter(v)\nw.sum().backward()", "w = v.view(-1)\nw.add_(1)",
    "(b * v.sum()).sum().backward()", "w = v.grad_fn", "w = v.clone()\nw.mul_(v)\nw.sum().backward()",
]  # fmt: skip

WITHOUT_HISTORY = {f"{name}, before": (VIEWS[name], "b.requires_grad_()") for name in VIEWS if name != "detached"}
WITHOUT_HISTORY |= {f"{name}, after": ("b.requires_grad_()", VIEWS[name]) for name in ("no_grad", "inference")}

# What was computed with a view before something becomes of it, and how its gradient is asked for then.
EARLIER = [
    "u = v * 3", "u = v * v", "u = o.sum() * v", "u = T.stack([v, v, o[:1].expand(v.shape)])", "u = v[...]",
    "u = v.to(T.float64)", "u = Own.apply(v)", "u = Own.apply(v, o)", "u = v.clone()\nu.mul_(v)",
    "with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t): u = o.sum() * v",
    "with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t): u = Own.apply(v, o)",
]  # fmt: skip
SINCE = [
    "v.requires_grad_()", "v.requires_grad_()\nv.requires_grad_(False)", "b.requires_grad_(False)",
    "with T.no_grad(): b.add_(1)", "with T.no_grad(): v.add_(1)", "v.requires_grad_()\nwith T.no_grad(): v.add_(1)",
    "v.requires_grad_()\nb.requires_grad_(False)", "v.requires_grad_()\nu = u * v", "v.detach_()",
    "h = v.register_hook(lambda g: seen.append(g.tolist()))\nv.requires_grad_()", "del v", "v.unsqueeze_(0)",
]  # fmt: skip
ASKED = [
    "u.sum().backward()", "s = T.autograd.grad(u.sum(), [v, b], allow_unused=True)",
    "s = T.autograd.grad(u.sum(), o, create_graph=True)\ns[0].sum().backward()", "u.sum().backward(inputs=[v])",
    "e = [f is None for f, _ in u.grad_fn.next_functions]", "T.autograd.graph.get_gradient_edge(v)",
    "T.autograd.graph.register_multi_grad_hook([v], lambda gs: seen.append(len(gs)))\nu.sum().backward()",
    "u.sum().backward()\nu = v * 2\nu.sum().backward()",
]  # fmt: skip


def own_function(T):
    class Own(T.autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            ctx.save_for_backward(*given)
            return given[0] * 2

        @staticmethod
        def backward(ctx, g):
            return tuple([g * one.sum() for one in ctx.saved_tensors])

    return Own


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
    names |= {"seen": [], "Own": own_function(T), "e": None}
    errors = []
    for step in steps:
        try:
            exec(step, names)
        except Exception as error:
            errors.append(type(error).__name__)
        else:
            errors.append(None)
    seen = {name: described(names[name], T) for name in "bvwou" if name in names}
    return errors, seen, [described(one, T) for one in names.get("s", ())], names["seen"], names["e"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("view", VIEWS)
def test_views_made_before_their_base_required_grad(view):
    programs = list(itertools.product(BEFORE, FLAGS, AFTER, USES))
    for steps in programs[sum(map(ord, view)) % 9 :: 9]:  # a ninth of them, another one for each kind of view
        program = [step for step in (VIEWS[view], *steps) if step]
        assert shown(torch, program) == shown(plugrad, program), "\n".join(program)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", WITHOUT_HISTORY)
def test_what_was_computed_with_a_view_leads_nowhere_whatever_it_becomes(made):
    programs = [[*WITHOUT_HISTORY[made], *steps] for steps in itertools.product(EARLIER, SINCE, ASKED)]
    for program in programs[sum(map(ord, made)) % 7 :: 7]:
        assert shown(torch, program) == shown(plugrad, program), "\n".join(program)


def test_a_tensor_without_views_stays_as_it_was():
    x = plugrad.ones(3)
    x.requires_grad_()
    y = x.detach().requires_grad_()
    layer = plugrad.nn.Linear(2, 2).requires_grad_(False).requires_grad_()
    assert x._view is y._view is layer.weight._view is None  # so that its calls need no look at it
