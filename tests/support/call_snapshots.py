"""Everything that can be seen of a call of an op, as plain data that two executions of it can be compared by.

Storages, tensors and nodes are numbered in the order in which they are met, so that sharing and identity can be
compared although the objects differ.
"""

from __future__ import annotations

import itertools

import numpy

import plugrad
from plugrad.autograd.graph import Node

PLAIN = (int, float, bool, complex, str, bytes, type(None), slice, type(Ellipsis))


class Snapshot:
    """Facts about tensors and the graph behind them: a dict from a place, such as 'result.strides', to plain data."""

    def __init__(self):
        self.facts: dict = {}
        self.result = None  # of the call that is described
        self._kept: list = []  # so that no id is given away twice
        self._numbers: dict = {}
        self._pending: list = []  # nodes that were met, and are not yet described
        self._nodes: list = []

    def value(self, place, value):
        """Describe a value of any kind: what a call was given, returned or saved."""
        if isinstance(value, plugrad.Tensor):
            self._tensor(place, value)
        elif isinstance(value, numpy.ndarray):
            self._array(place, value)
        elif isinstance(value, (tuple, list)):
            self.facts[place] = (type(value).__module__, type(value).__name__, len(value))
            names = getattr(value, "_fields", None) or range(len(value))
            for name, item in zip(names, value, strict=True):
                self.value(f"{place}[{name}]", item)
        elif isinstance(value, dict):
            self.facts[place] = ("dict", tuple(value))
            for name, item in value.items():
                self.value(f"{place}[{name!r}]", item)
        elif hasattr(value, "op") and hasattr(value, "rest"):  # a step of a view
            self.facts[place] = ("view", getattr(value.op, "qualname", None), value.output, value.error)
            self.value(f"{place}.rest", value.rest)
        elif isinstance(value, (*PLAIN, numpy.generic, numpy.dtype, plugrad.dtype)):
            self.facts[place] = (type(value).__name__, repr(value))
        else:
            self.facts[place] = type(value).__name__

    def graph(self):
        """Describe the nodes that the tensors described so far lead to."""
        while self._pending:
            self._node(self._pending.pop(0))
        order = sorted(self._nodes, key=lambda node: node.seq)
        self.facts["order of nodes"] = tuple(self._number("node", node)[0] for node in order)

    def released(self):
        """Note which nodes have given up what they saved."""
        for node in self._nodes:
            self.facts[f"node {self._number('node', node)[0]}.saved after backward"] = node.saved is None

    def _saved(self, place, value):
        """Describe a saved value; a number may be saved as such, or as a 0-d array that no tensor holds."""
        alone = isinstance(value, numpy.ndarray) and not value.ndim and value.base is None
        if alone and id(value) not in self._numbers.get("storage", ()):
            value = value.item()
        if isinstance(value, (int, float)):
            with numpy.errstate(over="ignore"):
                self.facts[place] = ("number", repr(numpy.float32(value)))
        else:
            self.value(place, value)

    def _number(self, kind, thing) -> tuple:
        """Return the number of an object, and whether it is met for the first time."""
        known = self._numbers.setdefault(kind, {})
        new = id(thing) not in known
        if new:
            known[id(thing)] = len(known)
            self._kept.append(thing)
        return known[id(thing)], new

    def _array(self, place, array):
        facts, root = self.facts, array
        while isinstance(root.base, numpy.ndarray):
            root = root.base
        facts[f"{place}.class"] = type(array).__name__
        facts[f"{place}.dtype"] = array.dtype.str
        facts[f"{place}.shape"] = array.shape
        facts[f"{place}.strides"] = array.strides
        if array.size and isinstance(root, numpy.ndarray):  # of empty arrays memory says nothing
            facts[f"{place}.storage"] = self._number("storage", root)[0]
            facts[f"{place}.offset"] = 0 if array is root else address(array) - address(root)
            facts[f"{place}.bits"] = bits(array)

    def _tensor(self, place, tensor):
        number, new = self._number("tensor", tensor)
        self.facts[place] = f"tensor {number}"
        if not new:
            return
        facts = self.facts
        facts[f"{place}.class"] = type(tensor).__name__
        self._array(place, tensor._raw)
        facts[f"{place}.type"] = (str(tensor.dtype), str(tensor.device), tensor._raw.dtype == tensor._type.np)
        facts[f"{place}.requires_grad"] = tensor.requires_grad
        facts[f"{place}.is_leaf"] = tensor.is_leaf
        facts[f"{place}.output_nr"] = tensor.output_nr
        facts[f"{place}.version"] = "of inference" if tensor.is_inference() else tensor._version
        facts[f"{place}.is_view"] = tensor._is_view()
        facts[f"{place}.edge"] = self._edge(tensor.grad_fn)
        if tensor._is_view():
            self.value(f"{place}.base", tensor._base)
            self.value(f"{place}.steps", tensor._view.steps())
            facts[f"{place}.refusal"] = tensor._view.refusal()

    def _edge(self, edge):
        """Return what an edge leads to, as plain data; its node is described later."""
        if edge is None:
            return None
        if isinstance(edge, plugrad.Tensor):
            number, new = self._number("tensor", edge)
            if new:
                self.value(f"leaf {number}", edge)
            return f"tensor {number}"
        index = getattr(edge, "index", None)
        node = edge if index is None else edge.edges[0]
        number, new = self._number("node", node)
        if new:
            self._pending.append(node)
        return f"node {number}" if index is None else f"output {index} of node {number}"

    def _node(self, node):
        place, facts = f"node {self._number('node', node)[0]}", self.facts
        self._nodes.append(node)
        facts[f"{place}.name"] = (type(node).__name__, node.name())
        for name in ("saves", "wanted", "inputs", "positions", "scales", "pure"):
            facts[f"{place}.{name}"] = getattr(node, name, None)
        facts[f"{place}.rare"] = node.rare is None
        facts[f"{place}.next_functions"] = tuple(
            (None if following is None else following.name(), number) for following, number in node.next_functions
        )
        facts[f"{place}.edges"] = tuple(self._edge(edge) for edge in node.edges)
        saved = node.saved or ()
        names = getattr(node, "saves", None) or range(len(saved))
        for name, value in zip(names, saved, strict=True):
            self._saved(f"{place}.saved {name}", value)
        if isinstance(node, Node) and hasattr(node, "outputs"):
            facts[f"{place}.outputs"] = tuple((shape, str(ttype)) for shape, ttype in node.outputs)


def address(array) -> int:
    """Return where an array's elements begin; `array.ctypes.data` takes ten times as long."""
    return array.__array_interface__["data"][0]


def bits(array) -> bytes:
    """Return the elements' bits in the order of the indices, all NaN alike."""
    values = numpy.array(array, order="C")
    for part in (values.real, values.imag) if values.dtype.kind == "c" else (values,):
        if part.dtype.kind == "f":
            part[numpy.isnan(part)] = numpy.nan
    return values.tobytes()


def differences(one: dict, other: dict) -> dict:
    """Return what differs of two collections of facts: place -> (in the one, in the other)."""
    if one == other:
        return {}
    places = itertools.chain(one, (place for place in other if place not in one))
    pairs = {place: (one.get(place, "absent"), other.get(place, "absent")) for place in places}
    return {place: pair for place, pair in pairs.items() if pair[0] != pair[1]}
