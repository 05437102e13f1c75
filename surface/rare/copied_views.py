"""Copies that stand for views: conjugates, which follow what is written to the tensor that they were made of.

Such a copy is brought up to date when a tensor that sees it is next used. Nobody may write to it: NumPy has no array
that would take what is written to the other tensor, so the array is locked, and the write is refused.
"""

from __future__ import annotations

import weakref
from functools import partial

import numpy

from plugrad.graph import versions
from plugrad.graph.modes import tick
from plugrad.tensor.views import copies


class _Copy:
    """A locked array, and up to which tick it holds what was written to the tensor that it is a copy of."""

    __slots__ = ("array", "upto")

    def __init__(self, array):
        self.array, self.upto = weakref.ref(array, partial(copies.pop, id(array))), tick()


def stands_for_view(array) -> bool:
    """Lock what an op with `follows=True` has computed; False where the backend's arrays can't be locked."""
    if type(array) is not numpy.ndarray or array.base is not None:
        return False
    array.flags.writeable = False
    copies[id(array)] = _Copy(array)
    return True


def owner(array):
    """Return the array whose memory an array sees."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


def copy_behind(array):
    """Return the note on the copy that an array sees a part of; None if it sees none."""
    return copies.get(id(owner(array)))


def is_conj(self) -> bool:
    """Whether this is a conjugate that follows another tensor, and can't be written."""
    if not self.is_complex() or copy_behind(self._data) is None:
        return False
    return not self._is_view() or sum(getattr(step.op, "follows", False) for step in self._view.steps()) % 2 == 1


def is_neg(self) -> bool:
    """Always False: negation is never delayed."""
    return False


def follow_copy(tensor) -> None:
    """Bring a view up to date if it sees a copy, and the base was written since that was made."""
    copy, base = copy_behind(tensor._data), tensor._base
    if copy is None or base is None or versions.written_since(base._data, copy.upto) is None:
        return
    if base._view is not None:
        base._refresh()  # the base may see a copy, too
    locked, current, fresh = copy.array(), base._data, None
    for step in tensor._view.steps():
        current = step.step_array(current, base._type.plain)
        if getattr(step.op, "follows", False):
            fresh = current
    copy.upto = tick()
    versions.touch(tensor)
    locked.flags.writeable = True
    try:
        locked[...] = fresh
    finally:
        locked.flags.writeable = False


def refuse_copy(array) -> None:
    """Raise RuntimeError if an array that was to be written is a copy that stands for a view."""
    if id(array) in copies:
        raise RuntimeError(
            "the conjugate of a complex tensor can't be written in place: it is a copy, from which nothing would reach "
            "the tensor. Write to the tensor itself, or to a clone() or resolve_conj() of the conjugate."
        )
