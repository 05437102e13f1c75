"""In-place forms: every `name_` method, `copy_`, item assignment, and what they do to history.

An in-place op runs out of place, then its result is written into the tensor, the storage's version is counted up and
the tensor's history becomes that of the result. A write to a view rewrites the history of its base: the base is then
made by a `CopySlices` node, and all views of it find their new history when they are next used.
"""

from __future__ import annotations

from plugrad import call, dtypes, engine, registry
from plugrad import op as ops
from plugrad.engine import LEAF, Node, mode
from plugrad.views import UNTRACKED, View, next_generation


def method(name: str):
    """Return the in-place method `name` (ending in '_') of an op that has one, else None."""
    record = _record(name[:-1])
    if record is None or not record.inplace:
        raise AttributeError(f"'Tensor' object has no attribute {name!r}: op {name[:-1]!r} has no in-place form")

    def in_place(self, *args, **kwargs):
        return run(record, self, record.bind((self, *args), kwargs))

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"In-place version of `{record.name}`."
    return in_place


def _record(name):
    entry = registry.find(f"Tensor.{name}") or registry.find(name)
    if entry is not None and entry.kind == "ops":
        return entry.value
    return registry.ops.get(name)


def run(op, target, values):
    """Run an op and write its result into `target`."""
    check_writable(target)
    if op.family == "composite":
        result = op.function(*values[: len(op.positional)], **dict(zip(op.keyword_only, values[len(op.positional) :])))
    else:
        result = call.apply(op, values)
    return store(target, result)


def check_writable(target) -> None:
    """Raise RuntimeError if autograd forbids to write the tensor in place."""
    if target._view is not None:
        target._refresh()
    if not mode.grad:
        return
    if target._edge is LEAF:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation: wrap it in "
            "`with torch.no_grad():` to update a parameter, or write the operation out of place"
        )
    base = target._base
    if base is not None and target._edge is not None:
        if base._edge is LEAF:
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place operation: clone() the "
                "leaf first, or wrap the write in `with torch.no_grad():`"
            )
        if target._view.error is not None:
            raise RuntimeError(target._view.error)


def store(target, result):
    """Write `result` into `target`, whose history becomes that of `result`; return `target`."""
    if result._data.shape != target._data.shape:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}: an "
            "in-place result must have the shape of the tensor it is written to"
        )
    if result._type is not target._type:
        if not dtypes.can_cast(result.dtype, target.dtype):
            raise RuntimeError(
                f"result type {result.dtype._label} can't be cast to the desired output type {target.dtype._label}: "
                "write the operation out of place"
            )
        result = result.to(target.device, target.dtype)
    edge = result._edge
    array = target._data
    saves_y = False
    if edge is not None and isinstance(edge, Node) and edge.saved:
        if any(value is array for value in edge.saved):
            kept = array.copy()  # the formula needs the value from before the write
            edge.saved = tuple(kept if value is array else value for value in edge.saved)
        saves_y = any(value is result._data for value in edge.saved)
    if not target._type.symbolic:
        if array.size and any(n > 1 and step == 0 for n, step in zip(array.shape, array.strides)):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )
        array[...] = result._data
    if target._view is not UNTRACKED:
        engine.touch(target)
    if saves_y:
        edge.saved = tuple(array if value is result._data else value for value in edge.saved)
        edge.seq = engine.tick()
    if mode.grad:
        rebase(target, edge)
    return target


def rebase(target, edge) -> None:
    """Make `edge` the history of a tensor that was just written, and through it that of its base."""
    view = target._view
    if view.__class__ is not View:
        if edge is not None or target._edge is not None:
            target._edge = edge
            next_generation(target)
        return
    base = view.base
    base_edge = base._live_edge()
    if edge is None and base_edge is None:
        return
    node = CopySlices()
    node.edges = (base if base_edge is LEAF else base_edge, edge)
    node.saved, node.rare, node.seq = (view.steps(), base._type), None, engine.tick()
    node.fit = ((base._data.shape, base._type.np), (target._data.shape, target._type.np))
    base._edge = node
    next_generation(base)


def _check_expands(value, region) -> None:
    """Raise PyTorch's error when a value can't be expanded to the region that it is written to."""
    have, want = tuple(value.shape), tuple(region.shape)
    while len(have) > len(want) and have[0] == 1:
        have = have[1:]
    for n in range(1, max(len(have), len(want)) + 1):
        if n > len(want) or (n <= len(have) and have[-n] not in (1, want[-n])):
            size = want[-n] if n <= len(want) else 1
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({have[-n]}) at non-singleton "
                f"dimension {max(len(want) - n, 0)}.  Target sizes: {list(want)}.  Tensor sizes: {list(have)}"
            )


class CopySlices(Node):
    """A base after a view of it was written: the written region's gradient goes to what was written there."""

    __slots__ = ()
    positions = (0, 1)
    inputs = 2

    def tensors(self):
        return self.saved

    def pull(self, F, g, saved, retain):
        steps, kind = saved
        if F is ops.F:
            kept = g.clone()
            region = taken = g
            region = kept
            for step in steps:
                taken, region = step.step_tensor(taken), step.step_tensor(region)
            taken = taken.clone()
            region.zero_()
            return kept, taken
        kept = g.copy()
        region = kept
        for step in steps:
            region = step.step_array(region, kind)
        taken = region.copy()
        region[...] = 0
        return kept, taken


def assign(target, index, value):
    """Carry out `target[index] = value`."""
    from plugrad.tensor import Tensor, make

    check_writable(target)
    kind = target._type
    if not isinstance(value, Tensor):
        if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
            import plugrad

            value = plugrad.as_tensor(value, device=target.device)
        else:
            value = make(kind.xp.asarray(value).astype(kind.np), kind)
    if value.device is not target.device and value._data.ndim:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found {target.device} and {value.device}"
        )
    if value._type is not kind:
        value = value.to(target.device, target.dtype)
    if registry.op("getitem").is_basic(index):
        with engine.enable_grad() if mode.grad else engine.no_grad():
            region = target[index]
        _check_expands(value, region)
        if value._data.ndim > region._data.ndim:
            extra = value._data.ndim - region._data.ndim
            if all(n == 1 for n in value._data.shape[:extra]):
                value = value.reshape(value._data.shape[extra:])
        region.copy_(value)
        return
    store(target, registry.op("setitem").function(target, index, value))
