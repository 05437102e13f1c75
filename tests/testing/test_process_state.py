"""What counts as a change of the process, and that to look for one changes nothing."""

import io
import sys
import threading
import time
import types
from importlib import import_module
from importlib.machinery import ModuleSpec

import plugrad as torch
from plugrad import registry
from plugrad.process_state import Contained, ProcessState
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


def test_what_another_thread_imports_meanwhile_is_nobodys_change():
    state, gone = ProcessState(names=False), threading.Event()
    name = "plugrad.nn.functional"  # as the end of an import takes it away, and enters it again

    def end_of_import():
        module = sys.modules.pop(name)
        gone.set()
        time.sleep(0.3)
        sys.modules[name] = module

    thread = threading.Thread(target=end_of_import, daemon=True)
    thread.start()
    gone.wait()
    try:
        assert state.repair() == []
    finally:
        thread.join()


def test_a_module_that_is_only_being_imported_is_not_asked(monkeypatch):
    ours, pool = "plugrad.backends", "concurrent.futures.thread"
    for name in ("socket", "random", "logging", "decimal", "multiprocessing", "tempfile", ours, pool):
        half = types.ModuleType(name)
        half.__spec__ = ModuleSpec(name, None)
        half.__spec__._initializing = True
        monkeypatch.setitem(sys.modules, name, half)
    ProcessState(names=False).repair()


def test_an_import_meets_all_finders_while_another_thread_ends_loading(monkeypatch):
    walking, ended = threading.Event(), threading.Event()

    class Slow:
        def find_spec(self, name, path=None, target=None):
            if name == "found_by_the_last":
                walking.set()
                ended.wait(20)

    class Last:
        def find_spec(self, name, path=None, target=None):
            return ModuleSpec(name, Found) if name == "found_by_the_last" else None

    class Found:
        create_module, exec_module = staticmethod(lambda spec: None), staticmethod(lambda module: None)

    monkeypatch.setattr("sys.meta_path", [*sys.meta_path, Slow(), Last()])
    results = []
    with Contained():
        thread = threading.Thread(target=lambda: results.append(import_module("found_by_the_last")), daemon=True)
        thread.start()
        walking.wait(20)
    ended.set()
    thread.join()
    monkeypatch.delitem(sys.modules, "found_by_the_last", raising=False)
    assert len(results) == 1
