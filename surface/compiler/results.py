"""What a captured program returns: tensors in memory of their own, parts of these, and what is no tensor."""

from __future__ import annotations

import dataclasses

import numpy

from plugrad import Tensor, device, dtype, nest
from plugrad.compiler.arrays import Array, Later, Looked, Place
from plugrad.compiler.graph import at, slots_of
from plugrad.compiler.sizes import CaptureError
from plugrad.compiler.world import PLAIN, Given
from plugrad.graph.modes import LEAF
from plugrad.tensor.tensor import make


def results_of(captured, outputs, by_id) -> tuple:
    """Return the structure of what a program returned, what is in it, and the tensors that require a gradient.

    For each leaf there is ("source", one of the captured program's sources), ("plain", a value), ("tensor", where its
    elements are, its type, its number among the tensors that require a gradient or -1, whether it is a number that is
    returned), or ("again", number of a leaf that is the same). `by_id` are the sources by the ids of their tensors.
    """
    recorder = captured.recorder
    structure = _with_records(captured, outputs, lambda leaf: 0)
    outputs = _with_records(captured, outputs, lambda leaf: leaf)
    results, roots, known = [], [], {}
    for leaf in nest.leaves(outputs):
        if id(leaf) in known:
            results.append(("again", known[id(leaf)]))
        elif type(leaf) is Later:
            known[id(leaf)] = len(results)
            results.append(("tensor", leaf.array.value, device("cpu").tensor_type(leaf.array.dtype), -1, True))
        elif not isinstance(leaf, Tensor):
            if not isinstance(leaf, (*PLAIN, dtype, device)) and id(leaf) not in captured.world.seen:
                what = f"object of the class {type(leaf).__name__}" if type(leaf) is not Looked else "array of NumPy"
                why = f"a result is an {what}, which is new at each call"
                raise recorder.refusal(f"{why}: return tensors, numbers, tuples, lists, dicts or dataclasses")
            results.append(("plain", device("cpu") if isinstance(leaf, Place) else leaf))
        elif id(leaf) in by_id:
            results.append(("source", by_id[id(leaf)]))
        else:
            known[id(leaf)] = len(results)
            results.append(_tensor(recorder, leaf, len(roots)))
            roots += [leaf] * (results[-1][3] >= 0)
    return structure, results, roots


def _tensor(recorder, leaf, number) -> tuple:
    """Return what a program returns where that is a tensor of its own."""
    if type(leaf._raw) is not Array:
        raise recorder.refusal("a result is a tensor that the capture does not know")
    if leaf.__dict__ or leaf.retains_grad:
        raise recorder.refusal("a result has attributes or retains its gradient, which it would not again")
    edge = leaf._live_edge()
    if edge in (leaf, LEAF):
        raise recorder.refusal("a result is a leaf that requires a gradient, which is new at each call")
    host = device("cpu").tensor_type(leaf._raw.dtype)
    host = host.opened() if leaf._type.is_open else host
    return "tensor", leaf._raw.value, host, -1 if edge is None else number, False


def own_memory(results) -> list:
    """Return where tensors of a program's own are; those without history that are parts of one become ("part", ...).

    That is ("part", where its elements are, its type, number of the leaf of which it is a part).
    """
    owners: dict = {}
    numbers = [n for n, entry in enumerate(results) if entry[0] == "tensor"]
    for number in sorted(numbers, key=lambda n: (results[n][3] < 0, not results[n][1].is_whole)):
        _, value, ttype, root, _ = results[number]
        owner = owners.setdefault(value.buffer, number)
        if value.buffer.kind in ("bound", "argument"):
            raise CaptureError("a result is a view of what the program was given")
        if owner != number:
            whole = results[owner][1]
            if root >= 0 or not whole.is_whole or whole.dtype != value.dtype or value.offset % value.dtype.itemsize:
                raise CaptureError("a result is a view of another one")
            results[number] = "part", value, ttype, owner
    return [results[number][1] for number in owners.values()]


def reach(roots, leaves) -> list | None:
    """Return for each root the numbers of the leaves that it is computed of; None where that is all for each."""
    reached = []
    for root in roots:
        seen, waiting = set(), [root._live_edge()]
        while waiting:
            edge = waiting.pop()
            if edge is not None and id(edge) not in seen:
                seen.add(id(edge))
                waiting += edge.edges
        reached.append(frozenset(n for n, leaf in enumerate(leaves) if id(leaf) in seen))
    return reached if any(len(one) < len(leaves) for one in reached) else None


def part(whole, value, ttype, size):
    """Return a part of a result that has no history of its own, and gets none where the whole has one."""
    shape, strides, offset = at((value.shape, value.strides, value.offset), size)
    if whole._edge is not None:
        return make(numpy.ndarray(shape, value.dtype, whole._raw, offset, strides), ttype)
    if shape == whole._raw.shape and strides == whole._raw.strides and not offset:
        return whole.view(shape)
    width = value.dtype.itemsize
    return whole.as_strided(shape, [n // width for n in strides], offset // width)


def spread(array, ttype):
    """Return a tensor some of whose elements are one in memory as the view that it is: who writes to it is told so."""
    once = tuple([slice(None) if stride else slice(1) for stride in array.strides])
    return make(array[once], ttype).expand(array.shape)


class _Record(tuple):
    """What is in an object of a dataclass, in its place in a nest: the type makes the object of that again.

    So `nest.rebuild` makes objects. The class's own functions have run in the capture; they do not run again.
    """

    __slots__ = ()

    def __new__(cls, *parts):
        record = object.__new__(cls.of)
        for name, part in zip(cls.names, parts, strict=True):
            object.__setattr__(record, name, part)  # frozen ones, too
        return record

    def __repr__(self):
        return f"{self.of.__qualname__}{self.names}{tuple(self)}"


def _with_records(captured, outputs, end) -> object:
    """Return results with `end(leaf)` for each leaf, and records in the place of dataclasses' objects that are new."""
    recorder, kept, known = captured.recorder, captured.world.seen, set()

    def opened(leaf):
        if not dataclasses.is_dataclass(leaf) or isinstance(leaf, type) or id(leaf) in kept:
            return end(leaf)
        of = type(leaf)
        if of.__new__ is not object.__new__ or id(leaf) in known:
            raise recorder.refusal(f"an object of {of.__name__} is in the results twice, or its class has `__new__`")
        known.add(id(leaf))
        names = (*getattr(leaf, "__dict__", ()), *(name for name in slots_of(of) if hasattr(leaf, name)))
        kind = type("_Record", (_Record,), {"__slots__": (), "_fields": names, "names": names, "of": of})
        return tuple.__new__(kind, [inside(getattr(leaf, name)) for name in names])

    def inside(nested):
        _look_at_containers(captured, nested)
        return nest.change(opened, nested)

    return inside(outputs)


def _look_at_containers(captured, outputs):
    """Refuse results that a call could not make again: `structure` is a nest of the same types, no more."""
    results, recorder = Given((outputs,)), captured.recorder
    for one in results.seen.values():
        if isinstance(one, (list, dict)) and (id(one) in captured.world.seen or id(one) in captured.containers.seen):
            raise recorder.refusal(f"a result is a {type(one).__name__} that the program was given or holds")
    for one in results.with_attributes:
        again = nest.change(lambda leaf: leaf, one)
        if _forms(again) != _forms(one):
            raise recorder.refusal(f"a result is a {type(one).__name__} with attributes")


def _forms(container) -> tuple:
    """Return the names of a container's attributes, and which leaves are in them."""
    return [*vars(container)], [*map(id, nest.leaves(vars(container)))]
