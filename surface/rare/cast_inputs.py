"""Inputs that kernels got in another dtype: who writes to one changes what was saved of it, as in PyTorch.

Half precision is computed in float32, and operands of two dtypes in one, so what a node saves is a copy. Its values
stay right, but PyTorch, which saves the input itself, refuses a backward after the input was written in place.
"""

from __future__ import annotations

import weakref
from functools import partial

from plugrad.autograd.graph import Node
from plugrad.graph.versions import copied


class _Copy:
    """The array that stands for an input, and the memory that the input has."""

    __slots__ = ("array", "storage")

    def __init__(self, array, storage):
        self.array, self.storage = weakref.ref(array, partial(copied.pop, id(array))), weakref.ref(storage)


def note_copy(array, tensor) -> None:
    """Note of an array that it is what a tensor holds, in another dtype."""
    if hasattr(array, "dtype") and not tensor._type.symbolic:
        copied[id(array)] = _Copy(array, tensor._type.backend.storage(tensor._raw))


def keep_old_value(node, target) -> None:
    """Let what a node saved of its first input stay as it was, where the tensor that it came from is written next."""
    if not isinstance(node, Node) or not node.saved:
        return
    first = None if node.op is None else node.op.inputs[0]
    storage = target._type.backend.storage(target._raw)
    for name, value in zip(node.saves or node.saved, node.saved):
        copy = copied.get(id(value))
        if copy is not None and copy.storage() is storage and (first is None or name == first):
            del copied[id(value)]
