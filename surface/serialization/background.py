"""Saving in the background: a copy is made at once, and written by one thread while the program goes on."""

from __future__ import annotations

import concurrent.futures
import copy
import os
import threading

import plugrad

__all__ = ["save_async"]

_lock = threading.Lock()
_writer = None  # one thread, so that files are written in the order in which they were saved
_waiting: set = set()  # what it has not written yet
_failed: list = []  # futures whose error nobody has asked for


def save_async(obj, f, *, format=None) -> concurrent.futures.Future:
    """Save to a path in the background.

    What happens to the object afterwards does not matter.

    Args:
        obj, format: as `save` takes them; tensors are copied before this returns.
        f: a path.

    Returns a Future: `result()` waits for the file and raises what went wrong. An error that nobody asked for is
    raised by the next `save` or `save_async`. A program that ends waits for its files.

    >>> import os, tempfile, plugrad as torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "weights.pt")
    ...     torch.serialization.save_async({"weight": torch.ones(2)}, path).result()
    ...     torch.load(path)
    {'weight': tensor([1., 1.])}
    """
    global _writer
    if hasattr(f, "write"):
        raise TypeError("save_async writes to a path, not to an open file, which the program may close meanwhile")
    raise_failed()
    snapshot = copy.deepcopy(obj)
    with _lock:
        if _writer is None:
            _writer = concurrent.futures.ThreadPoolExecutor(1, "plugrad.save_async")
        running = _writer.submit(_write, snapshot, f, format)
        _waiting.add(running)
    running.add_done_callback(_end_if_idle)
    return _Saved(running)


def _end_if_idle(running) -> None:
    """End the thread if nothing else is to be written: where others run, checks can't tell who drew or printed."""
    global _writer
    with _lock:
        _waiting.discard(running)
        if not _waiting and _writer is not None:
            _writer.shutdown(wait=False)
            _writer = None


def _write(obj, f, format):
    with plugrad.no_grad():
        _in_background.active = True
        plugrad.save(obj, f, format=format)


_in_background = threading.local()


def _forget() -> None:
    """Forget the writer in a process that was forked: its thread is the parent's."""
    global _writer, _lock
    _writer, _lock = None, threading.Lock()
    _waiting.clear()
    _failed.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class _Saved(concurrent.futures.Future):
    """A Future that tells `raise_failed` of an error, until somebody asks for it."""

    def __init__(self, running):
        super().__init__()
        self.set_running_or_notify_cancel()
        running.add_done_callback(self._done)

    def _done(self, running):
        error = running.exception()
        if error is None:
            self.set_result(None)
        else:
            _failed.append(self)
            self.set_exception(error)

    def result(self, timeout=None):
        """Wait for the file; raise what went wrong."""
        try:
            return super().result(timeout)
        finally:
            self._asked()

    def exception(self, timeout=None):
        """Wait for the file; return what went wrong, or None."""
        error = super().exception(timeout)
        self._asked()
        return error

    def _asked(self):
        if self.done() and self in _failed:
            _failed.remove(self)


def raise_failed() -> None:
    """Raise the error of an earlier save in the background that nobody has asked for."""
    if _failed and not getattr(_in_background, "active", False):
        _failed[0].result()
