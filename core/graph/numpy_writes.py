"""How writes to a tensor's memory are noticed that NumPy makes without autograd's knowledge.

A NumPy array that shares the memory of a tensor writes without telling (`versions.touch` is how plugrad tells). So
fingerprints of bytes are compared, of two kinds: an *export* is taken when memory is handed out (`tensor.numpy()`), a
*use* when an op reads a tensor that is known to share its memory. Which tensors these are is the business of
`plugrad.tensor.shared_memory`; here are the arrays, what they held at which tick, and the comparison.
"""

from __future__ import annotations

import weakref
from functools import partial

import numpy

from plugrad.devices.device import device_of
from plugrad.graph import versions
from plugrad.graph.modes import tick
from plugrad.interrupts import process_lock

_COLUMNS = 127  # words of 8 bytes; a prime, so that rows of a matrix that change places fall into other columns
_EXACT = 1 << 10  # bytes up to which a fingerprint is the bytes themselves
_COMPLETE = 1 << 16  # bytes up to which a use looks at all of them
_SAMPLE = 1 << 12  # bytes that a use looks at of larger arrays
_FEW = 32  # uses that a backward compares beforehand; of more it compares those that it comes to


def fingerprint(array) -> bytes:
    """Return up to 1 KiB that tells whether a NumPy array was changed: its bytes, or sums over columns of them."""
    if array.nbytes <= _EXACT:
        return array.tobytes()
    flat = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
    words = flat[: flat.size // 8 * 8].view(numpy.uint64)
    rows = words.size // _COLUMNS
    sums = words[: rows * _COLUMNS].reshape(rows, _COLUMNS).sum(0)
    return sums.tobytes() + flat[rows * _COLUMNS * 8 :].tobytes()


def _quick_fingerprint(array) -> bytes:
    """The same in bounded time: of large arrays a lattice of their elements stands for all."""
    if array.nbytes > _COMPLETE:
        shape, steps = list(array.shape), [1] * array.ndim
        size = array.nbytes
        while size > _SAMPLE:
            longest = shape.index(max(shape))
            shape[longest] = (shape[longest] + 1) // 2
            steps[longest] *= 2
            size = array.itemsize
            for n in shape:
                size *= n
        array = array[tuple([slice(None, None, step) for step in steps])]
    return fingerprint(array)


class _Export:
    """Memory that was handed out as `handle`: which array it shows, since when, and its fingerprint at that time."""

    __slots__ = ("array", "since", "before", "handle", "key")

    def __init__(self, array, handle, key):
        self.array, self.since, self.before, self.key = array, tick(), fingerprint(array), key
        self.handle = weakref.ref(handle, self.closed)

    def changed(self) -> bool:
        """Whether the bytes are others than at the export."""
        return fingerprint(self.array) != self.before

    def closed(self, _) -> None:
        """The handle and all made of it are gone, and nobody can write any more: settle what was written."""
        with lock:
            exports = open_exports.get(self.key, ())
            if self in exports:
                exports.remove(self)
                if not exports:
                    del open_exports[self.key]
        if self.changed():
            versions.touch_array(self.array, self.since)


lock = process_lock()
open_exports: dict[int, list] = {}  # by the id of the storage, which they keep alive


def note_export(array, handle) -> None:
    """Compare the bytes of a NumPy array when the last array made of `handle` has died, or a node looks before."""
    export = _Export(array, handle, id(device_of(array).backend.storage(array)))
    with lock:
        open_exports.setdefault(export.key, []).append(export)
    versions.compare_before(export.since)


class _Uses:
    """What ops saw of one array: pairs (tick, fingerprint) in order, one for each change; (tick, None) at the end."""

    __slots__ = ("array", "history")

    def __init__(self, array):
        self.array, self.history = weakref.ref(array, partial(uses.pop, id(array))), []


uses: dict[int, _Uses] = {}  # by the id of the array


def note_use(array, last: bool) -> None:
    """Keep the fingerprint of an array that an op is about to read. With the `last` one nobody can write any more."""
    entry = uses.get(id(array))
    known = entry is not None and entry.array() is array
    if type(array) is not numpy.ndarray or last and not known:
        return
    if not known:
        entry = uses[id(array)] = _Uses(array)
    now = _quick_fingerprint(array)
    history = entry.history
    if not history or history[-1][1] != now:
        history.append((tick(), now))
        del history[:-16]
        if len(history) > 1:
            versions.compare_before(history[-1][0])
    if last:  # whatever is written from now on plugrad writes, and later nodes are not to be compared with this
        history.append((tick(), None))


def before_backward() -> None:
    """If NumPy wrote to any array since an op used it, have all nodes compare what they saved."""
    if len(uses) <= _FEW:
        for entry in list(uses.values()):
            array = entry.array()
            history = entry.history  # empty for a moment, while another thread makes the entry
            if array is not None and history and history[-1][1] not in (None, _quick_fingerprint(array)):
                break
        else:
            return
    versions.compare_before(tick())


def changed_since(array, when: int) -> bool:
    """Whether NumPy wrote to an array after the tick `when`, at which a node saved it."""
    entry = uses.get(id(array))
    if entry is not None and entry.array() is array:
        before = [bytes_then for seen, bytes_then in entry.history if seen < when]
        if before and before[-1] not in (None, _quick_fingerprint(array)):
            return True
    if open_exports and type(array) is numpy.ndarray:
        later = [one for one in open_exports.get(id(device_of(array).backend.storage(array)), ()) if one.since > when]
        return any([numpy.may_share_memory(one.array, array) and one.changed() for one in later])
    return False


def any_since(when: int) -> bool:
    """Whether anything may have been written after the tick `when`, by an op or through NumPy."""
    return versions.last_write > when or bool(open_exports)


def written_since(array, when: int) -> bool:
    """Whether an array was written after the tick `when`, by an op or through NumPy."""
    return versions.written_since(array, when) is not None or bool(uses or open_exports) and changed_since(array, when)
