"""Views made where nothing is recorded, of tensors that require grad: they require grad as long as these do.

As in PyTorch such a view is a leaf: what is computed with it later is recorded, but no gradient goes on from it, to the
base or to its own `.grad`, until `requires_grad_()` makes it one of its own. Once memory that it shows is written,
it can't be used where operations are recorded. Its mark holds the tick at which it was made, as a negative generation.
"""

from __future__ import annotations

from plugrad import enable_grad, inference_mode
from plugrad.graph.modes import LEAF, mode
from plugrad.graph.versions import written_since
from plugrad.tensor.views import Base


def follow_flag(tensor, view, generation: int, used) -> bool:
    """Bring such a view up to date, or a view that was made of one later; False if a write has made it unusable.

    `generation` is that of the base; `used` is None where only `requires_grad` is asked for.
    """
    if view.error is not None:
        tensor._edge = None if view.base._edge is None else LEAF
    if used is not None and mode.grad and written_since(tensor._data, -view.generation) is not None:
        return tensor._edge is None
    if view.error is None:
        view.generation = generation
    return True


def keep_flag(tensor) -> None:
    """Have such a view be a leaf of its own from now on, whatever becomes of its base."""
    mark = tensor._base._view
    tensor._view.generation = mark.generation if type(mark) is Base else 0


def recorded(op, values):
    """Return what a view op gives, recorded: gradients of a recorded view are of the shape that it has by now."""
    with inference_mode(False), enable_grad():
        return op.call(values)
