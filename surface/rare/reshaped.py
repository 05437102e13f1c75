"""Tensors that got another shape after they were recorded, as by `base.t_()`, and their views; expanded memory."""

from __future__ import annotations

from plugrad import needs
from plugrad.autograd.rare.copied_views import refuse_copy
from plugrad.autograd.rare.unrecorded_views import keep_flag
from plugrad.autograd.rare.unrecorded_views import recorded as recorded_view
from plugrad.dispatch.inplace import check_writable
from plugrad.graph import modes, rare
from plugrad.graph.modes import LEAF, tick
from plugrad.graph.nodes import OutputSlot
from plugrad.graph.versions import touch
from plugrad.tensor.views import View, follows_base, next_generation


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


def change_shape(op, target, values):
    """Give a tensor the shape that a view of it has: the in-place form of a view op."""
    check_writable(target)
    kept = type(target._view) is View and not follows_base(target)  # it keeps what history it has, of what it shows
    recorded = modes.mode.grad or kept and target._edge not in (None, LEAF)
    result = op.call(values) if modes.mode.grad or not recorded else recorded_view(op, values)
    if result._raw.size != target._raw.size and "storage_offset" not in op.index:
        raise RuntimeError(f"{op.name}_: the result has a different number of elements from the tensor")
    touch(target)
    if target._edge is not None and not recorded:
        keep_shape(target)
    before, target._raw = target.shape, result._raw
    if modes.levels:
        rare.follow_reshape(target, result)
    if recorded:
        if target.retains_grad:  # the node that it had keeps the gradient, in the shape that it had
            result._edge._rare().retained = type(None)
        target._edge = result._edge
    if type(target._view) is View:
        target._view = result._view
        if kept:
            keep_flag(target)
    else:
        next_generation(target)
        back = (op, values[1:]) if len(before) == target.ndim else (needs.op("reshape"), (before,))
        target._view.returns += ((target._view.generation, *back),)
    return target


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
