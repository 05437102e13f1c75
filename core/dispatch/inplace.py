"""What writes do: in-place forms, item assignment, and what becomes of the history of what is written.

An in-place op that is recorded runs out of place, then its result is written into the tensor, the storage's version is
incremented and the tensor's history becomes that of the result. A write to a view rewrites the history of its base: the
base is then made by a `CopySlices` node, and all views of it find their new history when they are next used. Where
nothing is recorded the emitted fast path of the in-place form writes without a temporary.
"""

from __future__ import annotations

from plugrad import needs, registry
from plugrad.dispatch import interpreter
from plugrad.dispatch.formulas import F as recorded
from plugrad.graph import modes, rare
from plugrad.graph.hooks import move_retained
from plugrad.graph.modes import LEAF, mode, tick
from plugrad.graph.nodes import Node
from plugrad.graph.versions import copied, touch
from plugrad.tensor import inference
from plugrad.tensor.indices import is_basic_index, tidy_index
from plugrad.tensor.tensor import Tensor, from_raw
from plugrad.tensor.views import View, check_memory, next_generation


def method(name: str):
    """Return the in-place method `name` (ending in '_') of an op that has one; AttributeError if none does."""
    try:
        op = registry.method_op(name[:-1])
    except registry.AmbiguousNameError:
        raise
    except AttributeError:
        op = None
    if op is None or not op.inplace:
        raise AttributeError(f"'Tensor' object has no attribute {name!r}: op {name[:-1]!r} has no in-place form")
    return op.in_place


def in_history(target) -> bool:
    """Whether a tensor that requires no grad itself is a view of one that does."""
    base = target._base
    return base is not None and base._live_edge() is not None


def run(op, target, values, inside=False, may_become_real=True):
    """Run an op and write its result into `target`; `inside` is that of `interpreter.apply`."""
    if op.inplace == "values" and mode.grad:
        with modes.no_grad():
            return run(op, target, values, inside, may_become_real)
    check_writable(target)
    if any([isinstance(value, Tensor) and (value._view or target._view) is not None for value in values[1:]]):
        rare.check_read(op, target, values)
    if op.checks_numbers:
        op.check_numbers(values)
    kept = modes.special and mode.saved_hooks or target._type.rare and mode.grad and inference.marked(target)
    if modes.levels or kept:  # what is kept of the old value is not to be written, and is no inference tensor
        old = rare.old_value(target)
        values = tuple([old if value is target else value for value in values])
    if op.runs_on == "tensors" or not modes.watched:
        result = op.call(values)
    elif inside and modes.levels:
        result = rare.call_of_duals(op, values, None, lambda: interpreter.apply(op, values, None, True))
    else:
        result = interpreter.apply(op, values, None, inside)
    if mode.grad and result._edge is None and target._type.is_differentiable:
        if any([isinstance(value, Tensor) and value._edge is not None for value in values]):
            result = rare.overwriting(op, target, result, values)
    if not may_become_real and target._type.dtype.is_complex and result._type.dtype.is_floating_point:
        rare.refuse_real(op)
    if "dtype" in op.index and values[op.index["dtype"]] is not None:
        rare.check_written_dtype(op, target.dtype, result.dtype)
    try:
        return store(target, result)
    except RuntimeError as error:
        return rare.store_overlapping(error, op, target, values, result)


def check_writable(target) -> None:
    """Raise RuntimeError if autograd forbids to write the tensor in place."""
    if not isinstance(target, Tensor):
        raise TypeError(f"only a Tensor can be written in place, not {type(target).__name__}")
    if target._view is not None:
        target._refresh()
    if target._type.rare:
        inference.check_writable(target)
    if not mode.grad:
        return
    base = None if target._view is None else target._base
    if base is not None and (target._edge is not None or base._edge is not None):
        target._view.check()
        if base._edge is LEAF or base._edge is None:
            rare.refuse_view_of_leaf()
    if target._edge is LEAF:
        rare.refuse_leaf()


def store(target, result):
    """Write `result` into `target`, whose history becomes that of `result`; return `target`."""
    if result._raw.shape != target._raw.shape:
        rare.refuse_shape(target, result)
    if result._type.plain is not target._type.plain:
        rare.check_cast(result.dtype, target.dtype, hint=": write the operation out of place")
        if copied and result._edge is not None:  # of what was computed in the other dtype
            rare.keep_old_value(result._edge, target)
        result = result.to(target.device, target.dtype)
    edge = result._edge if target._type.is_differentiable else None
    if edge is not None and target._base is not None and mode.grad:
        target._view.check()
    if modes.writes and edge is not None and target._edge is None and mode.grad:
        for note in tuple(modes.writes):
            note(target)
    array, saves_y = target._raw, False
    if isinstance(edge, Node) and edge.saved:
        if copied:
            rare.keep_old_value(edge, target)
        saves_y = any([value is result._raw for value in edge.saved])
        if any([value is array for value in edge.saved]):
            # Of what is written the formula needs the value from before. As another argument, in `x.mul_(x)`, it is
            # refused in backward, as in PyTorch; but not where the result is saved, whose version hides that of it.
            kept, first = array.copy(), None if edge.op is None or saves_y else edge.op.inputs[0]
            edge.saved = tuple([
                kept if value is array and (first is None or name == first) else value
                for name, value in zip(edge.saves or edge.saved, edge.saved)
            ])  # fmt: skip
    if not target._type.symbolic:
        check_memory(array)
    touch(target)  # before it is written: whoever is interrupted in between has written
    if not target._type.symbolic:
        array[...] = result._raw
    if saves_y:
        edge.saved = tuple(array if value is result._raw else value for value in edge.saved)
        edge.seq = tick()
    if mode.grad:
        rebase(target, edge)
    if modes.levels:
        rare.follow_write(target, result)
    return target


def rebase(target, edge) -> None:
    """Make `edge` the history of a tensor that was just written, and through it that of its base."""
    view, before = target._view, target._edge
    if view.__class__ is not View:
        if edge is not None or before is not None:
            move_retained(before, edge)
            target._edge = edge
            next_generation(target)
        return
    base, base_edge = view.base, view.base._live_edge()
    if edge is None and base_edge is None:
        return
    node = CopySlices()
    node.edges = (base if base_edge is LEAF else base_edge, edge)
    steps = [step.alone() for step in view.steps()]  # the node belongs to the base: it must not hold it
    node.saved, node.rare, node.seq = (steps, base._type.plain, base._raw.strides), None, tick()
    node.fit = ((base._raw.shape, base._type.np), (target._raw.shape, target._type.np))
    move_retained(base_edge, node)
    base._edge = node
    next_generation(base)
    if target.retains_grad:
        target._refresh()  # a gradient that is kept is that of what was written


class CopySlices(Node):
    """A base after a view of it was written: the written region's gradient goes to what was written there."""

    __slots__ = ()
    positions = (0, 1)
    inputs = 2

    def tensors(self):
        return self.saved

    def pull(self, F, g, saved, retain):
        steps, ttype, strides = saved
        if F is recorded:
            kept = region = rare.laid_out(g.clone(), strides)
            for step in steps:
                region = step.step_tensor(region)
            taken = region.clone()
            region.zero_()
            return kept, taken
        region = kept = ttype.wrap(g).copy()  # `g` may be a NumPy scalar, whose copy is none that can be written
        if kept.strides != strides:
            region = kept = rare.in_order_of(strides, kept, ttype)
        for step in steps:
            region = step.step_array(region, ttype)
        taken = region.copy()
        if getattr(region.flags, "writeable", True):
            region[...] = 0
        else:  # an expanded view was written
            from_raw(region).zero_()
        return kept, taken


def assign(op, target, values):
    """Carry out `target[index] = value`: a basic index writes all of the view that it selects."""
    check_writable(target)
    index, value = tidy_index(values[1]), values[2]
    if not isinstance(value, (Tensor, int, float, complex)):
        value = rare.number_assigned(target, value)
    elif isinstance(value, Tensor) and value._view is not None:
        value._refresh()
    if len(index) == 1 and type(index[0]) is bool:  # everything, or nothing
        if not index[0]:
            return target
        index = (None,)
    if not is_basic_index(index):
        return run(op, target, (target, index, value), True)
    region = needs.op("basic_index").function(target, index)
    run(op, region, (region, (Ellipsis,), value), True)
    if modes.levels:
        rare.follow_base(target)
    return target
