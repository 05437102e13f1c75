"""Safer numbers: no NaN from the branch not taken."""

from __future__ import annotations

import gc
import math
import weakref

import numpy
import pytest

import plugrad as torch
from plugrad import autograd
from plugrad.autograd import nan_guard
from support.threads import elsewhere

INF, NAN = math.inf, math.nan


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def taken_by_mask(x):
    quotient = x / torch.tensor([0.0, 1.0])
    return quotient[torch.tensor([False, True])]


# name: (function of x, x, gradient of its sum). Derived by hand: the branch not taken contributes 0, and where the
# derivative at the point is a number of its own (a root at 0, the spread of a constant), the subgradient of least norm.
PROGRAMS = {
    "log in where": (lambda x: torch.where(x > 0, x.log(), 0.0), [-1.0, 0.0, 2.0], [0.0, 0.0, 0.5]),
    "quotient in where": (lambda x: torch.where(torch.tensor(False), x / 0, torch.ones(())), 3.0, 0.0),
    "quotient by x in where": (lambda x: torch.where(x != 0, 1 / x, 0.0), [0.0, 2.0], [0.0, -0.25]),
    "sine by x": (lambda x: torch.where(x == 0, 1.0, x.sin() / x), [0.0, 1.0], [0.0, math.cos(1) - math.sin(1)]),
    "quotient masked by index": (taken_by_mask, [1.0, 1.0], [0.0, 1.0]),
    "exp in where": (lambda x: torch.where(x < 0, x.exp(), 1.0), [-1.0, 0.0, 800.0], [math.exp(-1), 0.0, 0.0]),
    "softplus by where": (lambda x: torch.where(x > 20, x, x.exp().log1p()), [0.0, 1000.0], [0.5, 1.0]),
    "logarithm times mask": (lambda x: torch.where(x > 0, x * x.log(), 0.0), [0.0, 1.0], [0.0, 1.0]),
    "masked_fill": (lambda x: x.log().masked_fill(x <= 0, 0.0), [-1.0, 0.0, 4.0], [0.0, 0.0, 0.25]),
    "root times zero": (lambda x: x.sqrt() * 0, [0.0, 4.0], [0.0, 0.0]),
    "root in where": (lambda x: torch.where(x > 0, x.sqrt(), 0.0), [-4.0, 0.0, 4.0], [0.0, 0.0, 0.25]),
    "power in where": (lambda x: torch.where(x > 0, x**0.5, 0.0), [0.0, 4.0], [0.0, 0.25]),
    "power of negative base": (lambda x: torch.where(x > 0, x**0.5, 0.0), [-1.0, 1.0], [0.0, 0.5]),
    "arc cosine in where": (lambda x: torch.where(x.abs() < 1, x.acos(), 0.0), [1.0, 2.0, 0.0], [0.0, 0.0, -1.0]),
    "atan2 in where": (lambda x: torch.where(x != 0, torch.atan2(x, x), 0.0), [0.0, 1.0], [0.0, 0.0]),
    "norm at zero": (lambda x: (x * x).sum().sqrt(), [0.0, 0.0], [0.0, 0.0]),
    "norm of rows": (lambda x: (x * x).sum(1).sqrt(), [[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [0.6, 0.8]]),
    "own norm": (lambda x: x.norm(dim=1), [[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [0.6, 0.8]]),
    "square and root": (lambda x: (x**2).sqrt(), [0.0, -2.0], [0.0, -1.0]),
    "distance to itself": (lambda x: ((x[:, None] - x[None]) ** 2).sum(-1).sqrt(), [[1.0], [3.0]], [[-2.0], [2.0]]),
    "std of a constant": (lambda x: x.std(), [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]),
    "var of a constant": (lambda x: x.var(), [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]),
    "root of the variance": (lambda x: ((x - x.mean()) ** 2).mean().sqrt(), [2.0, 2.0], [0.0, 0.0]),
    "broadcast": (lambda x: torch.where(torch.tensor([[True], [True]]), x, x.log()[None] * x), [0.0, 2.0], [2.0, 2.0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_branch_not_taken_contributes_nothing(name):
    function, point, expected = PROGRAMS[name]
    x = leaf(point)
    result = function(x).sum()
    with autograd.zero_safe():
        (by_grad,) = autograd.grad(result, x, retain_graph=True)
        (recorded,) = autograd.grad(result, x, create_graph=True)
        result.backward()
    for grad in (by_grad, recorded.detach(), x.grad):
        numpy.testing.assert_allclose(grad.numpy(), expected, rtol=1e-12)


def test_some_of_these_are_nan_otherwise():
    for name in ("log in where", "quotient in where", "exp in where", "root times zero", "norm at zero"):
        function, point, _ = PROGRAMS[name]
        x = leaf(point)
        function(x).sum().backward()
        assert x.grad.isnan().any(), name


def test_real_nans_propagate():
    with autograd.zero_safe():
        for function, point in (
            (lambda x: x.log(), NAN),  # gradient 1 times derivative NaN
            (lambda x: (x * NAN).exp(), 1.0),  # the gradient itself is NaN
            (lambda x: x.sqrt() * 2, -1.0),
            (lambda x: torch.where(x < 0, x.sqrt(), 0.0), -1.0),  # the branch taken
        ):
            x = leaf(point)
            function(x).backward()
            assert math.isnan(x.grad.item())
        x = leaf([0.0, 1.0])
        (x.sqrt() * torch.tensor([INF, 1.0])).sum().backward()
        assert x.grad.tolist() == [INF, 0.5]  # infinite, and no product with 0


@pytest.mark.parametrize("name", ["log in where", "root in where", "exp in where", "quotient by x in where"])
def test_second_derivative(name):
    second = {"log in where": [0, 0, -0.25], "root in where": [0, 0, -1 / 32], "exp in where": [math.exp(-1), 0, 0],
              "quotient by x in where": [0, 0.25]}[name]  # fmt: skip
    function, point, _ = PROGRAMS[name]
    x = leaf(point)
    with autograd.zero_safe():
        (g,) = autograd.grad(function(x).sum(), x, create_graph=True)
        (h,) = autograd.grad(g.sum(), x)
    numpy.testing.assert_allclose(h.numpy(), second, rtol=1e-12)


def test_second_derivative_through_a_gradient_of_zero():
    x = leaf(2.0)
    with autograd.zero_safe():
        (g,) = autograd.grad((x**2 - 4) ** 2, x, create_graph=True)
        (h,) = autograd.grad(g, x)
    assert g.item() == 0 and h.item() == 32


def test_finite_gradients_stay_bit_for_bit():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3), torch.nn.Softplus())
    x, grads = torch.randn(4, 6), []
    for enabled in (False, True):
        model.zero_grad()
        with autograd.zero_safe(enabled):
            (model(x).log() * x[:, :3].exp()).pow(2).mean().backward()
        grads.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads))


@pytest.mark.parametrize("length", [1, 3, 63, 64, 65, 200])
def test_long_chains_are_safe_from_end_to_end(length):
    x = leaf([0.0, 1.0])
    y = x.sqrt()
    for _ in range(length):
        y = y * 1.0
    with autograd.zero_safe():
        torch.where(x > 0, y, 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.5]


def test_with_hooks_and_several_uses():
    x, seen = leaf([0.0, 4.0]), []
    root = x.sqrt()
    root.register_hook(lambda g: seen.append(g.tolist()))
    y = torch.where(x > 0, root + root.log(), 0.0) + x
    with autograd.zero_safe():
        y.sum().backward()
    assert seen == [[0.0, 1.5]]
    assert x.grad.tolist() == [1.0, 1.375]


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_other_dtypes(dtype):
    x = torch.tensor([0.0, 1.0], dtype=getattr(torch, dtype), requires_grad=True)
    with autograd.zero_safe():
        (x.sqrt() * torch.tensor([0.0, 1.0])).abs().sum().backward()
    assert x.grad.dtype is getattr(torch, dtype) and x.grad.tolist() == [0.0, 0.5]


def test_other_families_are_left_alone():
    class Log(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.log()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return torch.from_numpy(g.numpy() / x.detach().numpy())

    x = leaf([0.0, 2.0])
    with autograd.zero_safe(), numpy.errstate(all="ignore"):
        torch.where(x > 0, Log.apply(x), 0.0).sum().backward()
    assert math.isnan(x.grad[0].item()) and x.grad[1].item() == 0.5


def test_it_acts_where_backward_runs_and_in_its_thread():
    def gradient():
        x = leaf(0.0)
        (x.sqrt() * 0).backward()
        return x.grad.item()

    x = leaf(0.0)
    with autograd.zero_safe():
        y = x.sqrt() * 0
    y.backward()
    assert math.isnan(x.grad.item())
    with autograd.zero_safe():
        enabled, grad = elsewhere(lambda: (autograd.is_zero_safe_enabled(), gradient()))
        with autograd.zero_safe(False):
            assert math.isnan(gradient())
        assert gradient() == 0
    assert not enabled and math.isnan(grad)
    assert autograd.zero_safe()(gradient)() == autograd.zero_safe(gradient)() == 0
    autograd.set_zero_safe(True)
    try:
        assert autograd.is_zero_safe_enabled() and gradient() == 0
    finally:
        autograd.set_zero_safe(False)
    assert math.isnan(gradient())


def _reported_missing_targets():
    """Targets that are missing count for nothing, masked after the loss."""
    x, y = leaf([[0.0, 0.5]]), torch.tensor([[NAN, 0.0]], dtype=torch.float64)
    torch.square(x - y)[~torch.isnan(y)].sum().backward()
    return x.grad


def _reported_reassignment():
    x = leaf([0.0, 100.0])
    f = torch.log(torch.exp(10 * x) + 1)
    f[1] = 0
    f[:] = 0
    return torch.autograd.grad(f[1], x)[0]


def _reported_where(condition, one, other, values):
    x = leaf(values)
    torch.where(condition(x), one(x), other(x)).sum().backward()
    return x.grad


def _masked_by_finite(x):
    return torch.isfinite(x.log())


REPORTED = {  # what users of PyTorch reported as wrong, and what they expected
    "pytorch#187297": (lambda: _reported_where(lambda x: x > 0, torch.sqrt, lambda x: x, [-1.0, -4.0]), [1.0, 1.0]),
    "pytorch#156212": (
        lambda: _reported_where(lambda x: x <= 10, torch.exp, lambda x: torch.tensor(1), [1.0, NAN, 1e10]),
        [math.e, 0.0, 0.0],
    ),
    "pytorch#108618": (
        lambda: _reported_where(lambda x: x > 2, torch.log2, lambda x: 2 * x, [0.0, 2.0, 3.0]),
        [2.0, 2.0, 1 / (3 * math.log(2))],
    ),
    "pytorch#68425": (lambda: _reported_where(lambda x: x <= 0, torch.exp, lambda x: 1 + x, [1000.0]), [1.0]),
    "pytorch#52248": (lambda: _reported_where(_masked_by_finite, torch.log, lambda x: 3 * x, [0.0, 2.0]), [3.0, 0.5]),
    "pytorch#64305": (_reported_missing_targets, [[0.0, 1.0]]),
    "pytorch#17455": (_reported_reassignment, [0.0, 0.0]),
}


@pytest.mark.parametrize("name", REPORTED)
def test_what_was_reported_gives_the_expected_numbers(name):
    program, expected = REPORTED[name]
    assert program().isnan().any()
    with autograd.zero_safe():
        assert torch.allclose(program(), torch.tensor(expected, dtype=torch.float64))


# ---------------------------------------------------------------------------------------------------- trials


@pytest.fixture
def careful(monkeypatch):
    """Return a function that has every walk look at every node, as a repetition does, or makes trials again."""

    def switch(on):
        if on:
            monkeypatch.setattr(nan_guard, "_is_observed", lambda *walk: True)
        else:
            monkeypatch.undo()

    yield switch


@pytest.fixture(autouse=True)
def nobody_is_suspected():
    """Start and end without suspects, so that trials do fail."""

    def forget():
        for cls in nan_guard._suspects:
            cls.pure = cls.op.trusted
        nan_guard._suspects.clear()

    forget()
    yield
    forget()


class Double(torch.autograd.Function):
    seen: list = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Double.seen.append(g.tolist())
        return g * 2


def _random_program(rng, log):
    """Return a function of two leaves: ops that meet 0 * inf, with hooks, Functions, views and several outputs."""
    unary = ["sqrt", "log", "exp", "sin", "reciprocal", "abs", "relu"]

    def build(a, b):
        values = [a, b]
        for number in range(rng.integers(4, 16)):
            x, y = (values[i] for i in rng.integers(0, len(values), 2))
            choice = rng.integers(0, 12)
            if choice < 4:
                new = getattr(x, unary[rng.integers(0, len(unary))])()
            elif choice < 6:
                new = x * y if choice == 4 else x / y
            elif choice == 6:
                new = torch.where(x > 0, x.log(), y)
            elif choice == 7:
                new = x.max(0)[0] + y.sort(0)[0]
            elif choice == 8:
                new = x + y - x * 0
            elif choice == 9:
                new = Double.apply(x)
            elif choice == 10:
                new = x * 1.0
                new[0] = 0.0
                new = new @ torch.ones(3, 3, dtype=torch.float64)
            else:
                new = x * y
                if new.requires_grad:
                    new.register_hook(lambda g, number=number: log.append((number, g.tolist())))
            values.append(new)
        return torch.where(values[-1] > 0, values[-1], values[-2]).sum() + values[-3].sum()

    return build


@pytest.mark.parametrize("how", ["backward", "inputs", "grad", "create_graph", "second"])
def test_trials_give_what_a_look_at_every_node_gives(careful, how):
    failed = 0
    for seed in range(60):
        observed = []
        for on in (True, False):
            careful(on)
            rng, log = numpy.random.default_rng(seed), []
            Double.seen = log
            a, b = leaf([0.0, 1.0, -2.0]), leaf([0.5, 0.0, INF])
            a.register_hook(lambda g, log=log: log.append(g.tolist()))
            result = _random_program(rng, log)(a, b)
            with autograd.zero_safe():
                if how == "backward":
                    result.backward()
                    grads = [a.grad, b.grad]
                elif how == "inputs":
                    result.backward(inputs=[b])
                    grads = [a.grad, b.grad]
                elif how == "second":
                    grads = autograd.grad(result, [a, b], create_graph=True, allow_unused=True)
                    total = sum((g * g).sum() for g in grads if g is not None)
                    grads = autograd.grad(total, [a, b], allow_unused=True) if total.requires_grad else grads
                else:
                    create = how == "create_graph"
                    grads = autograd.grad(result, [a, b], create_graph=create, allow_unused=True)
            observed.append(repr(([None if g is None else g.detach().numpy().tobytes() for g in grads], log)))
        failed += bool(nan_guard._suspects)
        assert observed[0] == observed[1], seed
    assert failed


def counting(monkeypatch):
    """Count the walks that trials had to repeat."""
    repeated, run = [], nan_guard.RepairingWalk.run

    def watched(self, roots, *uses):
        if type(self) is nan_guard.RepairingWalk:
            repeated.append(roots)
        run(self, roots, *uses)

    monkeypatch.setattr(nan_guard.RepairingWalk, "run", watched)
    return repeated


def test_the_second_trial_knows_where_to_look(monkeypatch):
    repeated = counting(monkeypatch)
    for _ in range(3):
        x = leaf([0.0, 4.0])
        with autograd.zero_safe():
            torch.where(x > 0, x.sqrt(), 0.0).sum().backward()
        assert x.grad.tolist() == [0.0, 0.25] and len(repeated) == 1


def test_a_suspect_that_behaves_is_trusted_again(monkeypatch):
    monkeypatch.setattr(nan_guard, "_CREDIT", 4)
    x = leaf([0.0, 4.0])
    with autograd.zero_safe():
        (x.sqrt() * 0).sum().backward()
        (cls,) = nan_guard._suspects
        assert not cls.pure
        for _ in range(4):
            leaf([1.0]).sqrt().backward()
        assert cls.pure
        x.grad = None
        (x.sqrt() * 0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0] and nan_guard._suspects[cls] == [8, 8]


def test_hooks_run_once_and_see_repaired_gradients(monkeypatch):
    repeated = counting(monkeypatch)
    seen, x = [], leaf([0.0, 4.0])
    x.register_hook(lambda g: seen.append(("leaf", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(("filled", p.grad.tolist())))
    before = x * 1.0
    before.register_hook(lambda g: seen.append(("before", g.tolist())))
    root = before.sqrt()
    last = torch.where(x > 0, root, 0.0) + Double.apply(x)
    last.register_hook(lambda g: seen.append(("last", g.tolist())))
    with autograd.zero_safe():
        last.sum().backward()
    assert len(repeated) == 1
    expected = [2.0, 2.25]
    assert seen == [("last", [1.0, 1.0]), ("before", [0.0, 0.25]), ("leaf", expected), ("filled", expected)]


def test_many_hooks_with_much_under_way(monkeypatch):
    monkeypatch.setattr(nan_guard.Trial, "patience", 3)
    x, seen = leaf([0.0, 4.0]), []
    roots = [x.sqrt() * 1.0 for _ in range(40)]
    for root in roots:
        root.register_hook(lambda g: seen.append(g.tolist()))
    with autograd.zero_safe():
        torch.where(x > 0, torch.stack(roots).sum(0), 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 10.0] and seen == [[0.0, 1.0]] * 40


def test_memory_is_let_go_on_the_way(monkeypatch):
    """What nodes saved is free before the walk ends, though a trial may need it again."""
    held, alive, commit = [], [], nan_guard.Trial.commit

    def watched(self, *args):
        held.append(len(self.log) // 2)
        done = commit(self, *args)
        alive.append(sum(reference() is not None for reference in kept))
        return done

    monkeypatch.setattr(nan_guard, "HELD", 40)
    monkeypatch.setattr(nan_guard.Trial, "commit", watched)
    x, kept = leaf([0.0, *[4.0] * 9]), []
    y = x.sqrt()
    for _ in range(20):
        factor = torch.ones(10, dtype=torch.float64)
        y = y * factor
        kept.append(weakref.ref(factor._data))
    del factor
    with autograd.zero_safe():
        (y * 0).sum().backward()
    assert max(held) < 8 and alive[0] > 15 and alive[1] < 13 and alive[-1] < 8  # the last is repeated
    assert x.grad.tolist() == [0.0] * 10


def test_the_graph_is_freed_or_retained_as_without_the_mode():
    for values in ([1.0], [0.0]):
        x = leaf(values)
        y = (x.sqrt() * 0).sum()
        with autograd.zero_safe():
            y.backward(retain_graph=True)
            y.backward()
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                y.backward()
        assert x.grad.tolist() == [0.0]


def test_an_error_is_raised_once_and_as_it_is():
    x, calls = leaf([0.0]), []

    def hook(g):
        calls.append(g.tolist())
        raise ValueError("mine")

    y = x.sqrt()
    y.register_hook(hook)
    with autograd.zero_safe(), pytest.raises(ValueError, match="mine"):
        (y * 0).sum().backward()
    assert calls == [[0.0]] and x.grad is None
    y = leaf([1.0]).exp() * 1.0
    z = (y * y).sum()
    with torch.no_grad():
        y.add_(1)
    with autograd.zero_safe(), pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_leaves_own_their_gradients():
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    with autograd.zero_safe():
        (a + b).sum().backward()
        (a + b).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [2.0, 2.0]
    a.grad.add_(1)
    assert b.grad.tolist() == [2.0, 2.0]


def test_no_reference_cycles_are_left():
    gc.collect()
    gc.disable()
    try:
        x = leaf([0.0, 1.0])
        with autograd.zero_safe():
            for _ in range(2):
                torch.where(x > 0, x.log(), 0.0).sum().backward()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_matrix_products_pass_on_what_they_are_given():
    """Of a large gradient of a weight the smaller one it was made of is looked at."""
    weight, x = leaf([[0.0] * 50] * 50), torch.ones(2, 50, dtype=torch.float64)
    with autograd.zero_safe():
        hidden = x @ weight
        torch.where(hidden > 0, hidden.sqrt(), hidden).sum().backward()
    assert weight.grad.tolist() == [[2.0] * 50] * 50


@pytest.mark.parametrize("size", [2, 5000])
def test_on_another_device(size, fake):
    values = [0.0] + [4.0] * (size - 1)
    for _ in range(2):  # repeated, then suspected
        x, y = (torch.tensor(values, device=fake, requires_grad=True) for _ in range(2))
        with autograd.zero_safe():
            (torch.where(x > 0, x.sqrt(), 0.0).sum() + (y * y).sum().sqrt() * 0 + (y.sqrt() * 0).sum()).backward()
        assert x.grad.cpu().tolist() == [0.0] + [0.25] * (size - 1) and y.grad.cpu().tolist() == [0.0] * size
