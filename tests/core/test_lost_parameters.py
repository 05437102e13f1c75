"""Parameters in plain containers of a module: one warning with what to write instead, and none for ordinary data."""

from __future__ import annotations

import collections
import copy
import itertools
import re
import warnings

import pytest

import plugrad
from plugrad import nn

fresh = itertools.count()


def module(**attributes) -> nn.Module:
    """Return a module of a class of its own with some attributes."""
    cls = type(f"Net{next(fresh)}", (nn.Module,), {})
    made = cls()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def told(net, look=lambda net: list(net.parameters())) -> list:
    """Return what is said when a module's parameters are asked for."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        look(net)
    return [str(one.message) for one in caught]


def linear(n=2):
    return nn.Linear(n, n)


LOST = {
    "list": (lambda: [linear(), linear()], "list with modules", "nn.ModuleList or nn.ModuleDict"),
    "tuple": (lambda: (linear(),), "tuple with modules", "nn.ModuleList"),
    "dict": (lambda: {"a": linear()}, "dict with modules", "nn.ModuleDict"),
    "parameters": (lambda: [nn.Parameter(plugrad.ones(2))], "list with parameters", "nn.ParameterList"),
    "named parameters": (lambda: {"w": nn.Parameter(plugrad.ones(2))}, "dict with parameters", "nn.ParameterDict"),
    "set": (lambda: {linear()}, "set with modules", "nn.ModuleList"),
    "deque": (lambda: collections.deque([linear()]), "deque with modules", "nn.ModuleList"),
    "ordered": (lambda: collections.OrderedDict(a=linear()), "OrderedDict with modules", "nn.ModuleDict"),
    "nested": (lambda: [[1, "a"], {"x": (linear(),)}], "list with modules", "nn.ModuleList"),
    "both": (lambda: [linear(), nn.Parameter(plugrad.ones(1))], "modules and parameters", "nn.ParameterList"),
    "deep module": (lambda: [nn.Sequential(nn.ReLU(), linear())], "list with modules", "nn.ModuleList"),
}


@pytest.mark.parametrize("what", LOST)
def test_lost_parameters(what):
    make, kind, fix = LOST[what]
    net = module(held=make(), seen=linear())
    for look in (
        lambda net: list(net.parameters()),
        lambda net: list(net.named_parameters()),
        lambda net: plugrad.optim.SGD(net.parameters(), lr=0.1),
        lambda net: net.zero_grad(),
        lambda net: nn.Sequential(net).requires_grad_(True),
    ):
        again = type(net)()
        again.seen, again.held = linear(), make()
        net = again
        said = told(net, look)
        if said:
            break
    assert len(said) == 1 and re.match(rf"{type(net).__name__}\.held is a plain ", said[0])
    assert kind in said[0] and fix in said[0] and "requires_grad_(False)" in said[0]
    assert told(net) == [] and told(type(net)()) == [], "once"


def test_a_list_that_is_filled_after_its_assignment():
    net = module(layers=[])
    for _ in range(3):
        net.layers.append(linear())
    assert len(told(net)) == 1


def test_below_the_module():
    net = nn.Sequential(linear(), module(rest=[linear()]))
    assert len(told(net)) == 1


def test_each_attribute_and_class_is_named():
    net = module(first=[linear()], second=[linear()])
    assert [re.search(r"\.(\w+) is", one)[1] for one in told(net)] == ["first", "second"]
    assert len(told(module(first=[linear()]))) == 1


class Nothing:
    """What a program may keep."""

    layers = [1]


layer = linear()
ORDINARY = {
    "numbers": [1, 2.0, None, "text"], "empty": [], "names": {"a": 1, 2: "b"}, "shapes": ((1, 2), (3,)),
    "tensors": [plugrad.ones(2), plugrad.ones(2, requires_grad=True)], "classes": [nn.Linear, nn.Parameter],
    "objects": [Nothing(), object()], "nested": [[[[[1]]]]], "many": list(range(5000)), "text": "abc",
    "functions": {"relu": nn.functional.relu}, "without parameters": [nn.ReLU(), nn.Flatten()],
    "frozen": [nn.Linear(2, 2).requires_grad_(False)], "frozen parameter": [nn.Parameter(plugrad.ones(2), False)],
    "registered": nn.ModuleList([linear()]), "set": {1, 2},
}  # fmt: skip


@pytest.mark.parametrize("what", ORDINARY)
def test_ordinary_attributes(what):
    assert told(module(held=ORDINARY[what])) == []


def test_what_is_registered_elsewhere_is_not_lost():
    net = module(a=linear(), b=linear())
    net.order, net.by_name, net.weights = [net.b, net.a], {"a": net.a}, [net.a.weight, net.b.bias]
    net.inner = module(outer=[net.a])
    assert told(net) == []
    loop = []
    loop.append(loop)
    net = module(loop=loop)
    net.parent = [net]
    assert told(net) == []


def test_ours_are_silent():
    for made in (nn.Transformer(8, 2, 1, 1, 8), nn.LSTM(2, 2, 2), nn.ParameterList([plugrad.ones(1)]), nn.ModuleDict()):
        assert told(made) == [] and told(copy.deepcopy(made)) == []


def test_calls_do_not_look():
    """Nothing is looked for when a module is called."""
    net = module(held=[linear()])
    type(net).forward = lambda self, x: self.held[0](x)
    assert told(net, lambda net: net(plugrad.ones(2)).sum().backward()) == []
