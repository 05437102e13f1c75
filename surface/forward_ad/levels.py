"""Tensors that carry tangents, and what becomes of these in calls of ops.

A tensor has tangents at *levels*: one for each forward derivative that is in progress. They stand in the tensor's
`__dict__`, and the tensor has a variant of its type, so that the fast path sends its calls, and no others, to the
general path, which asks here. A call goes to the youngest level among its arguments: its marks are taken off the
tensors, the call is made again (which serves the older levels, and records for backward), and the tangents of its
results are computed by ordinary ops from what is then seen. So derivatives nest in any order.

A level may follow several directions at once: the tangents of a tensor are a tuple, one for each direction, None where
it is zero.
"""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from functools import partial

from plugrad import Tensor, nest
from plugrad.autograd.forward_ad import rules
from plugrad.graph import modes
from plugrad.graph.modes import mode
from plugrad.graph.nodes import OutputSlot
from plugrad.regions import Exit, declare
from plugrad.tensor.layouts import lay_out
from plugrad.tensor.overriding import disabled

_MARKS = "plugrad.tensor.views"

declare("forward_paused", False)  # whether results get no tangents
declare("dual", None)  # the Level of this thread's `dual_level`


class Level:
    """One forward derivative in progress."""

    _numbers = itertools.count()

    def __init__(self, directions: int = 1):
        self.number, self.directions = next(self._numbers), directions
        self.tensors: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # those with tangents at this level

    def __enter__(self):
        modes.levels.add(weakref.ref(self, modes.levels.discard))  # so that one that was interrupted goes, too
        return self

    def __exit__(self, *exception):
        modes.levels.discard(weakref.ref(self))
        for tensor in list(self.tensors.values()):
            self.take_off(tensor)

    def of(self, tensor):
        """Return the tangents of a tensor at this level; None if it has none."""
        return tensor.__dict__.get("_tangents", {}).get(self)

    def put_on(self, tensor, tangents: tuple) -> None:
        """Give a tensor tangents at this level."""
        tensor.__dict__.setdefault("_tangents", {})[self] = tangents
        self.tensors[id(tensor)] = tensor
        if tensor._type.plain is tensor._type or tensor._type.is_open:
            tensor._type = lay_out(tensor)._type.variant()

    def take_off(self, tensor) -> None:
        """Take the tangents of a tensor at this level away."""
        marks = tensor.__dict__.get("_tangents", {})
        marks.pop(self, None)
        if not marks:
            tensor.__dict__.pop("_tangents", None)
            if type(tensor).__torch_function__ is disabled or type(tensor) is Tensor:
                if "_inference" not in tensor.__dict__:
                    tensor._type = tensor._type.plain

    def hidden(self, tensors) -> _Hidden:
        """Return a context in which tensors have none of their tangents at this level."""
        return _Hidden(self, tensors)


class Leaving(Exit):
    """The `__exit__` of a `dual_level`.

    What interrupts it leaves tangents behind that nobody can ask for.
    """

    def __get__(self, context, owner=None):
        return partial(_left, super().__get__(context, owner))


def _left(leave, *exception) -> None:
    if mode.dual is not None:
        mode.dual.__exit__()
    leave(*exception)


class _Hidden:
    def __init__(self, level, tensors):
        self.level = level
        self.marked = {id(tensor): (tensor, level.of(tensor)) for tensor in tensors if level.of(tensor) is not None}

    def __enter__(self):
        for tensor, _ in self.marked.values():
            self.level.take_off(tensor)
        return self

    def __exit__(self, *exception):
        for tensor, tangents in self.marked.values():
            self.level.put_on(tensor, tangents)

    def of(self, value, direction: int):
        """Return the tangent of an argument in one direction: of a sequence a list, None where there is none."""
        if isinstance(value, (list, tuple)):
            tangents = [self.of(item, direction) for item in value]
            return None if all(tangent is None for tangent in tangents) else tangents
        mark = self.marked.get(id(value))
        return None if mark is None else mark[1][direction]


def tensors_of(values) -> list:
    """Return the tensors in nested arguments."""
    return [leaf for leaf in nest.leaves(values) if isinstance(leaf, Tensor)]


def youngest(tensors):
    """Return the youngest level at which any of the tensors has tangents; None if none has."""
    levels = [level for tensor in tensors for level in tensor.__dict__.get("_tangents", ())]
    return max(levels, key=lambda level: level.number, default=None)


def call_of_duals(op, values, out, run):
    """Carry out a call of an op on tensors of which some may have tangents; `run()` is the call itself."""
    tensors = tensors_of(list(values))
    level = youngest(tensors)
    if level is None:
        return run()
    if out is not None:
        refuse_out(op)
    state = rules.random_state()
    with level.hidden(tensors) as hidden:
        result = call_of_duals(op, values, out, run)
        if mode.forward_paused or mode.inference:
            return result
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        pushed = rules.push(op, values, outputs, hidden, level.directions, state)
        note_saved(op, values, outputs, pushed, hidden)
    for output, tangents in zip(outputs, pushed):
        if any(tangent is not None for tangent in tangents) and not any(output is tensor for tensor in tensors):
            level.put_on(output, tangents)
    return result


def refuse_out(op) -> None:
    """Raise the error for a call with `out=` in which a tensor has a tangent."""
    raise NotImplementedError(
        f"Trying to use forward AD with {op.name}_out that does not support it because it is an out= function: write "
        "the result to the tensor by copy_()"
    )


def check_out(op, out) -> None:
    """Raise NotImplementedError if a tensor that a call writes by `out=` has tangents."""
    if modes.levels and youngest([out]) is not None:
        refuse_out(op)


# ---------------------------------------------------------------------------------------------------- writes in place


def old_value(target):
    """Return a copy of a tensor that is to be written, with copies of its tangents: what nodes may save of it."""
    old = Tensor._from_raw(target._raw.copy())
    old._edge = target._edge
    for level, tangents in target.__dict__.get("_tangents", {}).items():
        level.put_on(old, tuple([None if one is None else one.clone() for one in tangents]))
    return old


def follow_write(target, result) -> None:
    """Write the tangents of a result into those of the tensor that the result was written to, and so to its base's."""
    marks = {**target.__dict__.get("_tangents", {}), **result.__dict__.get("_tangents", {})}
    for level in sorted(marks, key=lambda level: level.number):
        new = level.of(result) or (None,) * level.directions
        have = level.of(target)
        if have is None or any(one is None for one in have):
            have = _begin(target, level)
        for tangent, value in zip(have, new):
            if value is None:
                tangent.zero_()
            else:
                tangent.copy_(value)


def follow_reshape(target, result) -> None:
    """Give a tensor whose shape was changed in place the tangents of the view that says how."""
    for level, tangents in result.__dict__.get("_tangents", {}).items():
        level.put_on(target, tangents)


def follow_base(target) -> None:
    """Give a view its part of the tangents that its base got by a write elsewhere."""
    base = target._base
    for level in base.__dict__.get("_tangents", {}) if base is not None else ():
        if level.of(target) is None:
            level.put_on(target, _through(target, level.of(base)))


def _begin(target, level) -> tuple:
    """Give a tensor, and the base that it is a view of, tangents that can be written: zeros."""
    base = target._base
    own = level.of(target)
    if base is None or own is not None:
        level.put_on(target, _filled(target, own, level))
        base = target
    else:
        level.put_on(base, _filled(base, level.of(base), level))
        level.put_on(target, _through(target, level.of(base)))
    for view in _views_of(base, 1 + (base is not target)):
        follow_base(view)
    return level.of(target)


def _views_of(base, known: int) -> list:
    """Return the tensors that are views of `base`: nobody keeps them, since that would cost every view something.

    They are searched for only if more than `known` arrays hold the memory.
    """
    owner = base._raw
    while type(getattr(owner, "base", None)) is type(owner):
        owner = owner.base
    if sys.getrefcount(owner) <= known + 2:  # this function and its call of `getrefcount` hold it, too
        return []
    marks = [one for one in gc.get_referrers(base) if type(one).__module__ == _MARKS]
    marks = [mark for mark in marks if getattr(mark, "base", None) is base]
    holders = gc.get_referrers(*marks) if marks else ()
    return [one for one in holders if isinstance(one, Tensor) and any([one._view is mark for mark in marks])]


def _filled(tensor, tangents, level) -> tuple:
    """Return the tangents of a tensor, with zeros where it has none."""
    tangents = tangents or (None,) * level.directions
    return tuple([tensor.new_zeros(tensor.shape) if one is None else one for one in tangents])


def _through(view, tangents) -> tuple:
    """Take the steps that lead from a base to a view, from the base's tangents."""
    taken = []
    for tangent in tangents:
        for step in view._view.steps() if tangent is not None else ():
            tangent = step.step_tensor(tangent)
        taken.append(tangent)
    return tuple(taken)


def drop_tangents(tensor) -> None:
    """Take all tangents of a tensor away."""
    for level in list(tensor.__dict__.get("_tangents", ())):
        level.take_off(tensor)


# ---------------------------------------------------------------------------------------------------- history


def leaf_of(tensor):
    """Return a leaf that requires grad, with the data and tangents of a tensor."""
    return without_history(tensor).requires_grad_()


def without_history(tensor):
    """Return a tensor with the data and tangents of another, without history."""
    alias = tensor.detach()
    for level, tangents in tensor.__dict__.get("_tangents", {}).items():
        level.put_on(alias, tuple([None if one is None else without_history(one) for one in tangents]))
    return alias


def unwrapped(tensor, recurse=True):
    """Return a view of a tensor without its tangents, of all or the youngest level."""
    level = youngest([tensor])
    if level is None:
        return tensor
    with level.hidden([tensor]):
        return unwrapped(tensor) if recurse and youngest([tensor]) is not None else tensor.view_as(tensor)


def note_saved(op, values, outputs, pushed, hidden) -> None:
    """Keep, with the node of a call, the tangents of what it saved: a walk backward needs them where those count."""
    node = next((output._edge for output in outputs if output._edge is not None), None)
    node = node.edges[0] if isinstance(node, OutputSlot) else node
    if getattr(node, "op", None) is not op or not node.saves:
        return
    marked: dict = {}
    for name in node.saves:
        if name in op.index:
            value = values[op.index[name]]
            items = value if isinstance(value, (list, tuple)) else (value,)
            tangents = [hidden.marked[id(item)][1] if id(item) in hidden.marked else None for item in items]
        elif name == "y" or name[:1] == "y" and name[1:].isdecimal():
            tangents = list(pushed) if name == "y" else [pushed[int(name[1:])]]
        else:
            continue
        if any(one is not None for one in tangents):
            marked[name] = tangents
    if marked:
        rare = node._rare()
        rare.tangents = {**(rare.tangents or {}), hidden.level: marked}


def lift_saved(node, tensors: list) -> list:
    """Give tensors that a node saved, connected to the graph again, the tangents that they had."""
    for level, marked in node.rare.tangents.items():
        for name, value in zip(node.saves, tensors) if weakref.ref(level) in modes.levels else ():
            items = value if isinstance(value, (list, tuple)) else (value,)
            for item, tangents in zip(items, marked.get(name, ())):
                if isinstance(item, Tensor) and tangents is not None and level.of(item) is None:
                    if any(one is not None for one in tangents):
                        level.put_on(item, tangents)
    return tensors
