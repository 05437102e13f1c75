"""Objects of a program's own classes, under a compiler: what counts of them is what code names."""

from __future__ import annotations

import functools
import operator
import types

import pytest

import plugrad as torch
from plugrad import nn
from support.compiled_programs import agree, compiled, loudly, programs  # noqa: F401


class Trainer:
    """Has what a training program keeps beside what one step of it needs."""

    kept = 0

    def __init__(self):
        self.model = nn.Linear(4, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.count, self.history, self.options = 0, [], {"seen": 0}

    def fit(self, run, x, t, steps):
        for _ in range(steps):
            self.count += 1
            self.options["seen"] += len(x)
            self.history.append(run(x, t).item())
            self.best = min(self.history)
            Trainer.kept = self.best

    def train(self, x, t):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), t)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def test_what_an_object_keeps_that_the_program_does_not_name():
    x, t = torch.randn(8, 4), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    one, other = Trainer(), Trainer()
    other.model.load_state_dict(one.model.state_dict())
    run = compiled(one.train, fullgraph=True)
    one.fit(run, x, t, 6)
    other.fit(other.train, x, t, 6)
    assert len(programs(run)) <= 3, "with gradients and without, and once more for an attribute that is new"
    agree(torch.tensor(one.history), torch.tensor(other.history), "losses")


class Options:
    scale = 1.0


class Scaled(Options):
    """Has a number for each way to it, which nothing else names."""

    __match_args__ = ("placed",)

    def __init__(self):
        self.scaled, self.called, self.added, self.shown = 2.0, 2.0, 2.0, 2.0
        self.items, self.inner = [3.0], types.SimpleNamespace(number=4.0)

    def __call__(self, x):
        return x * self.called

    def __add__(self, x):
        return x + self.added

    def __str__(self):
        return str(self.shown)

    @property
    def doubled(self):
        return self.halved * 2

    @functools.cached_property
    def kept(self):
        return self.first

    @staticmethod
    def of(one):
        return one.given

    @classmethod
    def made(cls):
        return cls.scale

    def twice(self):
        return self._twice()

    def _twice(self):
        return 2 * self.once

    def thrice(self):
        return 3 * self.third


def matching(x):
    match SCALED:
        case Scaled(keyword=number):
            return x * number


def matching_by_place(x):
    match SCALED:
        case Scaled(number):
            return x * number


SCALED, THAT, CALLED, ASK, LOOK = Scaled(), operator.attrgetter("that"), operator.methodcaller("thrice"), getattr, vars
WAYS = {
    "scaled": lambda x: x * SCALED.scaled,
    "halved": lambda x: x * SCALED.doubled,
    "once": lambda x: x * SCALED.twice(),
    "called": lambda x: SCALED(x),
    "added": lambda x: SCALED + x,
    "shown": lambda x: x * float(f"{SCALED}"),
    "given": lambda x: x * type(SCALED).of(SCALED),
    "text": lambda x: x * getattr(SCALED, "te" + "xt"),
    "asked": lambda x: x * ASK(SCALED, "as" + "ked"),
    "all": lambda x: x * LOOK(SCALED)["a" + "ll"],
    "that": lambda x: x * THAT(SCALED),
    "third": lambda x: x * CALLED(SCALED),
    "formatted": lambda x: x * float("{0.formatted}".format(SCALED)),  # noqa: UP030, UP032
    "keyword": matching,
    "placed": matching_by_place,
    "caught": lambda x: x * max([one.caught for one in [SCALED]]),
    "sorted": lambda x: x * sorted([SCALED], key=lambda one: one.sorted)[0].sorted,
}


@pytest.mark.parametrize("name", WAYS)
def test_what_code_names_in_any_way_is_noticed(name):
    function = WAYS[name]
    setattr(SCALED, name, 7.0)
    call = compiled(function)
    for number in 2.0, 3.0, 5.0:
        setattr(SCALED, name, number)
        agree(call(torch.ones(2)), function(torch.ones(2)), name)


def test_what_attributes_and_classes_have_is_noticed():
    scaled = Scaled()
    for function in (
        lambda x: x * scaled.items[0], lambda x: x * scaled.inner.number, lambda x: x * scaled.scale,
        lambda x: x * scaled.made(),
    ):  # fmt: skip
        call, kept = compiled(function), scaled.items
        for number in 3.0, 6.0, 7.0:
            kept[0] = scaled.inner.number = Options.scale = number
            agree(call(torch.ones(2)), torch.full((2,), number), "what an attribute leads to")
    call = compiled(lambda x: x * scaled.scale)
    agree(call(torch.ones(2)), torch.full((2,), 7.0), "an attribute of a class")
    scaled.scale = 9.0
    agree(call(torch.ones(2)), torch.full((2,), 9.0), "an attribute that hides that of a class")
    Options.scale = 1.0


def test_methods_that_are_replaced():
    one, ones = Scaled(), torch.ones(2)
    call = compiled(lambda x: x * one.twice())
    one.once = 2.0
    agree(call(ones), ones * 4, "as it was")
    original, Scaled._twice = Scaled._twice, lambda self: 10.0
    try:
        agree(call(ones), ones * 10, "of the class")
        one._twice = lambda: 11.0
        agree(call(ones), ones * 11, "of the object")
    finally:
        Scaled._twice = original


def test_a_number_that_is_computed_once():
    one = Scaled()
    one.first = 3.0
    call = compiled(lambda x: x * one.kept)
    for one.first in 3.0, 4.0:
        agree(call(torch.ones(2)), torch.full((2,), 3.0), "the first")


class Table:
    def __init__(self):
        self.rows = torch.ones(2)


def test_what_a_cache_keeps_in_objects_is_known():
    kept = functools.lru_cache(lambda: Table())
    kept()
    call = compiled(lambda x: x + kept().rows, fullgraph=True)
    for number in 1.0, 2.0:
        kept().rows.fill_(number)
        agree(call(torch.ones(2)), torch.full((2,), 1 + number), "the tensor of a kept object")


class Made:
    base = None

    def __init__(self):
        self.number = FACTOR[0]

    @classmethod
    def another(cls):
        return cls()


FACTOR = [2.0]


def test_objects_that_a_method_of_the_class_makes():
    one = Made()
    call = compiled(lambda x: x * one.another().number)
    for FACTOR[0] in 2.0, 3.0, 4.0:
        agree(call(torch.ones(2)), torch.full((2,), FACTOR[0]), "what `__init__` reads")
