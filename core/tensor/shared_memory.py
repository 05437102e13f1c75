"""Writes that NumPy makes to the memory of tensors behind the back of autograd, and how they are noticed.

plugrad notes its own writes in place (`graph.touch`). A NumPy array that shares a tensor's memory writes without
telling. Nothing on the road of an op looks for that; what is done is done where memory is shared:

- *An export* (`t.numpy()`, `numpy.asarray(t)`, DLPack) hands out an array of its own, a *handle*, and keeps a
  fingerprint of the bytes if somebody beside the tensor holds them, as nodes that saved them do. Every further view,
  buffer or capsule made of a handle keeps it alive. When it dies, or when a node that saved the memory before the
  export runs backward, the bytes are compared: what was written in between was written after the node saved it.
- *A use* of a tensor known to share its memory (with a living handle, or because it was made by `from_numpy` of an
  array that somebody holds) takes the fingerprint of what this op sees. That happens where a tensor that is a view is
  brought up to date, which tensors that share nothing never are. Backward compares.

So a write before the op that saves is no error, and one after it is.
"""

from __future__ import annotations

import sys
import weakref

import numpy

from plugrad.graph import nodes
from plugrad.graph.modes import mode, tick
from plugrad.tensor.views import UNTRACKED, Base, View

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


def _glance(array) -> bytes:
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


# ---------------------------------------------------------------------------------------------------- exports


class _Link(numpy.ndarray):
    """Stands between the owner of memory and a handle: NumPy would give views of the handle the owner as their base,
    and nobody could tell when the last of them is gone; past a base of another class it does not look."""


class _Export:
    """A handle that was handed out: what memory it shows, since when, and the fingerprint of then."""

    __slots__ = ("array", "since", "before", "handle", "key")

    def __init__(self, array, handle, key):
        self.array, self.since, self.before, self.key = array, tick(), fingerprint(array), key
        self.handle = weakref.ref(handle, self.closed)

    def changed(self) -> bool:
        """Whether the bytes are others than at the export."""
        return fingerprint(self.array) != self.before

    def closed(self, _) -> None:
        """The handle and all made of it are gone: nobody can write any more, so settle what was written."""
        known = _exports.get(self.key)
        if known is not None and self in known:
            known.remove(self)
            if not known:
                del _exports[self.key]
        if self.changed():
            nodes.touch_array(self.array, self.since)


_exports: dict[int, list] = {}  # id of a storage -> exports that are open; they keep the storage alive
_alone = None
inside = 0  # how many custom Functions are running: arrays handed out there are compared when the Function is done


def _holders(tensor) -> int:
    return sys.getrefcount(tensor._data)


def export(tensor):
    """Return a NumPy array that shares the memory of a CPU tensor, such that writes to it can be noticed."""
    global _alone
    if _alone is None:
        from plugrad.tensor.tensor import from_raw

        _alone = _holders(from_raw(numpy.empty(0)))
    source = _source(tensor)
    own = _holders(tensor) == _alone + (source is not None and source._data is tensor._data)
    array = tensor._data
    if not array.flags.writeable:
        return array.view()
    handle = array.view(_Link).view(_Link).view(numpy.ndarray)
    reference, marked = weakref.ref(handle), tensor
    while marked is not None:
        marked = _source(watch(marked, reference))
    if not own or inside or array.base is not None:
        storage = tensor._type.backend.storage(array)
        made = _Export(array, handle, id(storage))
        _exports.setdefault(made.key, []).append(made)
        nodes.last_touch = made.since  # nodes older than this look twice
    return handle


def _source(tensor):
    """Return the tensor that this one was detached from, if it is still there."""
    reference = getattr(tensor, "_source", None)
    return None if reference is None else reference()


# ---------------------------------------------------------------------------------------------------- uses


def forever():
    """Stand for a handle that never dies: NumPy's own array."""
    return True


def watch(tensor, handle):
    """Have ops on a tensor and on views of it note what they see, as long as a handle lives; return what was marked."""
    mark = tensor._view
    if type(mark) is View:
        tensor = mark.base
        mark = tensor._view
    if type(mark) is Base:
        handles = mark.handles
        if handles is None or handle is forever or len(handles) > 8:
            mark.handles = (handle if handles is None else forever,)
        elif handles[0] is not forever:
            mark.handles = (*[known for known in handles if known() is not None], handle)
    elif mark is not UNTRACKED:
        tensor._view = mark = Base(0)
        mark.handles = (handle,)
    return tensor


def references(array) -> int:
    """Return how many references there are to an argument, this one included."""
    return sys.getrefcount(array)


_held = numpy.empty(0)
_COUNTS = references(_held) == 3 and references(numpy.empty(0)) == 2  # interpreters may borrow references, uncounted


def handed_over(array, count) -> bool:
    """Whether an array with so many `references`, seen by the function it was passed to, belongs to nobody else."""
    return _COUNTS and count == 2 and array.base is None and not weakref.getweakrefcount(array)


def shared(tensor):
    """Mark a new tensor as sharing its memory with an array that NumPy may write; return it."""
    if tensor._data.flags.writeable:
        watch(tensor, forever)
    return tensor


def inherit(tensor, source) -> None:
    """Mark a new tensor that shares the memory of `source` as the latter is."""
    mark = source._view
    if type(mark) is View:
        mark = mark.base._view
    if type(mark) is Base and mark.handles is not None:
        tensor._view = Base(0)
        tensor._view.handles = mark.handles


class _Seen:
    """What ops saw of one array: pairs (tick, fingerprint) in order, one for each change; (tick, None) at the end."""

    __slots__ = ("array", "history")

    def __init__(self, array):
        self.array, self.history = weakref.KeyedRef(array, _forget, id(array)), []


_seen: dict[int, _Seen] = {}


def _forget(reference) -> None:
    _seen.pop(reference.key, None)


def note_use(tensor, mark) -> None:
    """Keep the fingerprint of a tensor that is about to be used by an op, if it may be recorded."""
    if not mode.grad:
        return
    handles, array = mark.handles, tensor._data
    entry = _seen.get(id(array))
    known = entry is not None and entry.array() is array
    ended = handles[0] is not forever and not any([handle() is not None for handle in handles])
    if ended:
        mark.handles = None
    if type(array) is not numpy.ndarray or ended and not known:
        return
    if not known:
        entry = _seen[id(array)] = _Seen(array)
    now = _glance(array)
    history = entry.history
    if not history or history[-1][1] != now:
        history.append((tick(), now))
        del history[:-16]
        if len(history) > 1:
            nodes.last_touch = history[-1][0]  # nodes older than this look twice
    if ended:  # whatever is written from now on plugrad writes, and later nodes are not to be compared with this
        history.append((tick(), None))


# ---------------------------------------------------------------------------------------------------- backward


def settle() -> None:
    """Before a backward: if anything was written since it was used, have all nodes compare what they saved."""
    if len(_seen) <= _FEW:
        for entry in list(_seen.values()):
            array = entry.array()
            history = entry.history  # empty for a moment, while another thread makes the entry
            if array is not None and history and history[-1][1] not in (None, _glance(array)):
                break
        else:
            return
    nodes.last_touch = tick()


def changed_since(array, seq: int) -> bool:
    """Whether NumPy wrote to an array after a node of number `seq` saved it."""
    entry = _seen.get(id(array))
    if entry is not None and entry.array() is array:
        before = [look for made, look in entry.history if made < seq]
        if before and before[-1] not in (None, _glance(array)):
            return True
    if _exports and type(array) is numpy.ndarray:
        from plugrad.devices.device import device_of

        for made in _exports.get(id(device_of(array).backend.storage(array)), ()):
            if made.since > seq and numpy.may_share_memory(made.array, array) and made.changed():
                return True
    return False
