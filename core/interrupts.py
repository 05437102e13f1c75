"""Ctrl-C held back while something is written that nobody may find half written; locks that a fork leaves free."""

from __future__ import annotations

import _signal
import gc
import os
import threading
from operator import methodcaller


def process_lock(renewed=None):
    """Return an RLock that is free in a forked child; then `renewed()` is called."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: lock._is_owned() or (lock._at_fork_reinit(), renewed and renewed()))
    return lock


class held_back:
    """Hold Ctrl-C back until the block has ended; a second one comes through.

    Signals reach the main thread alone, and only where Python code handles them: elsewhere, and within another such
    block, this does nothing. An optimizer with a `step` of its own writes within one.
    """

    __slots__ = ("handler", "noted")

    def __enter__(self):
        self.noted, self.handler = None, _signal.getsignal(_signal.SIGINT)
        if callable(self.handler) and getattr(self.handler, "__func__", None) is not held_back._note:
            try:
                _signal.signal(_signal.SIGINT, self._note)
            except ValueError:  # not the main thread
                self.handler = None

    def _note(self, *signal):
        if self.noted is not None:
            self.handler(*signal)
        self.noted = signal

    def __exit__(self, *error):
        if _signal.getsignal(_signal.SIGINT) == self._note:
            _signal.signal(_signal.SIGINT, self.handler)
            if self.noted is not None:
                self.handler(*self.noted)


class uncollected:
    """Keeps Python, while the block runs, from looking for garbage: what is made there in thousands all stays.

    Afterwards that counts as old, so that the next look at what is young does not take it all up. Freezing moves it
    there at no cost; nothing comes between that and the way back, since both are called by one C function.
    """

    __slots__ = ("was_on",)

    def __enter__(self):
        self.was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *exc):
        if self.was_on:
            if not gc.get_freeze_count():  # what the program froze stays frozen
                any(map(methodcaller("__call__"), (gc.freeze, gc.unfreeze)))
            gc.enable()
