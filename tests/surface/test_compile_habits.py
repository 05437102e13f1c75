"""What libraries do in plain Python around their ops, under a compiler: they ask for types, and keep what they know."""

from __future__ import annotations

import functools
import logging
import math
import sys
import threading
import types

import pytest

import plugrad as torch
from plugrad import nn
from support.compiled_programs import agree, compiled, loudly, programs  # noqa: F401

P = nn.Parameter(torch.ones(3))
TYPES = {
    "an argument": lambda x: x * 2 if type(x) is torch.Tensor else x * 3,
    "a parameter": lambda x: x * P if type(P) is nn.Parameter else x * 3,
    "a table": lambda x: x * {torch.Tensor: 2.0}.get(type(x), 3.0),
    "a class": lambda x: x * 2 if x.__class__ in (torch.Tensor,) and isinstance(P, nn.Parameter) else x * 3,
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a thread"])
@pytest.mark.parametrize("name", TYPES)
def test_tensors_keep_their_types_in_a_capture(name, beside):
    function, event = TYPES[name], threading.Event()
    other = threading.Thread(target=event.wait)
    if beside:
        other.start()
    try:
        call = compiled(function, fullgraph=True)
        for _ in range(2):
            agree(call(torch.arange(3.0)), function(torch.arange(3.0)), name)
    finally:
        event.set()
        if beside:
            other.join()
    assert type(P) is nn.Parameter and type(torch.Tensor.__dict__["_raw"]) is type(torch.Tensor.__dict__["_type"])
    assert type(torch.Tensor.__dict__["_raw"]).__name__ == "member_descriptor"


class Heads(nn.Module):
    """Splits and joins heads by patterns, as a library does that keeps what it knows of types, patterns and shapes."""

    def __init__(self):
        super().__init__()
        self.inner, self.kinds = nn.Linear(4, 8), {}

        @functools.lru_cache
        def reading(pattern, heads):
            return [pattern, heads, [0, 2, 1, 3]]

        def sizes(heads, shape):
            return [shape[0], shape[1], heads, shape[2] // heads]

        self.reading, self.sizes, self.uncached = reading, functools.lru_cache(8)(sizes), sizes

    def forward(self, x):
        x = self.inner(x)
        if type(x) not in self.kinds:
            self.kinds[type(x)] = "permute"
        _, heads, order = self.reading("b n (h d) -> b h n d", 2)
        try:
            sizes = self.sizes(heads, x.shape)
        except TypeError:  # for shapes without a hash
            sizes = self.uncached(heads, x.shape)
        return getattr(x.reshape(sizes), self.kinds[type(x)])(order).softmax(-1)


def test_a_library_that_keeps_what_it_knows_of_types_and_shapes():
    model = Heads()
    call = compiled(model)
    for size in (3, 5, 7, 4, 3):
        x = torch.randn(size, 6, 4)
        agree(call(x), model(x), str(size))
    assert len(programs(call)) == 1


def runs_as_written(make, *xs, act=lambda step: None, captured=None):
    """Assert that a compiled program gives at each call what it gives as it is written; `make()` returns it anew."""
    one, other = make(), make()
    call = compiled(other)
    for step, number in enumerate(xs):
        act(step)
        agree(call(X[number]), one(X[number]), f"call {step}")
    if captured is not None:
        assert (call._compiled.arrays.refused is None) is captured
    return one, other


X = [torch.full((3,), n + 1.0) for n in range(3)]


def remembering_the_last():
    class Remembering(nn.Module):
        last = result = None

        def forward(self, x):
            if self.last is not x:
                self.last, self.result = x, x * 2
            return self.result + 1

    return Remembering()


def remembering_in_a_dict():
    known = {}

    def function(x):
        if x not in known:
            known[x] = x * 2
        return known[x] + 1

    return function


def remembering_in_a_list():
    known = []

    def function(x):
        if not any(one is x for one in known):
            known.append(x)
        return x + len(known)

    return function


def remembering_by_lru_cache():
    double = functools.lru_cache(lambda x: x * 2)
    return lambda x: double(x) + 1


def comparing_with_what_it_holds():
    return lambda x: x * 2 if x is X[0] else x * 3


REMEMBERING = [
    remembering_the_last, remembering_in_a_dict, remembering_in_a_list, remembering_by_lru_cache,
    comparing_with_what_it_holds,
]  # fmt: skip


@pytest.mark.parametrize("make", REMEMBERING, ids=lambda make: make.__name__)
def test_programs_that_tell_arguments_apart(make):
    runs_as_written(make, 0, 0, 1, 2, 0, 1, 1, 0)


def test_programs_that_ask_for_ids_are_not_captured():
    def make():
        known = {}
        return lambda x: known.setdefault(id(x), x * 2) + 1

    with pytest.warns(UserWarning, match="asks for the id of an object"):
        runs_as_written(make, 0, 0, 1, 2, 0)


class Unasked(nn.Module):
    """Has methods that ask for what is not watched, and does not call them."""

    id = 3.0

    def tied(self):
        return self.weight.data_ptr(), id(self.weight), self.weight._version

    def forward(self, x):
        return x * self.id


def test_methods_that_are_not_called_may_ask_for_anything():
    runs_as_written(Unasked, 0, 1, captured=True)


def cached(function, limit):
    return functools.lru_cache(limit)(function)


@pytest.mark.parametrize("limit", [None, 8], ids=["all", "some"])
def test_what_lru_cache_keeps(limit):
    """Tensors in it are the program's; what a call of the function does besides happens; emptied, it is filled anew."""
    scale, made = [2.0], []

    def make():
        notes = []
        made.append((notes, cached(lambda n: (notes.append(n), torch.full((n,), scale[0]))[1], limit)))
        keeping = made[-1][1]
        return lambda x: x * keeping(x.shape[0])

    def act(step):
        if step == 2:
            scale[0] = 5.0  # what is kept stays
        if step == 4:
            for _, keeping in made:
                keeping.cache_clear()

    runs_as_written(make, 0, 0, 0, 0, 0, 0, act=act, captured=True)
    (notes, keeping), (others, its) = made
    assert notes == others == [3, 3] and torch.equal(keeping(3), its(3))


def test_names_of_our_modules_and_pythons_that_are_replaced(monkeypatch):
    function = lambda x: torch.nn.functional.hardsigmoid(x) * math.tau  # noqa: E731
    call, x = compiled(function), torch.ones(2)
    assert torch.equal(call(x), function(x)) and torch.equal(call(x), function(x)) and len(programs(call)) == 1
    monkeypatch.setattr(torch.nn.functional, "hardsigmoid", torch.exp)
    assert torch.equal(call(x), function(x))
    monkeypatch.setattr(math, "tau", 2.0)
    assert torch.equal(call(x), function(x))
    monkeypatch.undo()
    assert torch.equal(call(x), function(x)) and len(programs(call)) <= 3


def test_texts_by_which_names_of_modules_are_looked_up():
    module, other, kinds = types.ModuleType("layers_of_a_program"), types.ModuleType("options"), {"name": "halve"}
    module.act_halve, module.factor, other.more = lambda x: x / 2, 3.0, 1.0
    holder, name = types.SimpleNamespace(options=other, name="more"), "factor"

    def make():
        return lambda x: (
            getattr(module, f"act_{kinds['name']}")(x) * vars(module)[name] + getattr(holder.options, holder.name)
        )

    def act(step):
        module.act_halve = (lambda x: x / 2) if step < 2 else (lambda x: x / 4)
        module.factor, other.more = 3.0 if step < 3 else 7.0, 1.0 if step < 4 else 2.0

    runs_as_written(make, 0, 0, 0, 0, 0, 0, act=act)


LOGGER = logging.getLogger("a program of the tests")


def test_programs_that_log(caplog):
    """A logger that is silent costs nothing; what is logged once is; what is logged at each call, at each call."""
    warn_once = functools.lru_cache(LOGGER.warning)

    def program(x):
        LOGGER.debug("of shape %s", x.shape)
        warn_once("old")
        return x * 2

    call = compiled(program, fullgraph=True)
    for _ in range(3):
        call(X[0])
    assert [one.message for one in caplog.records] == ["old"] and len(programs(call)) == 1
    with caplog.at_level("DEBUG", LOGGER.name), pytest.warns(UserWarning, match="logs"):
        call = compiled(program)
        for _ in range(2):
            call(X[0])
    assert [one.message for one in caplog.records[1:]] == ["of shape torch.Size([3])"] * 2


def test_a_program_that_logs_from_now_on(caplog):
    call = compiled(lambda x: (LOGGER.debug("called"), x * 2)[1])
    call(X[0])
    with caplog.at_level("DEBUG", LOGGER.name), pytest.warns(UserWarning, match="logs"):
        call(X[0])
    assert [one.message for one in caplog.records] == ["called"]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_printed_once(stream, capsys):
    class Telling(nn.Module):
        told = False

        def forward(self, x):
            if not self.told:
                print("first", file=getattr(sys, stream))
                self.told = True
            return x * 2

    call = compiled(Telling(), fullgraph=True)
    for _ in range(3):
        call(X[0])
    assert getattr(capsys.readouterr(), stream[3:]) == "first\n" and len(programs(call)) == 1


SCRIPT = """
import plugrad as torch
from plugrad import nn

model, data, loss = nn.Linear(4, 3), torch.randn(8, 4), None
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y["t"]) + x.t().sum()
    loss.backward()
    optimizer.step()
    return loss.detach()

train = compiled(train, fullgraph=True)
for step in range(5):
    for t, x in enumerate(data.split(4)):
        loss = train(x, {"t": torch.tensor([0, 1, 2, t])})
"""


def test_attributes_and_keys_that_are_called_as_variables_of_a_script():
    """A loop over `step` around `optimizer.step()` changes a variable that the program does not read."""
    script = {"__name__": "__main__", "compiled": compiled}
    exec(SCRIPT, script)
    assert len(programs(script["train"])) <= 2 and script["step"] == 4


def test_variables_of_a_script_that_a_program_reads_by_other_ways():
    by_text = "globals()['step']", "ROOM()['step']", "sys.modules[__name__].step"
    for code in (*by_text, "(lambda: step)()", "[step for _ in x][0]"):
        room = types.ModuleType("room_of_a_script")
        sys.modules[room.__name__] = room
        try:
            exec(f"import sys\nROOM, step = globals, 1\ndef function(x):\n    return x * {code}", vars(room))
            call = compiled(room.function)
            for room.step in 1, 2, 5:
                agree(call(torch.ones(2)), torch.ones(2) * room.step, code)
        finally:
            del sys.modules[room.__name__]
