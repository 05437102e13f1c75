"""Copies that stand for views: conjugates, which follow what is written to the tensor that they were made of.

Such a copy is brought up to date when a tensor that sees it is next used: a view, or what `detach()`, `.data` and so on
made, which is marked as seeing one. Nobody may write to it: there is no array that would take what is written to the
other tensor, so the write is refused, and NumPy's arrays are locked. On a device, whose bytes nobody waits for, a copy
is computed again when plugrad has written to what it was made of.
"""

from __future__ import annotations

import weakref
from functools import partial

import numpy

from plugrad.extend import from_raw, type_of
from plugrad.graph import numpy_writes, versions
from plugrad.graph.modes import tick
from plugrad.tensor.views import copies


class _Copy:
    """An array that nobody may write, what it was made of, by which op and other arguments, when it was up to date."""

    __slots__ = ("array", "source", "op", "rest", "upto")

    def __init__(self, array, source, op, rest):
        self.array, self.upto = weakref.ref(array, partial(copies.pop, id(array))), tick()
        self.source, self.op, self.rest = source, op, rest

    def is_conj(self) -> bool:
        """Whether elements are the conjugates of what the memory of other tensors holds."""
        behind = copy_behind(self.source)
        return behind is None or not behind.is_conj()

    def follow(self, unnoticed: bool) -> None:
        """Compute the copy again if anything may have been written since; `unnoticed` by NumPy."""
        behind = copy_behind(self.source)
        if behind is not None:
            behind.follow(unnoticed)
        if not unnoticed and not numpy_writes.any_since(self.upto):
            return
        copy, now = self.array(), tick()
        lockable = type(copy) is numpy.ndarray
        if lockable or versions.written_since(self.source, self.upto):
            fresh = self.op.compute(type_of(self.source), [self.source, *self.rest])
            if not lockable or fresh.tobytes() != copy.tobytes():
                versions.touch(from_raw(copy))
                self.write(copy, fresh, lockable)
        self.upto = now

    @staticmethod
    def write(copy, fresh, lockable) -> None:
        """Write new elements, also if the array is locked."""
        if not lockable:
            copy[...] = fresh
            return
        copy.flags.writeable = True
        try:
            copy[...] = fresh
        finally:
            copy.flags.writeable = False


def stands_for_view(array, source, op, rest) -> bool:
    """Note, and lock, what an op with `follows=True` has computed; False if that has not memory of its own.

    `source` is the array that it was made of, `rest` are the op's other arguments.
    """
    if array.base is not None:
        return False
    if type(array) is numpy.ndarray:
        array.flags.writeable = False
    copies[id(array)] = _Copy(array, source, op, rest)
    return True


def owner(array):
    """Return the array whose memory an array sees."""
    base = array.base
    while base is not None:  # NumPy's as_strided puts an object of its own between a view and its base
        if isinstance(base, numpy.ndarray) or type(base) is type(array):
            array = base
        base = getattr(base, "base", None)
    return array


def copy_behind(array):
    """Return the note on the copy that an array sees a part of; None if it sees none."""
    return copies.get(id(owner(array)))


def behind(array):
    """Return the array itself, or what the copy was made of that it sees."""
    copy = copy_behind(array)
    return array if copy is None else behind(copy.source)


def is_conj(self) -> bool:
    """Whether this is a conjugate that follows another tensor, and can't be written."""
    copy = copy_behind(self._raw) if self.is_complex() else None
    return copy is not None and copy.is_conj()


def is_neg(self) -> bool:
    """Always False: negation is never delayed."""
    return False


def follow_copy(tensor) -> bool:
    """Bring a tensor that sees a copy up to date with what the copy was made of; return whether it sees one."""
    copy = copy_behind(tensor._raw)
    if copy is None:
        return False
    mark = getattr(tensor._base, "_view", tensor._view)
    copy.follow(getattr(mark, "handles", None) is not None)
    return True


def lent(tensor, force: bool):
    """Return what a tensor that sees a copy shows NumPy, whose array does not follow: what it holds now, read-only.

    A conjugate itself is refused, except by `force`.
    """
    if tensor.is_conj() and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that has conjugate bit set, since the array would not follow what is written "
            "to the tensor. Use tensor.resolve_conj().numpy() instead."
        )
    array = tensor._host().copy()
    array.flags.writeable = force
    return array


def refuse_copy(array) -> None:
    """Raise RuntimeError if an array that was to be written sees a copy that stands for a view."""
    if copy_behind(array) is not None:
        raise RuntimeError(
            "the conjugate of a complex tensor can't be written in place: it is a copy, from which nothing would reach "
            "the tensor. Write to the tensor itself, or to a clone() or resolve_conj() of the conjugate."
        )
