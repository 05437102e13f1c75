"""Compiled programs that replace what objects have: results and objects are those of the program as it is written."""

from __future__ import annotations

import copy
import threading

import pytest

import plugrad as torch
from plugrad import nn
from support.compiled_programs import agree, compiled, loudly  # noqa: F401

LAST = None
TOTAL = 0


class Cached(nn.Module):
    """Reads what it kept of the call before."""

    def __init__(self):
        super().__init__()
        self.inner, self.cache = nn.Linear(4, 4), None

    def forward(self, x):
        y = self.inner(x)
        if self.cache is not None:
            y = y + self.cache
        self.cache = y.detach()
        return y


class Kept(nn.Module):
    """Keeps a part of its result, and reads it never."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        y = self.inner(x)
        self.kept, self.told = y.detach()[:, 1], x.shape
        return y


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.calls = nn.Linear(4, 4), 0

    def forward(self, x):
        self.calls += 1
        for _ in range(2):
            self.calls -= 3
        return self.inner(x)


class Averaging(nn.Module):
    """Puts new buffers into the places of others."""

    def __init__(self):
        super().__init__()
        self.places = nn.Identity()  # no more than a name
        self.inner = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        y = self.inner(x)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
            self.count = self.count + 1
        return y - self.mean


class Recurrent(nn.Module):
    """Has a state of two tensors, and a dict of what it said last."""

    def __init__(self):
        super().__init__()
        self.inner, self.state, self.said = nn.LSTMCell(4, 4), (torch.zeros(3, 4), torch.zeros(3, 4)), {"mean": None}

    def forward(self, x):
        h, c = self.inner(x, self.state)
        self.state = h.detach(), c.detach()
        self.said["mean"] = h.detach().mean()
        return h


class Rolling(nn.Module):
    """Has a list of as many items always."""

    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.Linear(4, 4), [torch.zeros(3, 4), torch.zeros(3, 4)]

    def forward(self, x):
        y = self.inner(x) + self.last[0]
        self.last[0], self.last[1] = self.last[1], y.detach()
        return y


class Tiny:
    __slots__ = ("value",)


class Slotted(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.tiny = nn.Linear(4, 4), Tiny()

    def forward(self, x):
        y = self.inner(x)
        self.tiny.value = y.detach()
        return y


MODULES = (Cached, Kept, Counting, Averaging, Recurrent, Rolling, Slotted)


def kept_by(model):
    """Return what a module keeps, as a nest of tensors and plain values."""
    own = {
        name: one for name, one in vars(model).items() if name in ("cache", "kept", "told", "calls", "state", "last")
    }
    said, tiny = getattr(model, "said", {}), getattr(model, "tiny", None)
    return [own, said, getattr(tiny, "value", None), [*model.buffers()]]


def alike(one, other, label):
    leaves = torch.utils._pytree.tree_leaves
    for a, b in zip(leaves(one), leaves(other), strict=True):
        agree(a, b, label)


def captures_of(call):
    """Return how often a program was captured that takes what it replaces."""
    return call._compiled.arrays.replacing.programs.captures


@pytest.mark.parametrize("cls", MODULES)
def test_what_a_module_keeps(cls):
    torch.manual_seed(0)
    model = cls()
    twin = copy.deepcopy(model)
    call, sgd = compiled(model), [torch.optim.SGD(one.parameters(), lr=0.1) for one in (model, twin)]
    for number in range(6):
        x = torch.randn(3, 4)
        for run, optimizer in zip((call, twin), sgd):
            optimizer.zero_grad()
            run(x).square().sum().backward()
            optimizer.step()
        alike(kept_by(model), kept_by(twin), f"kept after {number}")
        alike(model.state_dict(), twin.state_dict(), f"state after {number}")
    assert captures_of(call) <= 2


def test_what_a_module_keeps_in_other_modes_sizes_and_by_hand():
    model = Averaging()
    twin, call = copy.deepcopy(model), compiled(model)
    for number, size in enumerate((3, 3, 5, 4, 3, 1, 6)):
        x = torch.randn(size, 4)
        for one in model, twin:
            one.train(number % 3 > 0)
            if number == 4:
                one.mean = torch.ones(4)
        agree(call(x), twin(x), f"call {number}")
        alike(kept_by(model), kept_by(twin), f"kept after {number}")


def test_a_number_that_is_only_counted_is_whatever_it_is():
    model = Counting()
    call = compiled(model)
    for number in range(12):
        before = model.calls = number**3
        call(torch.randn(3, 4))
        assert model.calls == before - 5
    assert captures_of(call) == 1
    model.calls = 0.5
    call(torch.randn(3, 4))
    assert model.calls == -4.5


class Reset(nn.Module):
    """Sets its number, and only then adds to it; or reads it in another function, or by its name."""

    def __init__(self, way):
        super().__init__()
        self.way, self.calls = way, 5

    def forward(self, x):
        if self.way == "set":
            self.calls = 0
        self.calls += 1
        if self.way == "read":
            return x * self.factor()
        return x * getattr(self, "calls") if self.way == "named" else x  # noqa: B009

    def factor(self):
        return self.calls


@pytest.mark.parametrize("way", ["set", "read", "named"])
def test_a_number_that_is_not_only_counted(way):
    model, twin = Reset(way), Reset(way)
    call = compiled(model)
    for number in range(7):
        agree(call(torch.ones(3)), twin(torch.ones(3)), f"call {number}")
        assert model.calls == twin.calls
        if number == 4:
            model.calls = twin.calls = 17


def test_variables_of_a_function_and_of_its_module():
    global LAST, TOTAL
    LAST, TOTAL, inner = None, 0, None

    def function(x):
        nonlocal inner
        global LAST, TOTAL
        TOTAL += 1
        LAST = x * 2 if LAST is None else LAST + x
        inner = LAST * 3
        return LAST + 1

    call, total = compiled(function), 0
    for number in range(5):
        x = torch.randn(3)
        total = total + (x if number else x * 2)
        agree(call(x), total + 1, f"call {number}")
        agree(LAST, total, "variable of the module")
        agree(inner, total * 3, "variable of the function around")
        assert TOTAL == number + 1
    assert captures_of(call) <= 2


def sets_a_new_variable(x):
    global NEW
    NEW = x * 2
    return x + 1


def test_a_variable_that_has_no_value_yet():
    globals().pop("NEW", None)
    call = compiled(sets_a_new_variable)
    for _ in range(3):
        x = torch.randn(3)
        agree(call(x), x + 1, "result")
        agree(NEW, x * 2, "variable")


def test_results_that_are_parts_of_others():
    def function(x):
        y = torch.tanh(x)
        return y[:, 1].detach(), y, y.detach(), y, {"last": y.detach()[-1]}

    call = compiled(function)
    for size in (3, 3, 5, 4):
        x = torch.randn(size, 4, requires_grad=True)
        mine, theirs = call(x), function(x)
        alike(mine, theirs, f"results of {size}")
        column, y, alike_it, same, nest = mine
        assert same is y and not column.requires_grad and y.requires_grad
        with torch.no_grad():
            y.mul_(0)
        assert not column.any() and not alike_it.any() and not nest["last"].any()
    assert len(call._compiled.arrays.known) <= 2


def test_a_second_derivative_does_not_replace_anything_again():
    model = Cached()
    call, x = compiled(model), torch.randn(3, 4, requires_grad=True)
    for _ in range(3):
        y = call(x)
    kept = model.cache
    with pytest.raises(RuntimeError, match="twice"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    assert model.cache is kept


def test_an_error_of_the_program_replaces_nothing():
    model = Cached()
    call = compiled(model)
    for _ in range(3):
        call(torch.randn(3, 4))
    kept = model.cache
    with pytest.raises(RuntimeError):
        call(torch.randn(3, 5))
    assert model.cache is kept


def test_what_grows_runs_op_by_op():
    seen = []

    def function(x):
        seen.append(x.sum())
        return x * 2

    call = torch.compile(function)
    with pytest.warns(UserWarning, match="items of a list"):
        call(torch.ones(3))
    call(torch.ones(3))
    assert len(seen) == 2
    with pytest.raises(RuntimeError, match="items of a list"):
        torch.compile(function, fullgraph=True)(torch.ones(3))


def test_threads_that_count():
    model = Counting()
    call = compiled(model)
    call(torch.randn(3, 4)), call(torch.randn(3, 4))
    results, x = [], torch.randn(3, 4)
    threads = [threading.Thread(target=lambda: results.append(call(x))) for _ in range(4)]
    [one.start() for one in threads], [one.join() for one in threads]
    for one in results:
        agree(one, model.inner(x), "result")
