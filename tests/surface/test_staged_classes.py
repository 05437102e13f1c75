"""Objects of a program's own classes and Enums in script modules: attributes, files, hostile ones, traces, copies."""

from __future__ import annotations

import copy
import enum
import io
import subprocess
import sys

import pytest

import plugrad
from plugrad import nn
from plugrad.jit.packing import packed
from plugrad.serialization import CheckpointError


class Kind(enum.Enum):
    PLUS = "plus"
    TIMES = "times"


class Tally:
    def __init__(self, count: int, mean: plugrad.Tensor):
        self.count = count
        self.mean = mean
        self.last: list[int] = []

    def seen(self, x: plugrad.Tensor, kind: Kind = Kind.PLUS) -> int:
        self.count += 1
        if kind == Kind.PLUS:
            self.mean = self.mean + x.mean()
        self.last.append(x.size(0))
        return self.count

    def __len__(self) -> int:
        return len(self.last)

    @property
    def half(self) -> float:
        return self.count / 2


class Net(nn.Module):
    kinds: list[Kind]

    def __init__(self, kind=Kind.TIMES):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.tally, self.kind = Tally(3, plugrad.zeros(1)), kind
        self.kinds = [kind, Kind.PLUS]
        self.named = {"a": Tally(1, plugrad.ones(1))}

    def forward(self, x):
        y = self.layer(x) * self.tally.seen(x, self.kind)
        self.named["a"].count += len(self.tally)
        if self.kinds[-1] == self.kind:
            y = y + 1
        return y, self.tally, self.kind, self.named["a"].half

    @plugrad.jit.export
    def swap(self, tally: Tally):
        self.tally = tally
        return self.tally.count


def saved(made) -> io.BytesIO:
    file = io.BytesIO()
    plugrad.jit.save(made, file)
    file.seek(0)
    return file


def test_attributes_of_modules_are_copies_of_what_the_module_has():
    net, x = Net(), plugrad.ones(4, 2)
    script = plugrad.jit.script(net)
    y, tally, kind, half = script(x)
    assert y.equal(net.layer(x) * 4) and half == 1.0 and kind is Kind.TIMES
    assert type(tally) is Tally and tally.count == 4 and tally.last == [4] and net.tally.count == 3
    tally.count = 100  # what a program returns is the caller's own
    assert script(x)[1].count == 5 and script.tally.count == 5
    assert script.swap(tally) == 100 and script(x)[1].count == 101 and tally.count == 100
    script.tally = Tally(0, plugrad.zeros(1))
    assert script(x)[1].count == 1


def test_copies_have_objects_of_their_own():
    script, x = plugrad.jit.script(Net()), plugrad.ones(4, 2)
    other = copy.deepcopy(script)
    assert other(x)[1].count == 4 and other(x)[1].count == 5 and script(x)[1].count == 4


@pytest.mark.parametrize("kind", Kind)
def test_files_have_objects_members_and_methods(kind):
    script, x = plugrad.jit.script(Net(kind)), plugrad.ones(4, 2)
    script(x)
    again = plugrad.jit.load(saved(script))
    assert again.code == script.code and str(again.graph) == str(script.graph)
    for _ in range(2):
        ones, others = script(x), again(x)
        assert others[0].equal(ones[0]) and others[2] is ones[2] is kind and others[3] == ones[3]
        assert type(others[1]) is Tally and others[1].count == ones[1].count and others[1].mean.equal(ones[1].mean)
    twice = plugrad.jit.load(saved(again))
    assert twice(x)[1].count == script(x)[1].count
    frozen = plugrad.jit.load(saved(plugrad.jit.freeze(plugrad.jit.script(Net(kind)).eval())))
    assert frozen(x)[1].count == 4


def test_a_program_that_calls_a_loaded_one_has_the_same_classes():
    class Two(nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part, self.own = part, Tally(7, plugrad.zeros(1))

        def forward(self, x):
            first = self.part.swap(self.own)
            y, tally, kind, half = self.part(x)
            return first, tally.count, kind, tally is self.own

    script = plugrad.jit.script(Two(plugrad.jit.load(saved(plugrad.jit.script(Net())))))
    assert script(plugrad.ones(4, 2)) == (7, 8, Kind.TIMES, True)
    assert plugrad.jit.load(saved(script))(plugrad.ones(4, 2)) == (7 + 1, 9, Kind.TIMES, True)


def test_a_process_without_the_classes_runs_it(tmp_path):
    script = plugrad.jit.script(Net())
    script.save(tmp_path / "net.pt")
    program = """
import plugrad
net = plugrad.jit.load("net.pt")
x = plugrad.ones(4, 2)
y, tally, kind, half = net(x)
assert tally.count == 4 and tally.last == [4] and len(tally) == 1 and tally.half == 2.0
assert kind.name == "TIMES" and kind.value == "times"

class Other:
    count, mean, last = 40, plugrad.zeros(1), [1]

assert net.swap(Other()) == 40 and net(x)[1].count == 41
try:
    net.swap(3)
except RuntimeError as error:
    assert "Tally" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120)


def test_traces_keep_calls_of_functions_with_objects():
    @plugrad.jit.script
    def counted(x):
        tally = Tally(x.size(0), x.sum())
        tally.seen(x)
        return tally.mean * tally.count

    made = plugrad.jit.trace(lambda x: counted(x) + 1, plugrad.ones(2, 2))
    x = plugrad.full((5, 2), 2.0)
    assert made(x).equal(counted(x) + 1) and plugrad.jit.load(saved(made))(x).equal(made(x))


@pytest.mark.filterwarnings("ignore:the compiler 'native' runs a program op by op")
def test_compiled_modules_follow_their_objects():
    script, x = plugrad.jit.script(Net()), plugrad.ones(4, 2)
    plain, compiled = copy.deepcopy(script), plugrad.compile(script)
    for _ in range(4):
        ones, others = plain(x), compiled(x)
        assert others[0].equal(ones[0]) and others[1].count == ones[1].count and others[3] == ones[3]


def changed(**entries):
    """Return the description of a program in which a class has other entries."""
    tree = copy.deepcopy(packed(plugrad.jit.script(Net())))
    name = next(iter(name for name, one in tree["classes"].items() if "fields" in one))
    tree["classes"][name].update(entries)
    return tree


def of_body(*body):
    tree = changed()
    forward = tree["records"][tree["root"]]["functions"]["forward"]
    forward["body"] = [*body, *forward["body"]]
    return tree


HOSTILE = {
    "a name of Python's": lambda: changed(fields={"__class__": "int", "count": "int"}),
    "a type that is none": lambda: changed(fields={"count": "Elsewhere"}),
    "a method without a tree": lambda: changed(methods=["__reduce__"]),
    "a method that Python calls": lambda: changed(functions={"__del__": {}}, methods=["__del__"]),
    "properties of Python's": lambda: changed(properties=["__dict__"]),
    "a home that is no text": lambda: changed(home=["a"], fields=3),
    "another class": lambda: of_body(["do", 1, ["new", "Nothing", [], {}]]),
    "a class by its place": lambda: of_body(["do", 1, ["new", 3, [], {}]]),
    "an attribute of Python's": lambda: of_body(["do", 1, ["field", ["name", "x"], "__class__"]]),
    "a method of Python's": lambda: of_body(["do", 1, ["of", ["name", "x"], "__reduce__", [], {}]]),
    "a member that is none": lambda: of_body(["do", 1, ["enum", "Kind", "__class__"]]),
    "a class as an Enum": lambda: of_body(["do", 1, ["enum", "Tally", "seen"]]),
    "an Enum as a class": lambda: of_body(["do", 1, ["new", "Kind", [["const", "plus"]], {}]]),
    "an object that does not exist": lambda: of_body(["=", 1, ["field", ["name", "x"], "__dict__"], ["const", 1]]),
    "another mode": lambda: of_body(["with", 1, [["open", ["const", "x"]]], []]),
    "an object with more": lambda: of_body(["with", 1, [["object", ["name", "x"]]], []]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name):
    file = io.BytesIO()
    plugrad.save(HOSTILE[name](), file)
    file.seek(0)
    with pytest.raises(CheckpointError):
        plugrad.jit.load(file)


def test_what_a_file_reads_of_other_values_is_nothing():
    """A program of a file that takes a tensor for an object gets an error and no attribute of the tensor."""
    tree = of_body(["do", 1, ["of", ["name", "x"], "add", [["const", 1]], {}]])
    file = io.BytesIO()
    plugrad.save(tree, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="no attribute"):
        plugrad.jit.load(file)(plugrad.ones(4, 2))


def test_enums_of_files_have_plain_members():
    for members in ({"mro": 1}, {"_value_": 1}, {"A": 1, "B": "x"}, {"A": [1]}, {}, {"__class__": 1}):
        tree = packed(plugrad.jit.script(Net()))
        name = next(iter(name for name, one in tree["classes"].items() if "members" in one))
        tree["classes"][name]["members"] = members
        file = io.BytesIO()
        plugrad.save(tree, file)
        file.seek(0)
        with pytest.raises(CheckpointError):
            plugrad.jit.load(file)


def test_a_class_that_has_changed_since_is_the_files_own():
    tree = changed()
    name = next(iter(name for name, one in tree["classes"].items() if "fields" in one))
    seen = tree["classes"][name]["functions"]["seen"]
    seen["body"] = [["aug", 1, ["field", ["name", "self"], "count"], "+", ["const", 10]], *seen["body"]]
    file = io.BytesIO()
    plugrad.save(tree, file)
    file.seek(0)
    tally = plugrad.jit.load(file)(plugrad.ones(4, 2))[1]
    assert tally.count == 14 and type(tally) is not Tally
