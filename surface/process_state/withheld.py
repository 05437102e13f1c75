"""Functions by which Python keeps something for good: they are withheld from a plugin while it is loaded.

What they are given can be neither listed nor taken back, so it is not compared afterwards, as settings are: the call
is noted, and not made.
"""

from __future__ import annotations

import codecs
import contextlib
import faulthandler
import os
import signal
import sys
import threading

from plugrad.interrupts import process_lock
from plugrad.process_state.owners import is_foreign, is_of_plugin

__all__ = ["Withheld", "real"]

_FUNCTIONS = {
    "what is told of each event of the interpreter": (sys, "addaudithook"),
    "what is called when the process forks": (os, "register_at_fork"),
    "how encodings are found": (codecs, "register"),
    "what a signal prints": (faulthandler, "register"),
    "what is printed when time is up": (faulthandler, "dump_traceback_later"),
    "whether signals interrupt calls of the system": (signal, "siginterrupt"),
    "what signals wake": (signal, "set_wakeup_fd"),
    "the environment of children": (os, "putenv"),
    "what the environment of children lacks": (os, "unsetenv"),
}
_noted: dict = {}  # thread -> lists of what plugins asked for there that are being loaded, the innermost last
_lock = process_lock()


class _Gate:
    """Stands for one of the functions while plugins are loaded."""

    def __init__(self, home, name, label):
        self.function, self.label = getattr(home, name), f"{label} ({home.__name__}.{name})"
        self.__name__, self.__doc__ = name, self.function.__doc__

    def __call__(self, *args, **kwargs):
        noted = _noted.get(threading.get_ident())
        if noted:
            caller = sys._getframe(1).f_globals.get("__name__")
            given = [one for one in (*args, *kwargs.values()) if callable(one)]
            if is_of_plugin(caller) or any(is_foreign(one, chosen=False) for one in given):
                noted[-1].append(self.label)
                return None
        return self.function(*args, **kwargs)


def real(value):
    """Return what a gate stands for, anything else as it is."""
    return value.function if type(value) is _Gate else value


class Withheld(contextlib.AbstractContextManager):
    """Withhold the functions in this thread; what a plugin asked for meanwhile is in `asked`, in words."""

    def __enter__(self):
        self.asked = []
        with _lock:
            _noted.setdefault(threading.get_ident(), []).append(self.asked)
            for label, (home, name) in _FUNCTIONS.items():
                if hasattr(home, name) and type(getattr(home, name)) is not _Gate:
                    setattr(home, name, _Gate(home, name, label))
        return self

    def __exit__(self, *error):
        with _lock:
            here = _noted[threading.get_ident()]
            here.remove(self.asked)
            if not here:
                del _noted[threading.get_ident()]
            for home, name in () if _noted else _FUNCTIONS.values():
                if hasattr(home, name):
                    setattr(home, name, real(getattr(home, name)))
