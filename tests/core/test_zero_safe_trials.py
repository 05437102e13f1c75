"""How zero_safe does its work: trials, suspects, repetitions, and the memory that they hold."""

from __future__ import annotations

import gc
import math
import weakref

import numpy
import pytest

import plugrad as torch
from plugrad import autograd
from plugrad.autograd import nan_guard

INF, NAN = math.inf, math.nan


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


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
        kept.append(weakref.ref(factor._raw))
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
