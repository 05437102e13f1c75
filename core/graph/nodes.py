"""The recorded graph: nodes, and how they are connected.

A node is made by every recorded op. `edges` lead to what produced the op's inputs: another node, or a leaf tensor,
which is its own edge: the graph knows of a tensor that its `edges` are empty, that `_edge` is LEAF for leaves, and
`_live_edge()`. `saved` holds the raw arrays and plain values that the op's formulas name. `tick()` numbers nodes and
in-place writes by one clock, so that edges always lead to lower numbers, and "written since this op ran" is one
comparison of integers.
"""

from __future__ import annotations

import weakref

from plugrad.graph import rare
from plugrad.graph.hooks import Rare, hooks_of
from plugrad.graph.modes import NOWHERE, tick
from plugrad.graph.saved import FREED, Packed

_TORCH_NAMES = {"input": "self", "y": "result"}  # of saved values


class Node:
    """One recorded op; a class for each op and set of wanted gradients has formulas.

    `pull(F, g, saved, retain)` returns one gradient per edge. `fit` is None, or holds per edge the (shape, dtype) that
    its gradient must be brought to (broadcast inputs, promoted dtypes), None for an edge that leads nowhere.
    """

    __slots__ = ("edges", "saved", "fit", "rare", "seq", "__weakref__")

    op = narrowed = None  # narrowed(mask) is the class that pulls fewer gradients
    requires_grad = True  # of what it made: else there would be no node
    saves: tuple = ()  # names of the saved values
    scales = False  # whether its formulas are elementwise, and may multiply the gradient by infinity or NaN
    restores = False  # whether one of several outputs may be among the saved values
    asks = False  # whether it asks itself for what was saved, when it needs that
    pure = True  # whether it may run twice, pass NaN on, and go without a look for NaN
    positions: tuple = ()  # for each edge, the number of the op's differentiable input it belongs to
    inputs = 1

    def name(self) -> str:
        """Return the node's name, such as 'MulBackward0'."""
        return type(self).__name__

    @property
    def next_functions(self):
        """Pairs (node, number of its output) that made the inputs; (None, 0): no grad."""
        functions = [(None, 0)] * max(self.inputs, len(self.edges))
        for position, edge in zip(self.positions or range(len(self.edges)), self.edges):
            if edge is None:
                continue
            if isinstance(edge, OutputSlot):
                functions[position] = (edge.node, edge.index)
            elif isinstance(edge, Node):
                functions[position] = (edge, 0)
            elif edge._view is not NOWHERE:
                functions[position] = (accumulate_node(edge), 0)
        return tuple(functions)

    @property
    def metadata(self) -> dict:
        """A dict for the user's own notes on this node."""
        extras = self._rare()
        if extras.metadata is None:
            extras.metadata = {}
        return extras.metadata

    def _sequence_nr(self) -> int:
        return self.seq

    def _rare(self) -> Rare:
        if self.rare is None:
            self.rare = Rare()
        return self.rare

    def register_hook(self, hook):
        """Call `hook(grad_inputs, grad_outputs)` after this node; it may replace inputs'."""
        return self._rare().add("after", hook)

    def register_prehook(self, hook):
        """Call `hook(grad_outputs)` before this node runs; it may return new grad_outputs."""
        return self._rare().add("pre", hook)

    def __init_subclass__(cls):
        # PyTorch's `grad_fn._saved_result`. Not by `__getattr__`: with it Python 3.11 reads every attribute five times
        # slower, and the walk backward reads little else.
        for name in cls.__dict__.get("saves", ()):
            read = property(lambda self, name=name: self._saved_value(name))
            raw = property(lambda self, name=name: rare.raw_saved(self, name))
            for public in {name, _TORCH_NAMES.get(name, name)}:
                setattr(cls, f"_saved_{public}", read)
                setattr(cls, f"_raw_saved_{public}", raw)

    def _saved_value(self, name):
        """Return one saved value as a Tensor that is connected to the graph."""
        if self.saved is None:
            raise RuntimeError(FREED)
        return self.tensors()[self.saves.index(name)]

    def missing(self):
        """Return what a node gets where no gradient arrived; None if nothing is pulled."""
        return None

    def values(self):
        """Return the saved values, unpacked where saved-tensor hooks packed them."""
        saved = self.saved
        if self.rare is not None and self.rare.unpack is not None and saved is not None:
            saved = tuple(item.unpack() if isinstance(item, Packed) else item for item in saved)
        return saved

    def pull(self, F, g, saved, retain):
        raise NotImplementedError(f"{type(self).__name__} has no gradient formula")

    def __call__(self, *grads, **options):
        return rare.call_node(self, grads, options)

    def __repr__(self):
        return f"<{type(self).__name__} object at {id(self):#x}>"


class OutputSlot(Node):
    """Stands between the tensor that is output number `index` of a multi-output op and the op's node."""

    __slots__ = ("index",)
    fit = None
    node = property(lambda self: self.edges[0])

    def __init__(self, node: Node, index: int):
        self.edges, self.saved, self.rare, self.seq, self.index = (node,), (), None, tick(), index
        if node.restores:  # without a callback, in which Ctrl-C would be lost
            node.slots[index] = weakref.ref(self)

    def name(self) -> str:
        return self.edges[0].name()

    def __repr__(self):
        return repr(self.edges[0])

    def tensors(self):
        return ()

    def pull(self, F, g, saved, retain):
        return (Outputs({self.index: g}),)


def slot_of(node: Node, index: int) -> OutputSlot:
    """Return the edge of an output that a node saved: the one that the tensor has, as long as that is there."""
    known = node.slots.get(index)
    return known and known() or OutputSlot(node, index)


class Outputs:
    """Gradients of some outputs of a multi-output op, by number; adding two merges them."""

    __slots__ = ("grads",)
    size = 0

    def __init__(self, grads: dict):
        self.grads = grads

    def __add__(self, other: Outputs) -> Outputs:
        merged = dict(self.grads)
        for index, grad in other.grads.items():
            merged[index] = merged[index] + grad if index in merged else grad
        return Outputs(merged)

    __iadd__ = __add__


class AccumulateGrad(Node):
    """What `next_functions` shows for a leaf: where its gradient is accumulated."""

    __slots__ = ("variable",)
    next_functions = ()

    def __init__(self, variable):
        self.variable, self.edges, self.saved, self.rare, self.seq = variable, (), (), None, (1 << 63) - 1

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def register_hook(self, hook):
        """Call `hook(grad_inputs, grad_outputs)` after the gradient was accumulated."""
        return hooks_of(self.variable).add("after", hook)

    def register_prehook(self, hook):
        """Call `hook((grad,))` before the gradient is accumulated."""
        return hooks_of(self.variable).add("pre", hook)


def accumulate_node(leaf) -> AccumulateGrad:
    """Return the AccumulateGrad of a leaf: the same object as long as somebody holds it."""
    known = leaf.__dict__.get("_accumulate")
    node = known() if known is not None else None
    if node is None:
        node = AccumulateGrad(leaf)
        leaf.__dict__["_accumulate"] = weakref.ref(node)
    return node
