"""The recorded graph: nodes, what they save, hooks on them, and the versions of storages.

A node is made by every recorded op. `edges` lead to what produced the op's inputs: another node, or the leaf tensor
itself. `saved` holds the raw arrays and plain values that the op's formulas name. `tick()` numbers nodes and in-place
writes by one clock, so "written since this op ran" is one comparison of integers.
"""

from __future__ import annotations

import traceback
import weakref

from plugrad.graph.modes import LEAF, mode, no_grad, tick

Tensor = from_raw = None  # set by plugrad.tensor, which imports this module

# ---------------------------------------------------------------------------------------------------- versions

_touched: dict[int, list] = {}  # id of a storage -> [weak reference to it, tick of its last write, number of writes]
last_touch = 0


def _forget(reference) -> None:
    _touched.pop(reference.key, None)


def touch(tensor) -> None:
    """Record that the storage of a tensor was written in place: earlier saved values of it are no longer valid."""
    global last_touch
    storage = tensor._data
    if storage.base is not None:
        storage = tensor._type.backend.storage(storage)
    key = id(storage)
    last_touch = now = tick()
    entry = _touched.get(key)
    if entry is None or entry[0]() is not storage:
        _touched[key] = [weakref.KeyedRef(storage, _forget, key), now, 1]
    else:
        entry[1] = now
        entry[2] += 1


def touch_array(array, when: int) -> None:
    """Record that NumPy wrote to an array behind autograd's back: what was saved before the tick `when` is stale."""
    global last_touch
    from plugrad.devices.device import device_of

    storage = device_of(array).backend.storage(array)
    key = id(storage)
    entry = _touched.get(key)
    if entry is None or entry[0]() is not storage:
        entry = _touched[key] = [weakref.KeyedRef(storage, _forget, key), when, 0]
    entry[1] = max(entry[1], when)
    entry[2] += 1
    entry[3:] = [when]
    last_touch = max(last_touch, when)


def version(tensor) -> int:
    """Return how often the storage of a tensor was written in place."""
    entry = _touched.get(id(tensor._type.backend.storage(tensor._data)))
    return 0 if entry is None else entry[2]


def _written_since(array, seq: int):
    """Return the entry of the array's storage if it was written after `seq`, else None."""
    from plugrad.devices.device import device_of

    entry = _touched.get(id(device_of(array).backend.storage(array)))
    return entry if entry is not None and entry[1] > seq else None


# ---------------------------------------------------------------------------------------------------- nodes


class Rare:
    """What few nodes have: hooks, the stack of the forward call, packed saved tensors."""

    __slots__ = ("before", "after", "pre", "stack", "unpack", "retained", "metadata")

    def __init__(self):
        self.before = None  # tensor hooks: id -> function(grad)
        self.retained = None  # weak reference to the tensor that keeps its gradient
        self.pre = None  # node pre-hooks: id -> function(grad_outputs)
        self.after = None  # node hooks: id -> function(grad_inputs, grad_outputs)
        self.stack = None
        self.unpack = None
        self.metadata = None


class Node:
    """One recorded op. Subclasses, made once per op and set of wanted gradients, hold the formulas.

    `pull(F, g, saved)` returns one gradient per edge. `fit` is None, or holds per edge the (shape, dtype, real) that
    its gradient must be brought to (broadcast inputs, promoted dtypes).
    """

    __slots__ = ("edges", "saved", "fit", "rare", "seq", "__weakref__")

    op = None
    scales = False  # whether its formulas are elementwise, and may multiply the gradient by infinity or NaN
    pure = True  # whether it may run twice, pass NaN on, and go without a look under `zero_safe`
    positions: tuple = ()  # for each edge, the number of the op's differentiable input it belongs to
    inputs = 1

    def name(self) -> str:
        """Return the node's name, such as 'MulBackward0'."""
        return type(self).__name__

    @property
    def next_functions(self):
        """Pairs (node, number of its output) that produced the op's inputs; (None, 0) for inputs without grad."""
        found = [(None, 0)] * max(self.inputs, len(self.edges))
        for position, edge in zip(self.positions or range(len(self.edges)), self.edges):
            if edge is None:
                continue
            if isinstance(edge, OutputSlot):
                found[position] = (edge.edges[0], edge.index)
            elif isinstance(edge, Node):
                found[position] = (edge, 0)
            else:
                found[position] = (accumulate_node(edge), 0)
        return tuple(found)

    @property
    def metadata(self) -> dict:
        """A dict for the user's own notes on this node."""
        rare = self._rare()
        if rare.metadata is None:
            rare.metadata = {}
        return rare.metadata

    def _sequence_nr(self) -> int:
        return self.seq

    def _rare(self) -> Rare:
        if self.rare is None:
            self.rare = Rare()
        return self.rare

    def register_hook(self, hook):
        """Call `hook(grad_inputs, grad_outputs)` after this node ran; it may return new grad_inputs."""
        return _add_hook(self._rare(), "after", hook)

    def register_prehook(self, hook):
        """Call `hook(grad_outputs)` before this node runs; it may return new grad_outputs."""
        return _add_hook(self._rare(), "pre", hook)

    def __getattr__(self, name):
        if name.startswith("_saved_"):
            return self._saved(name.removeprefix("_saved_"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _saved(self, name):
        """Return one saved value by PyTorch's attribute name (`grad_fn._saved_result`)."""
        wanted = {"self": "input", "result": "y"}.get(name, name)
        names = getattr(type(self), "saves", ())
        if wanted not in names:
            raise AttributeError(f"{type(self).__name__} saves {', '.join(names) or 'nothing'}, not {name!r}")
        if self.saved is None:
            raise RuntimeError(FREED)
        return self.tensors()[names.index(wanted)]

    def values(self):
        """Return the saved values, unpacked where saved-tensor hooks packed them."""
        saved = self.saved
        if self.rare is not None and self.rare.unpack is not None and saved is not None:
            saved = tuple(item.unpack() if isinstance(item, Packed) else item for item in saved)
        return saved

    def pull(self, F, g, saved, retain):
        raise NotImplementedError(f"{type(self).__name__} has no gradient formula")

    def __repr__(self):
        return f"<{type(self).__name__} object at {id(self):#x}>"


class OutputSlot(Node):
    """Stands between the tensor that is output number `index` of a multi-output op and the op's node."""

    __slots__ = ("index",)

    def __init__(self, node: Node, index: int):
        self.edges, self.saved, self.fit, self.rare, self.seq = (node,), (), None, None, tick()
        self.index = index

    def name(self) -> str:
        return self.edges[0].name()

    def __repr__(self):
        return repr(self.edges[0])

    def tensors(self):
        return ()

    def pull(self, F, g, saved, retain):
        return (Outputs({self.index: g}),)


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


class Packed:
    """A saved array in the form that the user's saved-tensor hooks gave it."""

    __slots__ = ("packed", "unpacker")

    def __init__(self, packed, unpacker):
        self.packed, self.unpacker = packed, unpacker

    def unpack(self):
        """Return the raw array again."""
        tensor = self.unpacker(self.packed)
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a saved-tensor unpack hook must return a Tensor, not {type(tensor).__name__}")
        return tensor._data


class AccumulateGrad:
    """What `next_functions` shows for a leaf: the place where its gradient is accumulated."""

    __slots__ = ("variable", "__weakref__")
    next_functions = ()

    def __init__(self, variable):
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"

    def register_hook(self, hook):
        """Call `hook(grad_inputs, grad_outputs)` after the gradient was accumulated."""
        return _add_hook(hooks_of(self.variable), "after", hook)

    def register_prehook(self, hook):
        """Call `hook((grad,))` before the gradient is accumulated."""
        return _add_hook(hooks_of(self.variable), "pre", hook)


def accumulate_node(leaf) -> AccumulateGrad:
    """Return the AccumulateGrad of a leaf: the same object as long as somebody holds it."""
    known = leaf.__dict__.get("_accumulate")
    node = known() if known is not None else None
    if node is None:
        node = AccumulateGrad(leaf)
        leaf.__dict__["_accumulate"] = weakref.ref(node)
    return node


def hooks_of(leaf) -> Rare:
    """Return the hooks of a leaf tensor, made at first use."""
    return leaf.__dict__.setdefault("_hooks", Rare())


def _add_hook(rare: Rare, kind: str, hook):
    from collections import OrderedDict

    from plugrad.graph.hooks import RemovableHandle

    if not callable(hook):
        raise TypeError(f"a hook must be callable, not {type(hook).__name__}")
    table = getattr(rare, kind)
    if table is None:
        table = OrderedDict()
        setattr(rare, kind, table)
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def add_tensor_hook(tensor, hook):
    """Register `hook(grad)` on a tensor; its result, if not None, replaces the gradient."""
    edge = tensor._live_edge()
    rare = hooks_of(tensor) if edge is LEAF else edge._rare()
    return _add_hook(rare, "before", hook)


FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


def stale_error(node: Node, saved) -> None:
    """Raise if an array that `node` saved was written in place after the node was made."""
    from plugrad.devices.device import type_of
    from plugrad.tensor import shared_memory

    for value in saved:
        for array in value if type(value) in (tuple, list) else (value,):
            if not hasattr(array, "dtype") or not hasattr(array, "base"):
                continue
            entry = _written_since(array, node.seq)
            if entry is None and not shared_memory.changed_since(array, node.seq):
                continue
            what = f"[{type_of(array).dtype!r} {list(array.shape)}], saved by {node.name()}, "
            if entry is None or entry[1] in entry[3:]:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"{what}was written through a NumPy array that shares its memory, after it was saved. Hint: let "
                    "NumPy write to a copy (x.detach().clone().numpy(), torch.tensor(array)), or write by "
                    "`with torch.no_grad(): x.copy_(...)` before the forward pass"
                )
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: {what}is at version {entry[2]}; it was written after it was saved. Hint: write the "
                "in-place operation out of place (x = x + 1 instead of x += 1) or clone() the tensor first; with "
                "torch.autograd.set_detect_anomaly(True) the error shows the forward call."
            )


def as_tensor(g):
    """Return a gradient, raw or Tensor, as a Tensor."""
    return g if g is None or isinstance(g, Tensor) else from_raw(g)


def annotate(node: Node) -> None:
    """Give a new node what the rare modes of this thread ask for: the forward stack, packed saved tensors."""
    if mode.anomaly:
        node._rare().stack = traceback.format_list(traceback.extract_stack()[:-4])
    if mode.saved_hooks and node.saved:
        pack, unpack = mode.saved_hooks[-1]
        packed = []
        for value in node.saved:
            if hasattr(value, "dtype") and hasattr(value, "base"):
                with no_grad():
                    value = Packed(pack(as_tensor(value)), unpack)
            packed.append(value)
        node.saved = tuple(packed)
        node._rare().unpack = True
