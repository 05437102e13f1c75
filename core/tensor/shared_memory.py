"""Writes that NumPy makes to the memory of tensors without autograd's knowledge, and how they are noticed.

plugrad notes its own writes in place (`graph.versions`). A NumPy array that shares a tensor's memory writes without
telling. No call of an op looks for that; what is done is done where memory is shared, and `graph.numpy_writes` keeps
the fingerprints and compares:

- *An export* (`t.numpy()`, `numpy.asarray(t)`, DLPack) hands out an array of its own, a *handle*, and keeps a
  fingerprint of the bytes if somebody besides the tensor holds them, as nodes that saved them do. Every further view,
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

from plugrad.graph import numpy_writes, rare
from plugrad.graph.modes import mode
from plugrad.graph.versions import UNTRACKED
from plugrad.regions import declare
from plugrad.registry.namespaces import lazy_names
from plugrad.tensor.layouts import lay_out
from plugrad.tensor.views import Base, View, copies

_later, _ = lazy_names({"__name__": __name__}, None, {"arguments.data": "warn_of_read_only"})

# ---------------------------------------------------------------------------------------------------- exports


class _Link(numpy.ndarray):
    """Stands between the owner of memory and a handle: NumPy would give views of the handle the owner as their base,
    and nobody could tell when the last of them is gone; past a base of another class it does not look."""


declare("in_function")  # a walk backward or a Function is running: arrays handed out there are compared when it is done


def _holders(tensor) -> int:
    return sys.getrefcount(tensor._raw)


class _OnlyHolder:
    __slots__ = ("_raw",)

    def __init__(self):
        self._raw = numpy.empty(0)


_alone = _holders(_OnlyHolder())


def export(tensor):
    """Return a NumPy array that shares the memory of a CPU tensor, so that writes to it can be noticed."""
    copies and rare.follow_copy(tensor)
    source = _source(lay_out(tensor))
    own = _holders(tensor) == _alone + (source is not None and source._raw is tensor._raw)
    array = tensor._raw
    if not array.flags.writeable:
        return array.view()
    handle = array.view(_Link).view(_Link).view(numpy.ndarray)
    reference, marked = weakref.ref(handle), tensor
    while marked is not None:
        marked = _source(watch(marked, reference))
    if not own or mode.in_function or array.base is not None:
        numpy_writes.note_export(array, handle)
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
    with numpy_writes.lock:  # else of two handles that threads make at once one is lost
        mark = tensor._view
        if type(mark) is View:
            tensor, mark = mark.base, mark.base._view
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
    if tensor._raw.flags.writeable:
        watch(tensor, forever)
    else:
        _later("warn_of_read_only")("NumPy array", "array")
    return tensor


def inherit(tensor, source) -> None:
    """Mark a new tensor that shares the memory of `source` as the latter is."""
    handles = getattr(getattr(source._base, "_view", source._view), "handles", None)
    if handles is not None or copies and rare.follow_copy(source):
        tensor._view = Base(0)
        tensor._view.handles = handles


def note_use(tensor, mark) -> None:
    """Keep the fingerprint of a tensor that is about to be used by an op, if it may be recorded."""
    if not mode.grad:
        return
    handles = mark.handles or (forever,)  # none, if another thread has just found the last one dead
    last = handles[0] is not forever and not any([handle() is not None for handle in handles])
    last = last and mark.handles is handles  # another thread may have added one
    if last:
        mark.handles = None
    numpy_writes.note_use(tensor._raw, last)
