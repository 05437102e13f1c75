"""What Python calls, or asks, in the name of the whole program, and what a process asked of its system."""

from __future__ import annotations

import _tracemalloc  # `tracemalloc` imports what few programs use
import codecs
import copyreg
import faulthandler
import gc
import os
import sys
import threading
import types
import warnings
from operator import is_

from plugrad.process_state.kinds import Names, Registered, Setting, Table, is_among, of_module
from plugrad.process_state.output import is_alone
from plugrad.process_state.owners import is_foreign

PRIORITY = "the priority of the process"


class _Calls(Setting):
    """A list of functions that Python calls; a library may add some of its own, a plugin may not."""

    __slots__ = ("entries",)

    def __init__(self, label, entries):
        super().__init__(label, lambda: list(entries), self._restore)
        self.entries = entries

    @staticmethod
    def _new(before, now) -> list:
        alone = is_alone()  # else another thread may have added it
        return [one for one in now if not is_among(one, before) and is_foreign(one, alone)]

    def same(self, before, now):
        if len(before) == len(now) and all(map(is_, before, now)):
            return True
        return all(is_among(one, now) for one in before) and not self._new(before, now)

    def _restore(self, before):
        now = list(self.entries)
        new = self._new(before, now)
        self.entries[:] = before + [one for one in now if not is_among(one, before) and not is_among(one, new)]


def _read_loops(events):
    """Return what makes event loops, and the loop of this thread."""
    policy = events._event_loop_policy
    if policy is None or type(policy).__module__.partition(".")[0] == "asyncio":  # which is made when it is asked for
        return None, getattr(getattr(policy, "_local", None), "_loop", None)
    return policy, None


def _write_loops(events, state) -> None:
    events._event_loop_policy = state[0]
    if state[0] is None and state[1] is not None:
        events.set_event_loop(state[1])


def _write_faults(enabled) -> None:
    faulthandler.enable(2) if enabled else faulthandler.disable()


def _read_priority():
    return os.getpriority(os.PRIO_PROCESS, 0) if hasattr(os, "getpriority") else None


def _write_priority(priority) -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, priority)
    except PermissionError:  # only a privileged process may raise it again
        return


def _read_processors() -> list:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _write_processors(numbers) -> None:
    os.sched_setaffinity(0, numbers)


def _write_allocations(watched) -> None:
    _tracemalloc.start(1) if watched else _tracemalloc.stop()


def _read_child(spawn):
    """Return the Python that children run, None for this one."""
    chosen = spawn.get_executable()
    return None if chosen is None or os.fsdecode(chosen) == sys.executable else chosen


def _write_child(spawn, chosen) -> None:
    spawn.set_executable(chosen or sys.executable)


def _write_errors(handlers) -> None:
    for name, handler in handlers.items():
        codecs.register_error(name, handler)


_ERRORS = (
    "strict", "ignore", "replace", "xmlcharrefreplace", "backslashreplace", "namereplace", "surrogateescape",
    "surrogatepass",
)  # fmt: skip
_OF_SYS = (
    "excepthook", "displayhook", "unraisablehook", "breakpointhook", "stdin", "__stdin__", "__stdout__", "__stderr__",
    "__excepthook__", "__displayhook__", "__unraisablehook__", "__breakpointhook__", "modules", "meta_path",
    "path_hooks", "executable", "dont_write_bytecode", "pycache_prefix", "tracebacklimit", "float_repr_style",
    *(name for name, one in vars(sys).items() if type(one) is types.BuiltinFunctionType and name != "addaudithook"),
)  # fmt: skip
_OF_WARNINGS = (
    "warn", "warn_explicit", "formatwarning", "simplefilter", "filterwarnings", "resetwarnings", "defaultaction",
)  # fmt: skip
_OF_ALL_THREADS = "showwarning", "_showwarnmsg_impl", "filters"  # which `catch_warnings` exchanges for a block

OF_INTERPRETER = [
    Names(sys, *_OF_SYS),
    Names(warnings, *_OF_WARNINGS),
    Names(warnings, *_OF_ALL_THREADS, random=True),
    Table("what codecs do about errors", lambda: {name: codecs.lookup_error(name) for name in _ERRORS}, _write_errors),
    Registered("how objects are copied and pickled", lambda: copyreg.dispatch_table),
    _Calls("what is called when garbage is collected (gc.callbacks)", gc.callbacks),
    _Calls("what is called when threads have ended", getattr(threading, "_threading_atexits", [])),
    Setting("how event loops are made", *of_module("asyncio.events", _read_loops, _write_loops, (None, None))),
    Setting("what is printed when the process crashes (faulthandler)", faulthandler.is_enabled, _write_faults),
    Setting("whether allocations are watched (tracemalloc)", _tracemalloc.is_tracing, _write_allocations),
    Setting(PRIORITY, _read_priority, _write_priority),
    Setting("the processors that it may use", _read_processors, _write_processors),
    Setting(
        "the limit of fields in CSV files",
        *of_module("_csv", lambda room: room.field_size_limit(), lambda room, now: room.field_size_limit(now), 131072),
    ),
    Setting("what runs children of the process", *of_module("multiprocessing.spawn", _read_child, _write_child, None)),
]
