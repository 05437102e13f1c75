"""Tensors that a capture holds: its own thread finds the arrays of the capture in them, and all others what is there.

A tensor that is lent has another class for that time, in which the names of Tensor's slots are descriptors that ask
which thread it is. What the slots hold is left as it is, so that no other thread can meet a tensor half lent, whatever
it reads in between, and no call of a plain tensor costs more.
"""

from __future__ import annotations

import threading

from plugrad import Tensor
from plugrad._C import _disabled_torch_function_impl as disabled

_CLASS = object.__dict__["__class__"]
_here = threading.local()  # `lent`: what this thread finds in tensors, by their ids
_classes: dict = {}  # a class of tensors -> that of those which are lent


class _Slot:
    """A slot of Tensor, which for the thread of the capture holds something else."""

    def __init__(self, name):
        self.name, self.own = name, Tensor.__dict__[name]

    def __get__(self, tensor, cls=None):
        lent = None if tensor is None else getattr(_here, "lent", {}).get(id(tensor))
        if lent is None:
            return self.own.__get__(tensor, cls)
        if self.name not in lent:
            raise AttributeError(self.name)
        return lent[self.name]

    def __set__(self, tensor, value):
        lent = getattr(_here, "lent", {}).get(id(tensor))
        if lent is None:
            self.own.__set__(tensor, value)
        else:
            lent[self.name] = value

    def __delete__(self, tensor):
        lent = getattr(_here, "lent", {}).get(id(tensor))
        if lent is None:
            self.own.__delete__(tensor)
        else:
            lent.pop(self.name)


def _class_of_lent(cls):
    """Return the class of tensors of a class that are lent: it says of itself that it is that class."""
    if cls not in _classes:
        names = {name: _Slot(name) for name in ("_data", "_type", "_edge", "_view", "_grad")}
        own = {"__class__": property(lambda tensor: cls), "__slots__": (), "__torch_function__": disabled}
        _classes[cls] = type(cls)(cls.__name__, (cls,), {"__module__": cls.__module__, **own, **names})
        _classes[_classes[cls]] = _classes[cls]
    return _classes[cls]


def lend(tensor, **slots) -> None:
    """Let a tensor have other contents of its slots in this thread; what is not said is not there."""
    if not hasattr(_here, "lent"):
        _here.lent = {}
    _here.lent[id(tensor)] = slots
    _CLASS.__set__(tensor, _class_of_lent(type(tensor)))


def take_back(tensor) -> None:
    """Let a tensor be of its class again, and have what is in its slots, in this thread, too."""
    _here.lent.pop(id(tensor), None)
    _CLASS.__set__(tensor, tensor.__class__)
