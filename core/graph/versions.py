"""Versions of storages: when the memory behind tensors was written, so that backward notices stale saved values.

`tick()` numbers nodes and writes by one clock. A write in place notes its tick under the storage that was written, and
all views of a storage share that entry. So a call pays nothing for versions, and a node that is younger than the last
write anywhere (`last_write`) needs no look at what it saved.
"""

from __future__ import annotations

import weakref
from functools import partial

import numpy

from plugrad.devices.device import device_of
from plugrad.graph.modes import tick

last_write = 0  # nodes with a lower number compare the versions of what they saved
watches: list = []  # references to what is called with tensors before they are written; `last_write` is infinite then


class Untracked:
    """Marks what `.data` returns: writes to it count for its own array, not for the storage that it shares."""


UNTRACKED = Untracked()


class _Writes:
    """The writes to one storage: how many, the ticks of the last one and the one before, and of the last by NumPy."""

    __slots__ = ("storage", "count", "last", "before", "last_by_numpy")

    def __init__(self, storage):
        # What is called when the storage dies is no Python code: Ctrl-C in there would be lost.
        self.storage = weakref.ref(storage, partial(writes.pop, id(storage)))
        self.count = self.last = self.before = self.last_by_numpy = 0


writes: dict[int, _Writes] = {}  # by the id of the storage
copied: dict = {}  # by the ids of arrays that kernels were given in another dtype: see `rare.note_copy`


def _entry(storage) -> _Writes:
    entry = writes.get(id(storage))
    if entry is None:
        return writes.setdefault(id(storage), _Writes(storage))  # or that of another thread, which was faster
    if entry.storage() is not storage:
        entry = writes[id(storage)] = _Writes(storage)
    return entry


def touch(*tensors) -> None:
    """Note that the storages of tensors were written in place: values of them that were saved before are stale."""
    global last_write
    now = tick()
    for tensor in tensors:
        storage = tensor._raw
        if storage.base is not None and tensor._view is not UNTRACKED:
            base = storage.base
            direct = base.__class__ is storage.__class__ and base.base is None
            storage = base if direct else tensor._type.backend.storage(storage)
        entry = writes.get(id(storage))
        if entry is None or entry.storage() is not storage:
            entry = _entry(storage)
        entry.before = entry.last
        entry.last = now
        entry.count += 1
    if now > last_write:  # not so if another thread has written since
        last_write = now
    elif watches:
        for watch in [reference() for reference in tuple(watches)]:
            if watch is not None:
                for tensor in tensors:
                    watch(tensor)


def untouch(tensor) -> None:
    """Take back the last `touch`, after which nothing was written."""
    storage = tensor._raw
    entry = _entry(storage if tensor._view is UNTRACKED else tensor._type.backend.storage(storage))
    entry.last = entry.before
    entry.count -= 1


def touch_array(array, when: int) -> None:
    """Note that NumPy wrote to an array: what was saved of it before the tick `when` is stale."""
    entry = _entry(device_of(array).backend.storage(array))
    entry.last = max(entry.last, when)
    entry.last_by_numpy = when
    entry.count += 1
    compare_before(when)


def compare_before(when: int) -> None:
    """Have all nodes that are older than the tick `when` compare what they saved."""
    global last_write
    if when > last_write:
        last_write = when


def version(tensor) -> int:
    """Return how often the storage of a tensor was written in place."""
    array = tensor._raw
    entry = writes.get(id(array if tensor._view is UNTRACKED else tensor._type.backend.storage(array)))
    return 0 if entry is None else entry.count


def written_since(array, when: int) -> _Writes | None:
    """Return the writes to an array, or its storage, if the last one came after the tick `when`, else None."""
    source = copied.get(id(array)) if copied else None
    if source is None and array.__class__ is numpy.ndarray and array.base is None:  # it is its own storage
        entry = writes.get(id(array))
        return entry if entry is not None and entry.last > when else None
    for written in (device_of(array).backend.storage(array), array, source and source.storage()):
        entry = writes.get(id(written))
        if entry is not None and entry.last > when:
            return entry
    return None
