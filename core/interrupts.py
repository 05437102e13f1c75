"""Ctrl-C held back while something is written that nobody may find half written."""

from __future__ import annotations

import _signal


class held_back:
    """Hold Ctrl-C back until the block has ended; a second one, should the block not end, comes through at once.

    Signals reach the main thread alone, and only where Python code handles them: elsewhere this does nothing.
    """

    __slots__ = ("handler", "noted")

    def __enter__(self):
        self.noted, self.handler = None, _signal.getsignal(_signal.SIGINT)
        if callable(self.handler):
            try:
                _signal.signal(_signal.SIGINT, self._note)
            except ValueError:  # not the main thread
                self.handler = None

    def _note(self, *signal):
        if self.noted is not None:
            self.handler(*signal)
        self.noted = signal

    def __exit__(self, *error):
        if callable(self.handler):
            _signal.signal(_signal.SIGINT, self.handler)
            if self.noted is not None:
                self.handler(*self.noted)
