"""Tensors that got their flag after ops had saved them: the second derivative leads to them, as in PyTorch.

A node saves the array of an operand without history, not the tensor. Which tensor that was is found by the array where
a walk is recorded: no two tensors hold the same array object, but for what `detach()`, classes of tensors and assigning
`.data` give. What could be either of two tensors leads to neither, so that no gradient is made up: what was detached
while it required no grad, and a Parameter as long as the tensor is there that it was made of. They are marked in a
slot, `_shares`, which no copy, pickle or compiled program sees. Tensors of classes that override ops lead nowhere.
"""

from __future__ import annotations

import math
import sys
import weakref
from functools import partial

from plugrad import Tensor
from plugrad.graph.modes import LEAF, tick
from plugrad.graph.saved import flagged


def _holders(tensor) -> int:
    return sys.getrefcount(tensor._raw)


class _OnlyHolder:
    def __init__(self):
        self._raw = object()


_KEPT = 8  # how many spans of time without a flag are known of a tensor; it may lose and get it at every step
_ALONE = _holders(_OnlyHolder())


def with_flag(tensor) -> None:
    """Note that a tensor requires grad from now on, and did not before."""
    spans, now = _spans(tensor), tick()
    if not spans and type(tensor) is Tensor and not hasattr(tensor, "_shares"):
        spans = ((0, math.inf),)
    if spans and _holders(tensor) > _ALONE:  # else no op has saved its array
        *before, (since, _) = spans
        _note(tensor, (*before, (since, now)))


def without_flag(tensor, edge) -> None:
    """Note that a leaf requires no grad from now on; RuntimeError for what an op made.

    What was saved of its array while it did, beside it, was another tensor's.
    """
    if edge is not LEAF:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed "
            "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        )
    spans = _spans(tensor)
    if weakref.getweakrefcount(tensor):  # what was detached from it may be there, and be saved later
        tensor._shares = True
    _note(tensor, (*spans[1 - _KEPT :], (tick(), math.inf)))


def newborn(tensor, source):
    """Mark a tensor that has the array of another one, and that one; return it."""
    several = hasattr(source, "_shares") or hasattr(source, "_source")
    tensor._shares = True if several else weakref.ref(source)
    source._shares = True
    return tensor


def _spans(tensor) -> tuple:
    """Take back what is noted of a tensor, and return it: pairs of ticks between which it required no grad."""
    known = flagged.pop(id(tensor._raw), None)
    return known[1] if known is not None and known[0]() is tensor else ()


def _note(tensor, spans) -> None:
    """Note when a tensor required no grad, if no other one has its array."""
    mark = getattr(tensor, "_shares", None)
    shared = mark is True or mark is not None and mark() is not None
    if shared or hasattr(tensor, "_source") or tensor._type.plain is not tensor._type:
        return
    if getattr(tensor._view, "handles", None) is None:  # an array of NumPy's may be that of several tensors
        key = id(tensor._raw)
        flagged[key] = weakref.ref(tensor, partial(flagged.pop, key)), spans  # no Python code: see `versions`


def flagged_since(node, value):
    """Return the tensor whose array a node saved when that required no grad, if it does now; else `value`."""
    if value.__class__ is tuple or value.__class__ is list:
        return value.__class__([flagged_since(node, item) for item in value])
    known = flagged.get(id(value._raw)) if isinstance(value, Tensor) else None
    if known is None or not any([since < node.seq < until < math.inf for since, until in known[1]]):
        return value
    tensor = known[0]()
    return tensor if tensor is not None and tensor._raw is value._raw and tensor.requires_grad else value
