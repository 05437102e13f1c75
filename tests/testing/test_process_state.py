"""What counts as a change of the process, and that to look for one changes nothing."""

import io
import sys
import types

import plugrad as torch
from plugrad import registry
from plugrad.process_state import ProcessState
from plugrad.testing.conformance import checks_of


class Eager(types.ModuleType):
    """A module that puts another one in its own place as soon as it is asked for anything, as Cython's do."""

    asked = 0

    def __getattr__(self, name):
        Eager.asked += 1
        sys.modules[self.__name__] = types.ModuleType(self.__name__)
        raise AttributeError(name)


def test_looking_at_modules_asks_them_nothing(monkeypatch):
    eager = Eager("eager_module")
    vars(eager).clear()
    vars(eager)["__name__"] = "eager_module"
    monkeypatch.setitem(sys.modules, "eager_module", eager)
    monkeypatch.setitem(sys.modules, "no_module", object())
    monkeypatch.setitem(sys.modules, "nothing", None)
    check = next(case for case in checks_of(registry.op("relu")) if case.name == "gradient")
    assert check() is None
    assert torch.relu(torch.ones(1)).item() == 1
    assert sys.modules["eager_module"] is eager and not Eager.asked


def test_streams_that_a_program_has_given_up_are_left_alone(monkeypatch):
    for stream in None, io.StringIO():  # as a daemon's, and no file
        monkeypatch.setattr("sys.__stdout__", stream)
        assert ProcessState(names=False).repair() == []
