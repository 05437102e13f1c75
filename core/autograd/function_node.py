"""The node of a custom Function: what forward kept, and backward called with gradients.

When backward is itself recorded and forward kept an intermediate tensor, forward is run once more with recording on, so
that the intermediate's part of the second derivative is not lost.
"""

from __future__ import annotations

from io import BytesIO
from itertools import repeat

from plugrad import nest
from plugrad.devices.device import type_of
from plugrad.dispatch import inplace
from plugrad.dispatch.formulas import F as recorded
from plugrad.dispatch.node import connect
from plugrad.graph import modes, numpy_writes, rare
from plugrad.graph.modes import LEAF, mode, no_grad, tick
from plugrad.graph.nodes import Node, Outputs, slot_of
from plugrad.graph.saved import FREED, Packed, annotate, check_unchanged
from plugrad.graph.versions import touch
from plugrad.regions import Changes
from plugrad.tensor import inference
from plugrad.tensor.tensor import Tensor, ensure_tensor, from_raw, make
from plugrad.tensor.views import View, mark_view

_GIVEN = {"needs_input_grad", "num_inputs", "num_outputs"}  # attributes of a context that are not the user's
_IN_FORWARD = Changes({"in_function": True, "pausing": True})


def tensors_in(value) -> list:
    """Return the tensors in nested lists, tuples and dicts, in order."""
    if isinstance(value, Tensor):
        return [value]
    return [leaf for leaf in nest.leaves(value) if isinstance(leaf, Tensor)]


def tensors_of(arguments) -> tuple:
    """Return the tensors in arguments, and how many each has, None for a tensor."""
    if False not in map(isinstance, arguments, repeat(Tensor)):
        return [*arguments], [None] * len(arguments)
    lists = [[one] if isinstance(one, Tensor) else tensors_in(one) for one in arguments]
    counts = [None if isinstance(one, Tensor) else len(tensors) for one, tensors in zip(arguments, lists)]
    return [tensor for tensors in lists for tensor in tensors], counts


def is_any(tensor, tensors) -> bool:
    """Whether a tensor is the same object as one of some others."""
    return id(tensor) in map(id, tensors)


class _Saved:
    """One tensor given to `save_for_backward`: an input or intermediate itself, or the number of an output."""

    __slots__ = ("tensor", "data", "output")

    def __init__(self, tensor, output=None):
        self.data, self.output = tensor._raw, output
        self.tensor = None if output is not None else tensor


class FunctionNode(Node):
    """The node of one call of a Function, which is its `user`; each has a subclass.

    Its `attributes` are those of the context that forward and backward see. The context itself lives only while one
    of them runs: it holds the node.
    """

    __slots__ = ("attributes", "outputs", "slots", "counts", "arguments", "types")

    user: type
    pure, restores = False, True
    inputs = 0  # besides the tensors, which have edges
    asks = True  # backward asks for what was saved, and is told then that it was freed

    def __init__(self):
        self.edges, self.saved, self.fit, self.rare, self.seq = (), (), None, None, 0
        self.attributes, self.slots = {}, {}
        self.outputs = []  # (shape, tensor type) of each output, None if it is no tensor
        self.counts = []  # for each argument the number of tensors in it, None if it is one
        self.arguments = None  # (args, kwargs), if forward has to be run again

    def __getattr__(self, name):
        if name == "attributes" or name not in self.attributes:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.attributes[name]

    def context(self):
        """Return a context: an instance of the Function with this node and its attributes."""
        context = object.__new__(self.user)
        context._node, context.__dict__ = self, self.attributes
        return context

    # ------------------------------------------------------------------------------------------ forward

    def forward(self, context, args, kwargs):
        """Return what the user's forward returns, run with recording off."""
        with BytesIO() as flag:
            mode.thread.begin(flag, _IN_FORWARD)
            return self._call_forward(context, args, kwargs)

    def _call_forward(self, context, args, kwargs):
        if not hasattr(self.user, "setup_context"):
            return self.user.forward(context, *args, **kwargs)
        output = self.user.forward(*args, **kwargs)
        self.user.setup_context(context, rare.with_defaults(self.user.forward, args, kwargs), output)
        return output

    def check_inputs(self, inputs, start: int) -> None:
        """Warn of inputs that need gradients and that forward wrote, unsaid."""
        if written := _written(inputs, start):
            rare.check_marked(self, inputs, [one for one in written if one._edge is not None])

    def without_history(self, inputs, outputs) -> list:
        """Return the outputs of an unrecorded call; an input among them as a new tensor."""
        dirty = self.attributes.get("_dirty", ())
        to_save = self.attributes.pop("_to_save", ())
        self.saved = tuple(None if tensor is None else _Saved(tensor) for tensor in to_save)
        return [_unrecorded(output, is_any(output, inputs), is_any(output, dirty)) for output in outputs]

    def connect(self, counts, inputs, outputs) -> list:
        """Give the node its edges; return the outputs with it as their history."""
        edges, self.types, fit, self.counts = [], [], [], counts
        for tensor in inputs:
            edge = tensor._edge
            ttype = None if edge is None else tensor._type.plain
            edges.append(tensor if edge is LEAF else edge)
            self.types.append(ttype)
            fit.append(ttype and (tensor._raw.shape, ttype.np))
        self.edges, self.fit = tuple(edges), tuple(fit)
        self.outputs = [(y._raw.shape, y._type) if isinstance(y, Tensor) else None for y in outputs]
        return [
            self._connected(number, output, inputs) if isinstance(output, Tensor) else output
            for number, output in enumerate(outputs)
        ]

    def _connected(self, number: int, output, inputs):
        """Return output number `number` with its history."""
        marks = self.attributes
        dirty = "_dirty" in marks and is_any(output, marks["_dirty"])
        if dirty:
            inplace.check_writable(output)
        fixed = "_not_differentiable" in marks and is_any(output, marks["_not_differentiable"])
        if fixed or not output._type.is_differentiable:
            return _unrecorded(output, is_any(output, inputs), dirty)
        source = output if not dirty and is_any(output, inputs) else None
        if source is not None:
            output = source.detach() if type(source) is Tensor else rare.of_its_class(source)
        edge = self._edge_of(number)
        if dirty:
            touch(output)
            output.grad = None  # it was that of the old value
            inplace.rebase(output, edge)
            return output
        output._edge = edge
        if source is not None:
            output._view = mark_view(source, None, ())
        if type(output._view) is View:
            rare.keep_flag(output)
            output._view.error = rare.not_written(self, number)
        return output

    def _edge_of(self, number: int):
        return self if len(self.outputs) == 1 else slot_of(self, number)

    def keep(self, args, kwargs, inputs, outputs) -> None:
        """Keep, without reference cycles, what forward saved; arguments if need be."""
        attributes = self.attributes
        attributes.pop("_dirty", None)
        attributes.pop("_not_differentiable", None)
        to_save = attributes.pop("_to_save", ())
        saved = []
        others = [tensor for name in attributes if name not in _GIVEN for tensor in tensors_in(attributes[name])]
        known = [*map(id, outputs)]
        for tensor in to_save:
            if tensor is None:
                saved.append(None)
                continue
            if inference.exist and inference.marked(tensor):
                raise RuntimeError(inference.not_saved(f"{self.user.__name__} saved a tensor"))
            number = known.index(id(tensor)) if id(tensor) in known else None
            saved.append(_Saved(tensor, number if tensor._edge is not None else None))
            if number is None:
                others.append(tensor)
        if others and not {*map(id, others)} <= {*map(id, inputs)}:
            self.arguments = args, kwargs
        if modes.special and mode.saved_hooks:
            pack, unpack = mode.saved_hooks[-1]
            with no_grad():
                saved = [value and rare.packed(pack, value, unpack) for value in saved]
        self.saved = tuple(saved)
        if modes.special and mode.anomaly:
            annotate(self, from_raw)

    # ------------------------------------------------------------------------------------------ backward

    @property
    def saved_tensors(self) -> tuple:
        """The tensors given to `save_for_backward`, checked for in-place changes."""
        if self.saved is None:
            raise RuntimeError(FREED)
        if not self.saved and "_to_save" in self.attributes:
            return self.attributes["_to_save"]
        return tuple([None if value is None else self._restored(value) for value in self.saved])

    saved_variables = property(lambda self: rare.saved_variables(self))
    _raw_saved_tensors = property(lambda self: rare.raw_saved(self))

    def _restored(self, value):
        if isinstance(value, Packed):
            tensor, edge = value.unpacker(value.packed), value.edge
            edge = self._edge_of(edge) if type(edge) is int else edge
            return tensor if edge is None else connect(edge, tensor._raw)
        if numpy_writes.any_since(self.seq):
            check_unchanged(self, (value.data,))
        if value.output is None:
            return value.tensor
        return make(value.data, type_of(value.data), self._edge_of(value.output))

    def tensors(self):
        return self.saved

    values = tensors

    def missing(self):
        if self.attributes.get("_materialize", True):
            number, (shape, ttype) = next((i, described) for i, described in enumerate(self.outputs) if described)
            return Outputs({number: ttype.zeros(shape)})

    def materialize(self, g, F=None) -> tuple:
        """Return the gradients of all outputs as Tensors or None."""
        if len(self.outputs) == 1 and self.outputs[0] is not None and type(g) is self.outputs[0][1].array_type:
            ttype = self.outputs[0][1].plain
            return (make(g, ttype) if g.dtype is ttype.np and not ttype.backend.numbered else from_raw(g),)
        grads = [g.grads.get(number) for number in range(len(self.outputs))] if isinstance(g, Outputs) else [g]
        grads = [ensure_tensor(grad) for grad in grads]
        if self.attributes.get("_materialize", True):
            for number, described in enumerate(self.outputs):
                if grads[number] is None and described is not None:
                    grads[number] = make(described[1].zeros(described[0]), described[1])
        return tuple(grads)

    def pull(self, F, g, saved, retain):
        create = F is recorded
        context = rare.run_forward_again(self) if create and self.arguments is not None else self.context()
        grads = self._by_tensor(self._call_backward(context, self.materialize(g)))
        for number, (grad, ttype) in enumerate(zip(grads, self.types)):
            if grad is not None and (not isinstance(grad, Tensor) or grad._type is not ttype):
                grads[number] = rare.checked_gradient(self, number, grad, ttype)
        if saved and not retain:
            self.saved = None
        return grads if create else [None if grad is None else grad._raw for grad in grads]

    def _call_backward(self, context, grads):
        """Return what the user's backward returns; RuntimeError if it changed in place what it was given."""
        backward = rare.the_vjp(self.user) if hasattr(self.user, "vjp") else self.user.backward
        start = tick()
        results = backward(context, *grads)
        if numpy_writes.any_since(start) and _written([grad for grad in grads if grad is not None], start):
            rare.refuse_changed_gradient(self)
        return results

    def _by_tensor(self, grads) -> list:
        """Return one gradient for each tensor among the arguments, of what backward returned for the arguments."""
        grads = list(grads) if isinstance(grads, tuple) else [grads]
        plain = len(grads) == len(self.counts) == self.counts.count(None)
        return grads if plain else rare.gradients_of_nested(self, grads)


def _unrecorded(output, is_input: bool, is_dirty: bool):
    """Return an output that gets no history: an input keeps its own, and is handed out as another tensor."""
    if not isinstance(output, Tensor):
        return output
    if is_input and output._edge is not None:
        return output.detach()
    if is_input and not is_dirty:
        return output.view_as(output)
    return output.detach_() if output._edge is not None and not output._is_view() else output


def _written(tensors, start: int) -> list:
    """Return those of the tensors that were written in place, by an op or through NumPy, since the tick `start`."""
    return [tensor for tensor in tensors if numpy_writes.written_since(tensor._raw, start)]


def function_node(user: type) -> FunctionNode:
    """Return a new node for a call of a Function."""
    cls = user.__dict__.get("_node_class")
    if cls is None:
        cls = user._node_class = type(f"{user.__name__}Backward", (FunctionNode,), {"__slots__": (), "user": user})
    return cls()
