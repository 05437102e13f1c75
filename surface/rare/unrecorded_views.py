"""Views without history of tensors that require grad: they require grad as long as these do.

Made where nothing is recorded, or before their base required grad. As in PyTorch such a view is a leaf: what is
computed with it later is recorded, but no gradient goes on from it, to the base or to its own `.grad`, until
`requires_grad_()` makes it one of its own. So the edge of what is recorded before is no tensor that may get a gradient
later, but a stand-in that leads nowhere. Once memory that it shows is written, it is a view as others are if it was
made where operations are recorded; else it can't be used there. Its generation is negative, and says since when.
"""

from __future__ import annotations

import math
import sys
import weakref

from plugrad import Tensor, enable_grad, inference_mode, no_grad
from plugrad.autograd.rare.late_flags import with_flag
from plugrad.graph.modes import LEAF, NOWHERE, mode
from plugrad.graph.versions import UNTRACKED, written_since
from plugrad.tensor.tensor import make
from plugrad.tensor.views import FOLLOWS, next_generation

OWN = -2  # in the place of a view's `when`: it is a leaf of its own


def follow_flag(tensor, view, generation: int, used) -> bool:
    """Bring such a view up to date, or a view that was made of one later; False if its history is to be found anew.

    `generation` is that of the base; `used` is None where only `requires_grad` is asked for.
    """
    base = view.base
    if view.generation >= 0:  # the base got its flag at some time
        if view.generation >= base._view.flagged:
            return False
        if view.when == math.inf:  # so `last_write` says where every write is watched
            view.when = 0
        if written_since(tensor._raw, view.when) is not None:
            if used is None and tensor._edge is None and base._edge is not None:
                tensor._edge = LEAF
            return used is None or base._edge is None
        if tensor._edge not in (None, LEAF):
            view.generation = generation
            return True
        view.generation, view.when = ~view.when, FOLLOWS if tensor._edge is None else OWN
    if view.when == OWN and tensor._edge is None:
        view.when = FOLLOWS
    if view.when == FOLLOWS:
        stands = isinstance(tensor._edge, Tensor) or mode.records()
        tensor._edge = None if base._edge is None else _stand_in(tensor) if stands else LEAF
    looked = used is not None and (view.error is None or mode.records())
    if looked and written_since(tensor._raw, ~view.generation if view.when < 0 else view.when) is not None:
        if isinstance(tensor._edge, Tensor):
            tensor._edge = LEAF
        return tensor._edge is None or tensor._edge is LEAF and base._edge is None
    return True


def _stand_in(tensor):
    """Return the edge of what is computed with such a view: no gradient goes on from there."""
    if isinstance(tensor._edge, Tensor) and tensor._edge._raw is tensor._raw:
        return tensor._edge
    edge = make(tensor._raw, tensor._type.plain, LEAF)
    edge._view, edge._source = NOWHERE, weakref.ref(tensor)
    return edge


def leads_nowhere(edge) -> bool:
    """Whether no gradient goes on from an edge of a node."""
    return edge is None or getattr(edge, "_view", None) is NOWHERE


def shown_by(edge):
    """Return the view that an edge stands for, which may be a leaf of its own by now; if it is gone, the edge."""
    tensor = edge._source()
    return edge if tensor is None else tensor


def keep_flag(tensor) -> None:
    """Have such a view be a leaf of its own from now on, whatever becomes of its base; until its memory is written."""
    tensor._view.when = OWN
    if isinstance(tensor._edge, Tensor):
        tensor._edge = LEAF


class _Probe:
    """Stands for a tensor that one variable holds, whose memory nothing else shows."""

    def __init__(self):
        self._raw = type("Memory", (), {})()

    def requires_grad_(self):
        return _held(self), _shown(self)


def _held(tensor) -> int:
    return sys.getrefcount(tensor)


def _shown(tensor) -> int:
    owner = tensor._raw if getattr(tensor._raw, "base", None) is None else tensor._raw.base
    return sys.getrefcount(owner)


def _of_one_alone() -> tuple:
    """Return both counts as this Python has them: how many a call adds differs from one to another."""
    probe = _Probe()
    return probe.requires_grad_()


_ALONE, _ONE_ARRAY = _of_one_alone()


def note_flag(tensor) -> None:
    """Note that a tensor requires grad from now on: if it is no view, views of it may have been made before.

    Whoever holds a view holds its base, and an array that shows the memory of the base's.
    """
    with_flag(tensor)
    if sys.getrefcount(tensor) <= _ALONE or tensor._view is UNTRACKED or tensor._is_view():
        return
    if _shown(tensor) > _ONE_ARRAY:
        next_generation(tensor)
        tensor._view.flagged = tensor._view.generation


def why_no_flag(tensor) -> str:
    """Return why a tensor can't require grad."""
    return (
        "only Tensors of floating point dtype can require gradients; this one is "
        f"{tensor.dtype!r}: convert it first, as in x.float()"
    )


def one_of_several(view) -> str:
    """Return why a view that is one of the results of an op must not be written."""
    name = view.op.node_name.partition("Backward")[0]
    return (
        f"Output {view.output} of {name} is a view and is being modified inplace. This view is the "
        "output of a function that returns multiple views, which can't be modified: write it out of place."
    )


def recorded(op, values):
    """Return what a view op gives, recorded: gradients of a recorded view are of the shape that it has by now."""
    with inference_mode(False), enable_grad():
        return op.call(values)


def of_its_class(tensor):
    """Return a view of a tensor of a subclass, without history, of that class."""
    with no_grad():
        return tensor.view_as(tensor)
