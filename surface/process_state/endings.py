"""What goes on when a plugin's code has come to its end: threads, and what runs when the program ends."""

from __future__ import annotations

import atexit
import threading
import time
from operator import is_

from plugrad.process_state.kinds import Setting, imported
from plugrad.process_state.output import is_alone, quiet_threads
from plugrad.process_state.owners import is_foreign

THREADS = "the threads for which the program waits at its end"


# ---------------------------------------------------------------------------------------------------- threads


def left_running() -> list:
    """Return the threads for which the interpreter waits when the program ends, but for those of executors."""
    pool = imported("concurrent.futures.thread")  # which ends its threads itself
    waited = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    return [one for one in waited if pool is None or one not in pool._threads_queues]


class _Lasting(Setting):
    """Threads that go on for ever; they can't be ended, nor be made others. `running` says which there are."""

    __slots__ = ()

    def __init__(self, label, running):
        super().__init__(label, running, lambda before: None)

    @staticmethod
    def new(before, now) -> list:
        """Return those that do not end within a second."""
        new, until = [one for one in now if one not in before], time.monotonic() + 1
        for thread in new:
            thread.join(max(0, until - time.monotonic()))
        return [one for one in new if one.is_alive()]

    def same(self, before, now):
        return not self.new(before, now)

    def changes(self, before, now):
        names = ", ".join(ascii(one.name) for one in self.new(before, now))
        return [f"{self.label} ({names} is left running)"]


class Threads(_Lasting):
    """Those for which the program waits, unless there are others that could have begun them."""

    __slots__ = ()

    def __init__(self):
        super().__init__(THREADS, self._running)

    @staticmethod
    def _running():
        left, here = left_running(), threading.current_thread()
        return left, all(one in left or one.daemon or one is here for one in threading.enumerate())

    @staticmethod
    def new(before, now):
        return _Lasting.new((), now[0]) if before[1] and not before[0] else []


def _daemons() -> list:
    """Return the threads of plugins that end with the program."""
    running = [one for one in threading.enumerate() if one.daemon and one not in quiet_threads]
    return [one for one in running if is_foreign(_work_of(one))]


def _work_of(thread):
    """Return what a thread runs: the function that it was given, or its class."""
    name = {threading.Thread: "_target", threading.Timer: "function"}.get(type(thread), "")
    return getattr(thread, name, None) or type(thread)


DAEMONS = _Lasting("the threads of the program", _daemons)


# ---------------------------------------------------------------------------------------------------- the end


class _Probe:
    """Is compared with each function that is registered, and equal to those at some places: `atexit` lists none."""

    __hash__ = None

    def __init__(self, places=()):
        self.places, self.met = places, []

    def __eq__(self, other):
        self.met.append(other)
        return len(self.met) - 1 in self.places


def _registered() -> list:
    probe = _Probe()
    atexit.unregister(probe)
    return probe.met


def _places(before, now) -> list:
    """Return where the functions stand that came meanwhile: at the end, or with Python 3.14 in front."""
    if all(map(is_, before, now)):
        return [*range(len(before), len(now))]
    if all(map(is_, reversed(before), reversed(now))):
        return [*range(len(now) - len(before))]
    return [place for place, one in enumerate(now) if not any(one is known for known in before)]


class Handlers(Setting):
    """The functions that `atexit` calls; one that was taken away is gone with its arguments."""

    __slots__ = ()

    def __init__(self):
        super().__init__("what is called at the end of the program", _registered, self._take_back)

    @staticmethod
    def _new(before, now):
        alone = is_alone()  # else another thread may have registered it
        return [place for place in _places(before, now) if is_foreign(now[place], alone)]

    def same(self, before, now):
        return not self._new(before, now)

    def changes(self, before, now):
        new = [now[place] for place in self._new(before, now)]
        names = [ascii(getattr(one, "__qualname__", type(one).__name__)) for one in new]
        return [f"{self.label} (atexit: {', '.join(names)})"]

    def _take_back(self, before):
        atexit.unregister(_Probe(self._new(before, _registered())))
