"""Tensors that got another shape after they were recorded, as by `base.t_()`, and their views; expanded memory."""

from __future__ import annotations

from plugrad.autograd.rare.copied_views import refuse_copy
from plugrad.graph.modes import LEAF, tick
from plugrad.graph.nodes import OutputSlot


class Reshaped(OutputSlot):
    """Stands between a tensor that got another shape where nothing was recorded and its history, which has the old.

    As in PyTorch a gradient is summed to the old shape, where that was broadcast to the new one, and refused elsewhere.
    Nobody sees it: it shows the node that made the tensor, and hooks and `retain_grad()` get what arrives there.
    """

    __slots__ = ("fit", "node")
    recorded_shape = property(lambda self: self.fit[0][0])  # gradients of broadcast operands are summed to it at once

    def __init__(self, edge, shape, dtype):
        self.edges, self.saved, self.fit, self.rare, self.seq = (edge,), (), ((shape, dtype),), None, tick()
        several = isinstance(edge, OutputSlot)
        self.index, self.node = (edge.index, edge.node) if several else (0, edge)

    def _rare(self):
        return self.edges[0]._rare()

    def pull(self, F, g, saved, retain):
        shape, have = self.fit[0][0], tuple(g.shape)[max(0, g.ndim - len(self.fit[0][0])) :]
        if len(have) < len(shape) or any(n not in (1, m) for n, m in zip(shape, have)):
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index 0 - got {list(g.shape)} but expected "
                f"shape compatible with {list(shape)}: that is the shape that a tensor had when it was recorded, "
                "before it got another under no_grad() or by `.data`"
            )
        return (g,)


def keep_shape(tensor) -> None:
    """Have the history that a tensor has get gradients of the shape that the tensor has before it gets another."""
    if tensor._edge is not LEAF and tensor._edge is not None:
        retains, tensor._edge = tensor.retains_grad, Reshaped(tensor._edge, tensor._raw.shape, tensor._type.np)
        if retains:
            OutputSlot._rare(tensor._edge).retained = type(None)  # the edge that it had keeps the gradient


def follow_shape(view, mark) -> None:
    """Have a view's way from its base begin with the way back to the shape that the base had when the view was made.

    `mark` is that of the base. Where nothing but the shape was changed since, the view's history is up to date.
    """
    root = view
    while root.parent is not None:
        root = root.parent
    for generation, op, rest in mark.returns:
        if generation > root.generation:
            step = view.alone()
            step.op, step.rest, step.output, step.error, step.generation = op, rest, None, None, generation
            root.parent = root = step


def unlock(array) -> None:
    """Have NumPy let a part of an expanded array be written, but no expanded array that it is a view of.

    Raises RuntimeError for memory that another library holds read-only.
    """
    refuse_copy(array)
    if getattr(array.flags, "writeable", True):  # of a device where nothing is locked
        return
    locked = [array]
    while isinstance(locked[-1].base, type(array)) and not locked[-1].base.flags.writeable:
        locked.append(locked[-1].base)
    try:
        for one in reversed(locked):
            one.flags.writeable = True
    except ValueError:
        raise RuntimeError(
            "this tensor's memory may not be written: another library gave it read-only (an array that came by DLPack, "
            "bytes, a mapped file). Write x = x.clone() first."
        ) from None
    for one in locked[1:]:
        one.flags.writeable = False
