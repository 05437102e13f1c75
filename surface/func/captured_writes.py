"""Writes of a function of slices to tensors that are there before it is called, which `vmap` makes as if once."""

from __future__ import annotations

import math
import threading
import weakref

from plugrad import Tensor
from plugrad.graph import versions
from plugrad.graph.modes import tick

_REFUSED = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
    "that has more elements than `self`: a tensor that is the same for all slices was written to, with other values "
    "for each. Use the out-of-place op and return its result"
)


def check_target(func, dims) -> None:
    """Raise RuntimeError if a method that writes is to write slices of its operands to a tensor that is whole."""
    name = getattr(func, "__name__", "")
    ours = getattr(Tensor, name, None) is func or getattr(func, "__qualname__", "") == f"Tensor.{name}"
    if ours and name.endswith("_") and not name.endswith("__") and dims[0] is None:
        raise RuntimeError(_REFUSED)


class Once:
    """Calls of a function for one slice after the other, of which the writes to tensors from outside count once.

    What the first call writes to is remembered as it was. What the second call writes to again was there before: then
    it is carried out anew, and each call finds these tensors as the first one did and has to leave the same in them.
    What is written to by neither of the first two calls is not noticed.
    """

    def __init__(self, sliced):
        self.own = {id(_storage(tensor)) for tensor in sliced}  # each slice may write to its part of these
        self.before: dict = {}  # by the id of a storage: it, and what was in it
        self.shared: list = []  # of those that are there for all slices: (storage, what was in it, what a slice left)

    def __call__(self, function, number):
        """Return what `function(number)` returns."""
        if number == 0:
            with _Watch(self._remember):
                return function(0)
        if number == 1 and self.before:
            with _Watch(self._meet):
                result = function(1)
            self.before = {}
            if not self.shared:
                return result
        self._restore()
        result = function(number)
        for storage, _, left in self.shared:
            if not bool(((storage == left) | (storage != storage) & (left != left)).all()):
                self._restore()
                raise RuntimeError(_REFUSED)
        return result

    def _restore(self) -> None:
        for storage, before, _ in self.shared:
            storage[...] = before

    def _remember(self, tensor) -> None:
        storage = _storage(tensor)
        if storage is not None and id(storage) not in self.own and id(storage) not in self.before:
            self.before[id(storage)] = storage, storage.copy()

    def _meet(self, tensor) -> None:
        storage, before = self.before.pop(id(_storage(tensor)), (None, None))
        if storage is None:
            return
        if tensor._edge is not None or tensor._base is not None and tensor._base._edge is not None:
            raise RuntimeError(
                "vmap: a tensor that is the same for all slices was written to with a history, which would be recorded "
                "once for each slice: use the out-of-place op and return its result, or write under no_grad()"
            )
        self.shared.append((storage, before, storage.copy()))


def _storage(tensor):
    """Return the memory of a tensor, None where it has none or other than a strided array."""
    if tensor._type.symbolic or tensor.is_sparse or tensor._raw is None:
        return None
    return tensor._type.backend.storage(tensor._raw)


class _Watch:
    """A block in which `notice(tensor)` is called before each write of this thread.

    It is known as long as the block's frame lives, and no longer where Ctrl-C comes before the block.
    """

    def __init__(self, notice):
        self.notice, self.thread = notice, threading.get_ident()

    def __enter__(self):
        self.reference = weakref.ref(self, versions.watches.remove)
        versions.watches.append(self.reference)
        versions.last_write = math.inf

    def __call__(self, tensor) -> None:
        if threading.get_ident() == self.thread:
            self.notice(tensor)

    def __exit__(self, *error):
        reference, self.reference = self.reference, None
        versions.watches.remove(reference)
        if not versions.watches:
            versions.last_write = tick()
