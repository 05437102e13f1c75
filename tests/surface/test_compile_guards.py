"""What guards see: after each change a compiled function does what the function does; unchanged calls are served."""

from __future__ import annotations

import array
import gc
import math
import types
import weakref
from collections import OrderedDict, deque

import numpy
import pytest

import plugrad as torch
from plugrad import kernels, nn
from plugrad.extend import composite, op, unary
from support.compiled_programs import compiled, loudly, programs  # noqa: F401  a fixture

in_c = pytest.mark.skipif(kernels.why_none() is not None, reason="the extension is not there")
number = 2.0


class Slotted:
    __slots__ = ("scale", "__weakref__")

    def __init__(self):
        self.scale = 2.0


class Options(dict):
    """A dict with attributes."""


class Part(types.SimpleNamespace):
    """What has attributes, and may be of another class."""

    def share(self):
        return 1.0


class Other(Part):
    def share(self):
        return 2.0


class Kind(type):
    base = 1.0


class Kept:
    """A descriptor."""

    def __init__(self):
        self.kept = 1.0

    def __get__(self, owner, cls):
        return self.kept


def scaled(x, by=1.0, *, more=(1.0,)):
    return x * by * scaled.factor * more[0] + getattr(settings, "shift")  # noqa: B009  a name that stands in a text


def halved(x):
    return x / 2


scaled.factor = 1.0
settings = types.ModuleType("settings_of_a_program")
settings.shift = 1.0


class Thing(metaclass=Kind):
    factor = 2.0
    part, pair, kept = Part(scale=1.0), (Part(scale=1.0),), Kept()

    def __init__(self):
        self.names, self.table = {"relu": True}, OrderedDict(a=2.0, b=3.0)
        self.items, self.some, self.queue = [1.0, 2.0], {3.0}, deque([1.0])
        self.options, self.raw_items, self.parts = Options(a=1.0), array.array("d", [1.0]), {"a": 1.0}
        self.options.scale, self.view = 2.0, self.parts.values()
        self.slotted, self.raw = Slotted(), numpy.array([1.0, 2.0], "float32")
        self.model, self.weight = nn.Linear(2, 2), torch.ones(2)
        self.own, self.found, self.seen = Part(scale=1.0), {"a": 1.0}, weakref.ref(Thing.part)
        self.get = self.found.get

    def __call__(self, x):
        x = scaled(halved(x)) * type(self).base * self.own.share() * self.get("a") * self.seen().scale
        x = x * self.part.scale * self.pair[0].scale * self.kept
        x = x * self.factor * number * self.slotted.scale + torch.tensor(self.raw)
        x = x.relu() if "relu" in self.names else x.tanh()
        for scale in [
            *self.table.values(), *self.items, *self.some, *self.queue, *self.raw_items, *self.view,
            self.options["a"], self.options.scale,
        ]:  # fmt: skip
            x = x / 7 * scale + scale
        if self.weight.requires_grad:
            x = x * 2
        return self.model(x) * self.weight


def _rename(thing):
    thing.names["gelu"] = thing.names.pop("relu")


def _set_global(thing):
    global number
    number += 1.0


def _set_raw(thing):
    thing.raw[0] = 5.0


def _set_bias(thing):
    thing.model.bias.data = torch.ones(2)


def _raise(item, name):
    setattr(item, name, getattr(item, name) + 1)


def _another_default(thing):
    scaled.__kwdefaults__["more"] = (scaled.__kwdefaults__["more"][0] + 1,)


def _another_code(thing):
    one, other = [function.__code__ for function in (_more, _less)]
    halved.__code__ = other if halved.__code__ is one else one


def _more(x):
    return x * 3


def _less(x):
    return x * 0.3


CHANGES = {
    "an attribute of an object that a class has": lambda thing: _raise(Thing.part, "scale"),
    "an attribute of an object in a tuple that a class has": lambda thing: _raise(Thing.pair[0], "scale"),
    "an attribute of a descriptor": lambda thing: _raise(vars(Thing)["kept"], "kept"),
    "an attribute of a class's class": lambda thing: _raise(Kind, "base"),
    "the class of an object": lambda thing: setattr(thing.own, "__class__", Other),
    "an attribute of a function": lambda thing: _raise(scaled, "factor"),
    "a default of a function": lambda thing: setattr(scaled, "__defaults__", (scaled.__defaults__[0] + 1,)),
    "a default of a parameter by name": lambda thing: scaled.__kwdefaults__.update(
        more=(scaled.__kwdefaults__["more"][0] + 1,)
    ),
    "what a function does": _another_code,
    "a name of a module that stands in a text": lambda thing: _raise(settings, "shift"),
    "what a method of a dict is of": lambda thing: thing.found.update(a=3.0),
    "a name of a dict, and no value": _rename,
    "the order of a dict": lambda thing: thing.table.move_to_end("a"),
    "an item of a list": lambda thing: thing.items.__setitem__(0, 4.0),
    "the length of a list": lambda thing: thing.items.append(2.0),
    "an element of a set": lambda thing: (thing.some.clear(), thing.some.add(4.0)),
    "an element of a deque": lambda thing: thing.queue.append(4.0),
    "an item of an array of Python's": lambda thing: thing.raw_items.append(4.0),
    "a dict that is seen through a view": lambda thing: thing.parts.update(a=4.0),
    "an item of a dict with attributes": lambda thing: thing.options.update(a=4.0),
    "an attribute of a dict": lambda thing: setattr(thing.options, "scale", 4.0),
    "a slot": lambda thing: setattr(thing.slotted, "scale", 3.0),
    "an attribute": lambda thing: setattr(thing, "items", [5.0]),
    "a class's attribute": lambda thing: setattr(Thing, "factor", Thing.factor + 1),
    "a global": _set_global,
    "an array of NumPy": _set_raw,
    "a tensor": lambda thing: setattr(thing, "weight", torch.full((2,), 3.0)),
    "a tensor's values": lambda thing: thing.weight.mul_(3),
    "a tensor's memory": _set_bias,
    "whether a tensor requires a gradient": lambda thing: thing.weight.requires_grad_(True),
    "a parameter": lambda thing: setattr(thing.model, "bias", None),
    "a slot that is gone": lambda thing: setattr(thing, "slotted", Slotted()) or setattr(thing.slotted, "scale", 4.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_program_reaches_may_change(change):
    thing = Thing()
    call, x = compiled(thing), torch.tensor([[1.0, -2.0]])
    for _ in range(3):
        torch.testing.assert_close(call(x), thing(x))
    assert len(programs(call)) == 1
    before = thing(x)
    change(thing)
    assert not torch.equal(thing(x), before)
    for _ in range(3):
        torch.testing.assert_close(call(x), thing(x))
    assert len(programs(call)) <= 2


def test_arguments_that_are_no_tensors():
    def function(x, scale, *, add=0.0, name="a"):
        y = x / scale + add
        return y if name == "a" and scale is not True else -y

    call, x = compiled(function), torch.tensor([0.0, 1.0])
    for args, kwargs in [
        ((2.0,), {}), ((2,), {}), ((0.0,), {}), ((-0.0,), {}), ((True,), {}), ((1,), {}), ((1.0,), {}),
        ((2.0,), {"add": 1}), ((2.0,), {"add": 1.0}), ((2.0,), {"name": "b"}), ((math.nan,), {}),
    ]:  # fmt: skip
        if len(programs(call) if call._compiled.arrays else ()) == 7:
            call._compiled.arrays.reset()
        for _ in range(2):
            torch.testing.assert_close(call(x, *args, **kwargs), function(x, *args, **kwargs), equal_nan=True)
    assert torch.equal(call(scale=2.0, x=x), x / 2) and torch.equal(call(x=x, scale=4.0), x / 4)


class Named:
    """What is equal to others of its name."""

    def __init__(self, name, scale):
        self.name, self.scale = name, scale

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Items(list):
    """A list with attributes."""


def test_arguments_that_are_objects_with_attributes():
    x, items = torch.ones(2), Items([2.0])
    call = compiled(lambda x, one: x * one.scale)
    assert [call(x, Named("a", scale))[0] for scale in (2.0, 3.0, 2.0)] == [2, 3, 2]
    call, items.scale = compiled(lambda x, one: x * one[0] * one.scale), 1.0
    assert call(x, items)[0] == 2
    items.scale = 4.0
    assert call(x, items)[0] == 8
    call = compiled(lambda x, scale: x * float(scale))
    assert [math.copysign(1, call(x, numpy.float32(zero))[0]) for zero in (0.0, -0.0)] == [1, -1]


def test_arguments_that_are_tensors():
    def function(x, y):
        return x * 2 + y, torch.is_grad_enabled(), x.dtype, x.requires_grad, x.is_contiguous()

    call, x, y = compiled(function), torch.randn(4, 4), torch.randn(4, 4)
    rows = torch.randn(8, 4)
    for args in [
        (x, y), (y, x), (x, x), (x[:2], y[:2]), (x.t(), y), (rows[::2], y), (x.double(), y.double()), (x.long(), y),
        (x.clone().requires_grad_(), y), (rows[4:], y), (x, y),
    ]:  # fmt: skip
        if len(programs(call) if call._compiled.arrays else ()) == 7:
            call._compiled.arrays.reset()
        for _ in range(2):
            for one, other in zip(call(*args), function(*args)):
                assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    with torch.no_grad():
        assert call(x, y)[1] is False
    assert call(x, y)[1] is True


def test_one_row_of_every_second_one_is_served_again():
    call, rows = compiled(lambda x: x * 2), torch.randn(8, 4)
    for _ in range(3):
        assert torch.equal(call(rows[::2][1:2]), rows[2:3] * 2)
    assert len(programs(call)) == 1


def test_an_argument_whose_history_changes_is_a_view_that_is_up_to_date():
    call, base, w = compiled(lambda x: x * 2), torch.ones(3), torch.tensor(3.0, requires_grad=True)
    view = base[:]
    call(view), call(view)
    base.mul_(w)
    call(view).sum().backward()
    assert w.grad == 6


def test_gradients_that_come_or_go():
    model = nn.Linear(2, 1)

    def step(x):
        model(x).sum().backward()
        return model.weight.grad.clone()

    call, x = compiled(step), torch.ones(3, 2)
    for expected in (3, 6, 9):
        assert torch.equal(call(x), torch.full((1, 2), float(expected)))
    model.zero_grad()
    for expected in (3, 6):
        assert torch.equal(call(x), torch.full((1, 2), float(expected)))


@in_c
def test_unchanged_calls_are_decided_in_c():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    call, x = compiled(model), torch.randn(3, 2)
    call(x), call(torch.randn(3, 2)[:])
    (program,) = programs(call)
    assert program.guard.same((x,), {}) is True and program.guard.same((x[:],), {}) is True
    for args, kwargs in [
        ((x, x), {}),
        ((), {}),
        ((), {"input": x}),
        ((x[:2],), {}),
        ((x.double(),), {}),
        ((None,), {}),
    ]:
        assert program.guard.same(args, kwargs) is False
    model.train(False)
    assert program.guard.same((x,), {}) is False
    model.train(True)
    assert program.guard.same((x,), {}) is True
    for wrong in [((x,),), (x, {}), ((x,), None)]:
        with pytest.raises(TypeError):
            program.guard.same(*wrong)


def test_programs_that_nobody_has_are_forgotten():
    model = nn.Linear(2, 2)
    model.again = compiled(lambda x, model=model: model(x) * 2)  # a circle through what the guard watches
    model.again(torch.ones(1, 2)), model.again(torch.ones(1, 2))
    seen = weakref.ref(model)
    del model
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("kind", [list, deque, bytearray, lambda items: array.array("d", items)])
def test_containers_that_the_program_changes_are_as_if_it_had_run_once(kind):
    items = kind([1])

    def function(x):
        items.append(2)
        return x * len(items)

    call = compiled(function)
    with pytest.warns(UserWarning, match="changes Python objects"):
        assert call(torch.ones(())) == 2
    assert list(items) == [1, 2] and call(torch.ones(())) == 3


def test_sizes_that_need_programs_of_their_own_are_served():
    model = nn.Linear(3, 2)

    def function(x):
        return model(x).relu() * math.sqrt(x.shape[0])  # what C makes of a size is known for that one alone

    call = compiled(function)
    for size in range(1, 13):  # each one comes once: the first eight are captured
        x = torch.randn(size, 3)
        torch.testing.assert_close(call(x), function(x))
    assert len(programs(call)) == 8
    for size in (9, 10, 11, 12) * 3:  # those that come again are, too
        x = torch.randn(size, 3)
        torch.testing.assert_close(call(x), function(x))
    assert len(programs(call)) == 12
    for size in range(1, 60):
        for _ in range(9):
            x = torch.randn(size, 3)
            torch.testing.assert_close(call(x), function(x))
    assert len(programs(call)) == 32 and sum(bool(program.free) for program in programs(call)) <= 8


def test_what_is_new_at_each_call_is_captured_eight_times():
    state = {"scale": 0.0}
    call, x = compiled(lambda x: x * state["scale"]), torch.ones(2)
    for number in range(8):
        state["scale"] += 1.0
        assert torch.equal(call(x), torch.full((2,), number + 1.0))
    state["scale"] += 1.0
    with pytest.warns(UserWarning, match="8 programs"):
        assert torch.equal(call(x), torch.full((2,), 9.0))
    assert torch.equal(call(torch.ones(3)), torch.full((3,), 9.0))


def test_an_op_of_a_third_party_is_captured_at_its_first_use(recwarn):
    @unary(name="doubled_first", vjp=None)
    def doubled(xp, input):
        return input * 2

    @composite(name="bent_first")
    def bent(F, input):
        return F(doubled)(input) + F.exp(input)

    for program in (bent, bent.function, lambda x: bent(x) * 2):
        compiled = torch.compile(program)
        assert torch.equal(compiled(torch.ones(3)), program(torch.ones(3)))
    assert not recwarn.list, [str(one.message) for one in recwarn.list]


def test_what_a_kernel_of_a_third_party_changes_is_noticed():
    seen = []

    @op(name="counted_kernel", vjp=None)
    def counted(xp, input):
        seen.append(len(seen))
        return input * 2

    with pytest.warns(UserWarning, match="changes Python objects"):
        torch.compile(lambda x: counted(x))(torch.ones(3))
