"""The autograd engine: nodes of the recorded graph, the walk backward over them, grad modes and versions.

A node is made by every recorded op. `edges` lead to what produced the op's inputs: another node, or the leaf tensor
itself. `saved` holds the raw arrays and plain values that the op's formulas name. The walk is iterative and takes the
youngest ready node first; `tick()` numbers nodes and in-place writes by one clock, so "written since this op ran" is
one comparison of integers.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import threading
import traceback
import warnings
import weakref

import numpy

tick = itertools.count(1).__next__

# Raised above zero while anything rare is on (anomaly mode, saved-tensor hooks, op hooks): the one truth test of the
# fast path of every op.
special = 0
_special_lock = threading.Lock()


def count_special(step: int) -> None:
    """Tell the fast paths that one more (+1) or one less (-1) rare mode is on."""
    global special
    with _special_lock:
        special += step


class _Leaf:
    """Marks, as a tensor's edge, a tensor that requires grad and was not made by an op."""

    def __repr__(self):
        return "LEAF"


LEAF = _Leaf()


class _Mode(threading.local):
    grad = True
    inference = False
    anomaly = False
    check_nan = True
    saved_hooks: tuple = ()
    current = None  # the node whose backward is running


mode = _Mode()


# ---------------------------------------------------------------------------------------------------- grad modes


class _ModeContext:
    """A context manager, usable as a decorator, that sets the grad mode."""

    __slots__ = ("_previous",)
    _value = True

    def __new__(cls, function=None):
        self = object.__new__(cls)
        if callable(function):  # written as `@no_grad` without parentheses
            return self(function)
        return self

    def __init__(self, function=None):
        self._previous = []

    def __enter__(self):
        self._previous.append(mode.grad)
        mode.grad = self._value

    def __exit__(self, *exc):
        mode.grad = self._previous.pop()

    def __call__(self, function):
        import functools
        import inspect

        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args, **kwargs):
                # The mode is set only while the generator runs, never between two of its values.
                with self.clone():
                    source = function(*args, **kwargs)
                    value = next(source, _ModeContext)
                while value is not _ModeContext:
                    sent = yield value
                    with self.clone():
                        try:
                            value = source.send(sent)
                        except StopIteration:
                            return

            return generator

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapper

    def clone(self):
        """Return a fresh context of the same kind."""
        return type(self)()


class no_grad(_ModeContext):
    """Record nothing inside; a context manager or a decorator.

    >>> import plugrad as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ()
    _value = False


class enable_grad(_ModeContext):
    """Record again inside of `no_grad`; a context manager or a decorator."""

    __slots__ = ()
    _value = True


class set_grad_enabled(_ModeContext):
    """Switch recording on or off, at once and, as a context manager, until the block ends."""

    __slots__ = ("_value",)

    def __new__(cls, mode):
        return object.__new__(cls)

    def __init__(self, mode):
        self._value = bool(mode)
        self._previous = [globals()["mode"].grad]
        globals()["mode"].grad = self._value

    def __enter__(self):
        mode.grad = self._value

    def __call__(self, function):
        mode.grad = self._previous.pop()  # as a decorator it acts on the calls, not here
        return super().__call__(function)

    def clone(self):
        return set_grad_enabled(self._value)


class inference_mode(_ModeContext):
    """Record nothing inside, and mark the results so that they can't enter a graph later."""

    __slots__ = ("_value", "_on")

    def __new__(cls, mode=True):
        self = object.__new__(cls)
        if callable(mode):
            self._value, self._on, self._previous = False, True, []
            return self(mode)
        return self

    def __init__(self, mode=True):
        self._on, self._previous = bool(mode), []

    def __enter__(self):
        self._previous.append((mode.grad, mode.inference))
        if self._on:
            mode.grad = False
        elif mode.inference:
            mode.grad = True
        mode.inference = self._on

    def __exit__(self, *exc):
        mode.grad, mode.inference = self._previous.pop()

    def clone(self):
        return inference_mode(self._on)


def is_grad_enabled() -> bool:
    """Whether ops on tensors that require grad are being recorded."""
    return mode.grad


def is_inference_mode_enabled() -> bool:
    """Whether `inference_mode` is on."""
    return mode.inference


# ---------------------------------------------------------------------------------------------------- versions

_touched: dict[int, list] = {}  # id of a storage -> [weak reference to it, tick of its last write, number of writes]
last_touch = 0


def touch(tensor) -> None:
    """Record that the storage of a tensor was written in place: earlier saved values of it are no longer valid."""
    global last_touch
    storage = tensor._type.backend.storage(tensor._data)
    key = id(storage)
    last_touch = now = tick()
    entry = _touched.get(key)
    if entry is None or entry[0]() is not storage:
        _touched[key] = [weakref.ref(storage, lambda _, key=key: _touched.pop(key, None)), now, 1]
    else:
        entry[1] = now
        entry[2] += 1


def version(tensor) -> int:
    """Return how often the storage of a tensor was written in place."""
    entry = _touched.get(id(tensor._type.backend.storage(tensor._data)))
    return 0 if entry is None else entry[2]


def _written_since(array, seq: int):
    """Return the entry of the array's storage if it was written after `seq`, else None."""
    from plugrad.device import device_of

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
    releases = True  # whether `saved` holds arrays that backward frees
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

    def pull(self, F, g, saved):
        raise NotImplementedError(f"{type(self).__name__} has no gradient formula")

    def __repr__(self):
        return f"<{type(self).__name__} object at {id(self):#x}>"


class OutputSlot(Node):
    """Stands between the tensor that is output number `index` of a multi-output op and the op's node."""

    __slots__ = ("index",)
    releases = False

    def __init__(self, node: Node, index: int):
        self.edges, self.saved, self.fit, self.rare, self.seq = (node,), (), None, None, tick()
        self.index = index

    def name(self) -> str:
        return self.edges[0].name()

    def __repr__(self):
        return repr(self.edges[0])

    def tensors(self):
        return ()

    def pull(self, F, g, saved):
        return (Outputs({self.index: g}),)


class Outputs:
    """Gradients of some outputs of a multi-output op, by number; adding two merges them."""

    __slots__ = ("grads",)

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

    __slots__ = ("packed", "unpacker", "edge", "seq")

    def __init__(self, packed, unpacker):
        self.packed, self.unpacker = packed, unpacker

    def unpack(self):
        """Return the raw array again."""
        from plugrad.tensor import Tensor

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

    from plugrad.hooks import RemovableHandle

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
    from plugrad.device import type_of

    for value in saved:
        for array in value if type(value) in (tuple, list) else (value,):
            if not hasattr(array, "dtype") or not hasattr(array, "base"):
                continue
            entry = _written_since(array, node.seq)
            if entry is not None:
                kind = type_of(array)
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace "
                    f"operation: [{kind.dtype!r} {list(array.shape)}], saved by {node.name()}, is at version "
                    f"{entry[2]}; it was written after it was saved. Hint: write the in-place operation out of place "
                    "(x = x + 1 instead of x += 1) or clone() the tensor first; with "
                    "torch.autograd.set_detect_anomaly(True) the error shows the forward call."
                )


# ---------------------------------------------------------------------------------------------------- the walk


def run(roots, *, retain, create, targets=None):
    """Walk backward from `roots`, pairs (edge, gradient).

    Gradients are raw arrays, or with `create` Tensors, so that the walk itself is recorded. Without `targets`
    gradients accumulate in the leaves; else `targets`, edges (nodes or leaf tensors), are all that is computed, and
    a dict from edge to gradient is returned.
    """
    from plugrad import op

    uses, needed = _count_uses([edge for edge, _ in roots], targets)
    pending: dict = {}  # edge -> sum of the gradients that arrived, while more are to come
    owned: set = set()  # edges whose pending gradient is a sum that this walk made and may add to in place
    heap: list = []  # nodes that are ready beside the current one, the youngest first
    captured: dict = {}
    namespace_of, fit = op.raw_namespace, op.fit
    F, array_type = (op.F, None) if create else (None, None)
    push, pop, pushpop = heapq.heappush, heapq.heappop, heapq.heappushpop

    def add(edge, g):
        """Add to what is pending for an edge: borrow the first gradient, own the sum."""
        have = pending.get(edge)
        if have is None:
            pending[edge] = g
        elif edge in owned:
            have += g
            pending[edge] = have
        else:
            pending[edge] = have + g
            if not create:
                owned.add(edge)

    for edge, g in roots:
        if needed is None or edge in needed:
            add(edge, g)
    for edge in dict.fromkeys(edge for edge, _ in roots):
        if uses[edge] or (needed is not None and edge not in needed):
            continue
        if edge.edges:
            push(heap, (-edge.seq, edge))
        else:
            _finish_leaf(edge, pending.pop(edge), create, targets, captured)
    node = g = None
    if heap:
        node = pop(heap)[1]
        g = pending.pop(node, None)
    try:
        while node is not None:
            edges, rare = node.edges, node.rare
            if rare is not None and (rare.before or rare.retained or rare.pre):
                g = _run_before(node, rare, g, create)
            if targets is not None and node in targets:
                captured[node] = g
            if needed is not None and not needed[node]:
                edges = grads = ()
            elif g is None:
                grads = (None,) * len(edges)
            else:
                saved = node.saved
                if saved is None:
                    raise RuntimeError(FREED)
                if rare is not None:
                    mode.current = node
                    saved = node.values()
                if last_touch > node.seq:
                    stale_error(node, saved)
                if create:
                    saved = node.tensors()
                elif type(g) is not array_type:
                    array_type = type(g)
                    F = namespace_of(g)
                grads = node.pull(F, g, saved)
                if node.fit is not None:
                    grads = fit(F, node, grads)
                if not retain and node.releases:
                    node.saved = None
                if rare is not None:
                    grads = _run_after(node, rare, grads, g, create)
            node = None
            for edge, grad in zip(edges, grads):
                if edge is None or (needed is not None and edge not in needed):
                    continue
                left = uses[edge] - 1
                if left:
                    uses[edge] = left
                    if grad is not None:
                        add(edge, grad)
                    continue
                if pending and edge in pending:
                    if grad is not None:
                        add(edge, grad)
                    grad = pending.pop(edge)
                if not edge.edges:
                    _finish_leaf(edge, grad, create, targets, captured)
                elif node is None:
                    node, g = edge, grad
                else:
                    if grad is not None:
                        pending[edge] = grad
                    push(heap, (-edge.seq, edge))
            if heap:
                if node is None:
                    node = pop(heap)[1]
                    g = pending.pop(node, None)
                elif -heap[0][0] > node.seq:
                    if g is not None:
                        pending[node] = g
                    node = pushpop(heap, (-node.seq, node))[1]
                    g = pending.pop(node, None)
    except Exception as error:
        _explain(error, node)
        raise
    return captured


def _count_uses(roots, targets):
    """Return how many gradients each edge will get, and which edges lead to a target (None: all count)."""
    uses: dict = dict.fromkeys(roots, 0)
    uses[None] = 0
    stack = [root for root in uses if root is not None]
    push, pop = stack.append, stack.pop
    while stack:
        for edge in pop().edges:
            if edge in uses:
                uses[edge] += 1
            else:
                uses[edge] = 1
                push(edge)
    if targets is None:
        return uses, None
    # Edges lead to older nodes only, so going from the oldest to the youngest every node's edges are decided first.
    del uses[None]
    needed = dict.fromkeys((edge for edge in uses if edge in targets), False)
    for node in sorted((edge for edge in uses if edge.edges), key=lambda node: node.seq):
        if any(edge in needed for edge in node.edges):
            needed[node] = True  # its formulas must run
    uses = dict.fromkeys(uses, 0)
    for node, runs in needed.items():
        if runs:
            for edge in node.edges:
                if edge in needed:
                    uses[edge] += 1
    return uses, needed


def _finish_leaf(leaf, g, create, targets, captured) -> None:
    """The gradient of a leaf is complete: run its hooks, then accumulate or capture it."""
    rare = leaf.__dict__.get("_hooks")
    if rare is not None and g is not None and (rare.before or rare.pre):
        g = _run_before(leaf, rare, g, create)
    if targets is not None:
        if leaf in targets:
            captured[leaf] = g
        if not targets.get(leaf):
            return
    if g is None:
        return
    accumulate(leaf, g, create)
    if rare is not None and rare.after:
        for hook in list(rare.after.values()):
            hook((), (as_tensor(g),))
    post = leaf.__dict__.get("_post_accumulate_grad_hooks")
    if post:
        for hook in list(post.values()):
            hook(leaf)


def accumulate(leaf, g, create) -> None:
    """Add a finished gradient to `leaf.grad`. The first one is borrowed if nobody else holds it, else copied."""
    old = leaf.grad
    if create:
        leaf._grad = g if old is None else old + g
        return
    if old is not None:
        if old._edge is not None or old._data.__class__ is not g.__class__:
            leaf._grad = as_tensor(old._data + g)
        else:
            data = old._data
            data += g
        return
    kind = leaf._type
    if g.__class__ is not kind.array_type:
        g = kind.wrap(g)
    # 5: `pending` gave it up; this frame, two callers, the argument of getrefcount and the pulled tuple may hold it.
    elif g.base is not None or not g.flags.owndata or sys.getrefcount(g) > 5:
        g = g.copy()
    leaf._grad = kind_tensor(g, kind)


def kind_tensor(array, kind):
    """Return a Tensor without history around a raw array of known tensor type."""
    from plugrad.tensor import make

    return make(array, kind)


def as_tensor(g):
    """Return a gradient, raw or Tensor, as a Tensor."""
    from plugrad.tensor import Tensor, from_raw

    return g if g is None or isinstance(g, Tensor) else from_raw(g)


def _run_before(owner, rare: Rare, g, create):
    """Run tensor hooks (in order of registration), keep a retained gradient, run node pre-hooks."""
    if isinstance(g, Outputs):
        g = owner.materialize(g)
        tensors = tuple(as_tensor(item) for item in g)
        for hook in list((rare.pre or {}).values()):
            result = hook(tensors)
            if result is not None:
                tensors = tuple(result)
        return Outputs({i: t if create or t is None else t._data for i, t in enumerate(tensors) if t is not None})
    tensor = as_tensor(g)
    for hook in list((rare.before or {}).values()):
        result = hook(tensor)
        if result is not None:
            tensor = _checked(result, tensor, "tensor hook")
    if rare.retained is not None and tensor is not None:
        keeper = rare.retained()
        if keeper is not None:
            keeper._grad = tensor if keeper.grad is None else keeper.grad + tensor
    for hook in list((rare.pre or {}).values()):
        result = hook((tensor,))
        if result is not None:
            tensor = result[0] if isinstance(result, (tuple, list)) else result
    return tensor if create or tensor is None else tensor._data


def _checked(result, grad, what):
    from plugrad.tensor import Tensor

    if not isinstance(result, Tensor):
        raise TypeError(f"a {what} must return None or a Tensor, not {type(result).__name__}")
    if grad is not None and result.shape != grad.shape:
        raise RuntimeError(
            f"hook '{what}' has changed the size of value: it got {list(grad.shape)} and returned {list(result.shape)}"
        )
    return result


def _run_after(node, rare: Rare, grads, g, create):
    if mode.anomaly and mode.check_nan:
        for number, grad in enumerate(grads):
            if grad is not None and bool(as_tensor(grad).isnan().any()):
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {number}th output.")
    if not rare.after:
        return grads
    outs = g if isinstance(g, Outputs) else (g,)
    if isinstance(g, Outputs):
        outs = node.materialize(g)
    grad_outputs = tuple(as_tensor(item) for item in outs)
    tensors = [None] * max(node.inputs, len(grads))
    positions = node.positions or range(len(grads))
    for position, item in zip(positions, grads):
        tensors[position] = as_tensor(item)
    tensors = tuple(tensors)
    for hook in list(rare.after.values()):
        result = hook(tensors, grad_outputs)
        if result is not None:
            tensors = result if isinstance(result, tuple) else (result,)
    grads = [tensors[position] for position in positions]
    return tuple(t if create or t is None else t._data for t in grads)


def _explain(error: Exception, node) -> None:
    """Add to an error from a node's backward the stack of the forward call that made the node."""
    stack = getattr(node.rare, "stack", None) if isinstance(node, Node) else None
    if stack is not None and not getattr(error, "_explained", False):
        error._explained = True
        warnings.warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{''.join(stack)}",
            stacklevel=4,
        )
        error.add_note(f"The forward call of {node.name()} was:\n{''.join(stack)}")


# ---------------------------------------------------------------------------------------------------- entrances


def _walk(tensors, gradients, *, retain, create, targets=None):
    """Check the roots of a walk, run it, and return what it captured."""
    from plugrad.tensor import Tensor

    roots = []
    for tensor, gradient in zip(tensors, gradients):
        edge = tensor._live_edge()
        if edge is None:
            raise RuntimeError(
                "element 0 of tensors does not require grad and does not have a grad_fn: call requires_grad_() on "
                "the inputs before the computation, and check that it did not run under no_grad() or on detach()ed "
                "tensors"
            )
        if gradient is None:
            if tensor._data.size != 1:
                raise RuntimeError(
                    "grad can be implicitly created only for scalar outputs; reduce the output first (.sum(), "
                    f".mean()) or pass a gradient of its shape {list(tensor.shape)}"
                )
            if not tensor.dtype.is_floating_point:
                raise RuntimeError(
                    "grad can be implicitly created only for real scalar outputs but got " + repr(tensor.dtype)
                )
            kind = tensor._type
            gradient = kind_tensor(kind.xp.ones(tensor._data.shape, kind.np), kind)
        elif not isinstance(gradient, Tensor):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(gradient).__name__}; write torch.tensor(...)"
            )
        elif gradient.shape != tensor.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{len(roots)}] has a shape of {gradient.shape} and output"
                f"[{len(roots)}] has a shape of {tensor.shape}."
            )
        elif gradient._type is not tensor._type:
            if gradient.dtype.is_complex and not tensor.dtype.is_complex:
                raise RuntimeError(
                    f"For complex Tensors, both grad_output and output are required to have the same dtype: got "
                    f"{gradient.dtype} and {tensor.dtype}"
                )
            gradient = gradient.to(tensor.device, tensor.dtype)
        roots.append((tensor if edge is LEAF else edge, gradient if create else gradient._data))
    previous = mode.grad, mode.current
    mode.grad = create
    try:
        with numpy.errstate(all="ignore"):
            return run(roots, retain=retain, create=create, targets=targets)
    finally:
        mode.grad, mode.current = previous


def _tuple(value, what):
    if value is None:
        return ()
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return (value,)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulate the gradient of `tensors` in the leaves that they depend on.

    `grad_tensors` are the gradients of a scalar function of `tensors`; None for scalars. With `inputs` only these
    leaves are filled.

    >>> import plugrad as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    tensors = _tuple(tensors, "tensors")
    grads = _tuple(grad_tensors if grad_variables is None else grad_variables, "grad_tensors") or (None,) * len(tensors)
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    retain = create_graph if retain_graph is None else retain_graph
    targets = None
    if inputs is not None:
        inputs = _tuple(inputs, "inputs")
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        targets = {}
        for tensor in inputs:
            edge = _target(tensor)
            targets[edge] = True
    captured = _walk(tensors, grads, retain=retain, create=create_graph, targets=targets)
    if targets:
        for tensor in inputs:
            if tensor._edge is not LEAF and captured.get(tensor._edge) is not None:
                g = as_tensor(captured[tensor._edge])
                tensor._grad = g if tensor.grad is None else tensor.grad + g


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Return the gradients of `outputs` with respect to `inputs`, leaving every `.grad` alone.

    With `create_graph` the gradients can be differentiated again. An input that the outputs do not depend on is an
    error unless `allow_unused` (None for it) or `materialize_grads` (zeros for it).

    >>> import plugrad as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (g,) = torch.autograd.grad(x**3, x, create_graph=True)
    >>> g.item(), torch.autograd.grad(g, x)[0].item()
    (27.0, 18.0)
    """
    if is_grads_batched:
        raise NotImplementedError("is_grads_batched=True is not supported: loop over the rows of grad_outputs instead")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    outputs, wanted = _tuple(outputs, "outputs"), _tuple(inputs, "inputs")
    if not wanted:
        raise ValueError("grad requires non-empty inputs.")
    grads = _tuple(grad_outputs, "grad_outputs") or (None,) * len(outputs)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} outputs and {len(grads)} grad_outputs")
    edges = [_target(tensor) for tensor in wanted]
    retain = create_graph if retain_graph is None else retain_graph
    captured = _walk(outputs, grads, retain=retain, create=create_graph, targets=dict.fromkeys(edges, False))
    results = []
    for position, (tensor, edge) in enumerate(zip(wanted, edges)):
        g = captured.get(edge)
        if g is None:
            if materialize_grads:
                kind = tensor._type
                g = kind_tensor(kind.xp.zeros(tensor._data.shape, kind.np), kind)
            elif not allow_unused:
                raise RuntimeError(
                    "One of the differentiated Tensors appears to not have been used in the graph. Set "
                    f"allow_unused=True if this is the desired behavior. (It is inputs[{position}], of shape "
                    f"{list(tensor.shape)}.)"
                )
        elif not create_graph:
            g = as_tensor(g)
            if any(g._data is other._data for other in results if other is not None):
                g = kind_tensor(g._data.copy(), g._type)
        results.append(g)
    return tuple(results)


def _target(tensor):
    from plugrad.tensor import Tensor

    if not isinstance(tensor, Tensor):
        raise TypeError(f"inputs must be Tensors, got {type(tensor).__name__}")
    edge = tensor._live_edge()
    if edge is None:
        raise RuntimeError(
            "One of the differentiated Tensors does not require grad: call requires_grad_() on it before the computation"
        )
    return tensor if edge is LEAF else edge


# ---------------------------------------------------------------------------------------------------- rare modes


class detect_anomaly:
    """Record the forward stack of every op, show it when its backward fails, and stop at NaN gradients."""

    def __init__(self, check_nan=True):
        self._wanted = (True, bool(check_nan))

    def __enter__(self):
        self._previous = mode.anomaly, mode.check_nan
        mode.anomaly, mode.check_nan = self._wanted
        count_special(+1)

    def __exit__(self, *exc):
        mode.anomaly, mode.check_nan = self._previous
        count_special(-1)


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly mode on or off, at once and, as a context manager, until the block ends."""

    def __init__(self, mode, check_nan=True):
        super().__init__(check_nan)
        self._wanted = (bool(mode), bool(check_nan))
        super().__enter__()

    def __enter__(self):
        return None


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return mode.anomaly


class saved_tensors_hooks:
    """Pass every tensor that is saved for backward through `pack_hook`, and back through `unpack_hook`."""

    def __init__(self, pack_hook, unpack_hook):
        self._hooks = pack_hook, unpack_hook

    def __enter__(self):
        mode.saved_hooks = (*mode.saved_hooks, self._hooks)
        count_special(+1)

    def __exit__(self, *exc):
        mode.saved_hooks = mode.saved_hooks[:-1]
        count_special(-1)


class save_on_cpu(saved_tensors_hooks):
    """Keep tensors that are saved for backward in host memory."""

    def __init__(self, pin_memory=False):
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


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
