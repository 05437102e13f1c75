"""Tensors that a capture holds: its own thread finds the arrays of the capture in them, and all others what is there.

The tensors stay the objects and of the classes that they are, which programs may ask for. Where no other thread runs,
their slots hold something else for that time. Where others do, they could meet a tensor half lent. Then the slots are
left as they are, and their names in Tensor are descriptors meanwhile that ask which thread it is.
"""

from __future__ import annotations

import sys
import threading

from plugrad import Tensor

_NAMES = ("_raw", "_type", "_edge", "_view", "_grad")
_here = threading.local()  # `lent`: what the thread of the capture finds in tensors, by their ids


class _Slot:
    """A slot of Tensor, which for the thread of the capture may hold something else."""

    def __init__(self, name):
        self.name, self.own = name, Tensor.__dict__[name]

    def __get__(self, tensor, cls=None):
        lent = None if tensor is None else getattr(_here, "lent", _NOTHING).get(id(tensor))
        return self.own.__get__(tensor, cls) if lent is None else lent[self.name]

    def __set__(self, tensor, value):
        lent = getattr(_here, "lent", _NOTHING).get(id(tensor))
        if lent is None:
            self.own.__set__(tensor, value)
        else:
            lent[self.name] = value


_NOTHING: dict = {}
_SLOTS = [_Slot(name) for name in _NAMES]


class Lending:
    """The tensors that one capture holds: `lend` them, and end with `take_back`."""

    def __init__(self):
        self.own: list = []  # (tensor, what its slots hold), where no other thread runs
        self.is_alone = len(sys._current_frames()) == 1
        if not self.is_alone:
            _here.lent = {}
            for slot in _SLOTS:
                setattr(Tensor, slot.name, slot)

    def lend(self, tensor, **slots) -> None:
        """Let a tensor have other contents of its five slots in this thread."""
        if not self.is_alone:
            _here.lent[id(tensor)] = slots
            return
        self.own.append((tensor, [getattr(tensor, name, None) for name in _NAMES]))
        for name, content in slots.items():
            setattr(tensor, name, content)

    def take_back(self) -> None:
        """Let all tensors have what was in their slots, in this thread, too."""
        for tensor, contents in self.own:
            for name, content in zip(_NAMES, contents):
                setattr(tensor, name, content)
        if not self.is_alone:
            _here.lent = _NOTHING
            for slot in _SLOTS:
                setattr(Tensor, slot.name, slot.own)
