"""`plugrad.cpu`: the CPU under the names that accelerators have, for programs that ask the device they run on.

Its one stream runs everything at once, so there is nothing to wait for.
"""

from __future__ import annotations

import os
import platform

import numpy

from plugrad.cpu import amp

__all__ = [
    "Event", "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count", "get_capabilities",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """A stream of the CPU; waiting for one ends at once."""

    def __init__(self, priority: int = -1):
        self.priority = priority

    def wait_stream(self, stream) -> None:
        """Do nothing: what the other stream was given is done."""

    def record_event(self) -> None:
        """Do nothing: the event has happened."""

    def wait_event(self, event) -> None:
        """Do nothing: the event has happened."""


class Event:
    """A point in a stream of the CPU, which has always been reached."""

    def query(self) -> bool:
        """Return True: all is done."""
        return True

    def record(self, stream=None) -> None:
        """Do nothing: the point is now, and all before it is done."""

    def synchronize(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def wait(self, stream=None) -> None:
        """Do nothing: there is nothing to wait for."""


_current = Stream()


class StreamContext:
    """Make a stream the current one inside; None leaves it as it is."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        global _current
        self._before = _current
        _current = self.stream or _current

    def __exit__(self, *exception):
        global _current
        _current = self._before


def stream(stream) -> StreamContext:
    """Return a context in which a stream is the current one."""
    return StreamContext(stream)


def current_stream(device=None) -> Stream:
    """Return the current stream."""
    return _current


def is_available() -> bool:
    """Return True: there is a CPU."""
    return True


def is_initialized() -> bool:
    """Return True: a CPU needs no initialising."""
    return True


def synchronize(device=None) -> None:
    """Do nothing: what was called is done."""


def device_count() -> int:
    """Return 1: all cores are one device."""
    return 1


def current_device() -> str:
    """Return "cpu"."""
    return "cpu"


def set_device(device) -> None:
    """Do nothing: there is one."""


def get_capabilities() -> dict:
    """Return what NumPy knows of the processor.

    Its architecture, cores, and instruction sets as {name: bool}.
    """
    known = numpy._core._multiarray_umath.__cpu_features__
    sets = {name.lower(): bool(has) for name, has in known.items()}
    return {"architecture": platform.machine(), "num_logical_cores": os.cpu_count(), **sets}
