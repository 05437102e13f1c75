"""`autograd.Function`: a gradient formula written by hand, in PyTorch's static style or the documents' instance style.

The context (`ctx`, or `self` in the old style) is the graph's node itself. Tensors in lists, dicts and keyword
arguments are tracked like others. When backward is itself recorded and forward kept an intermediate tensor, forward
is run once more with recording on, so that the intermediate's part of the second derivative is not lost.
"""

from __future__ import annotations

import functools
import warnings

import numpy

from plugrad.dispatch import inplace
from plugrad.dispatch import op as ops
from plugrad.graph import numpy_writes
from plugrad.graph.modes import LEAF, enable_grad, mode, no_grad, tick
from plugrad.graph.nodes import Node, Outputs, OutputSlot
from plugrad.graph.saved import FREED, Packed, annotate, check_unchanged
from plugrad.graph.versions import touch
from plugrad.tensor import inference, shared_memory
from plugrad.tensor.tensor import Tensor, ensure_tensor, from_raw, make
from plugrad.tensor.views import alias as alias_view


def _tensors_in(value):
    """Yield the tensors in nested lists, tuples and dicts, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors_in(item)


class _Saved:
    """One tensor given to `save_for_backward`: an input or intermediate itself, or the number of an output."""

    __slots__ = ("tensor", "data", "output")

    def __init__(self, tensor, output=None):
        self.data, self.output = tensor._data, output
        self.tensor = None if output is not None else tensor


class FunctionCtx:
    """What `forward` and `backward` are handed: a place to keep things between them."""

    _to_save: tuple = ()
    _dirty: tuple = ()
    _not_differentiable: tuple = ()
    _materialize = True
    needs_input_grad: tuple = ()
    num_inputs = num_outputs = 0

    def save_for_backward(self, *tensors):
        """Keep tensors (or None) for backward, where `saved_tensors` returns them and checks that none was changed."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {tensors.index(tensor)} is of type "
                    f"{type(tensor).__name__}: keep other things as attributes of ctx"
                )
        self._to_save = tensors

    def mark_dirty(self, *tensors):
        """Say which inputs forward changed in place; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Say which outputs have no gradient."""
        self._not_differentiable = tensors

    def set_materialize_grads(self, value: bool):
        """Choose whether missing gradients of outputs arrive as zeros (the default) or as None."""
        self._materialize = value

    save_for_forward = save_for_backward


class Function(FunctionCtx):
    """Base of operations with a hand-written gradient.

    Define `forward(ctx, ...)` and `backward(ctx, *grad_outputs)` (with or without `@staticmethod`) and call
    `MyFunction.apply(...)`; or split the context off into `setup_context(ctx, inputs, output)`. The old style, with
    arguments in `__init__` and `MyFunction(args)(tensor)`, works too.

    >>> import plugrad as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    @staticmethod
    def forward(*args, **kwargs):
        """Compute the result; overridden by every Function."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Return one gradient per input of forward; overridden by every differentiable Function."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run forward on the arguments and record the operation."""
        return _run(_node_class(cls)(), args, kwargs)

    def __call__(self, *args, **kwargs):
        node = _node_class(type(self))()
        node.__dict__ = self.__dict__  # what __init__ and forward set is visible from both
        return _run(node, args, kwargs)

    @property
    def saved_tensors(self):
        """The tensors given to `save_for_backward`."""
        raise AttributeError("saved_tensors is available in backward, on the context")

    saved_variables = saved_tensors


_node_classes: dict = {}


def _node_class(cls):
    found = _node_classes.get(cls)
    if found is None:
        found = type(
            f"{cls.__name__}Backward", (_FunctionNode, cls), {"__init__": Node.__init__, "user": cls, "__call__": None}
        )
        _node_classes[cls] = found
    return found


def _run(node, args, kwargs):
    """Call forward with recording off, then make `node` the history of its outputs."""
    cls = node.user
    parts = [*args, *kwargs.values()]
    inputs = list(_tensors_in(parts))
    for tensor in inputs:
        tensor._live_edge()
    needs = tuple(any(t._edge is not None for t in _tensors_in(part)) for part in parts)
    node.needs_input_grad, node.num_inputs = needs, len(parts)
    node.edges, node.saved, node.fit, node.rare, node.seq = (), (), None, None, 0
    split = "setup_context" in _all_names(cls)
    start = tick()
    shared_memory.inside += 1
    try:
        with no_grad():
            output = cls.forward(*args, **kwargs) if split else cls.forward(node, *args, **kwargs)
            if split:
                cls.setup_context(node, args, output)
    finally:
        shared_memory.inside -= 1
    if mode.grad:
        _check_inputs(node, inputs, start)
    single = not isinstance(output, (tuple, list))
    outputs = [output] if single else list(output)
    node.num_outputs = len(outputs)
    for value in outputs:
        if single and not isinstance(value, Tensor):
            raise TypeError(
                f"{cls.__name__}.forward: expected to return a Tensor or a tuple of them, got {type(value).__name__}"
            )
    node.seq = tick()
    if any(needs) and mode.grad:
        outputs = _connect(node, cls, parts, inputs, outputs)
        node._remember(args, kwargs, inputs, outputs)
    else:
        outputs = [_fresh(o, node) if isinstance(o, Tensor) and any(o is t for t in inputs) else o for o in outputs]
        node.saved = tuple(None if t is None else _Saved(t) for t in node._to_save)
    node.__dict__.pop("_to_save", None)
    return outputs[0] if single else tuple(outputs)


def _changed(tensors, start: int) -> list:
    """Return those of the tensors that were written in place, by an op or through NumPy, since the tick `start`."""
    written = numpy_writes.written_since([tensor._data for tensor in tensors], start)
    return [tensor for tensor, was_written in zip(tensors, written) if was_written]


def _check_inputs(node, inputs, start) -> None:
    """Raise RuntimeError if forward wrote to an input that requires grad without saying so."""
    marked = [tensor._type.backend.storage(tensor._data) for tensor in node._dirty]
    for tensor in _changed([t for t in inputs if t._edge is not None], start):
        if not any(tensor._type.backend.storage(tensor._data) is storage for storage in marked):
            number = next(i for i, t in enumerate(inputs) if t is tensor)
            raise RuntimeError(
                f"{node.user.__name__}.forward changed its input number {number} ({tensor.dtype} {list(tensor.shape)}) "
                "in place without saying so: write ctx.mark_dirty(x) and return x, or work on x.clone()"
            )


def _all_names(cls):
    return {name for base in cls.__mro__ if base is not Function for name in base.__dict__}


def _fresh(output, node):
    """An input that forward returned as it is becomes a new tensor, unless it was marked dirty."""
    return output if any(output is t for t in node._dirty) else output.view_as(output)


def _connect(node, cls, parts, inputs, outputs):
    """Give the outputs their history and the node its edges."""
    edges, fits = [], []
    for tensor in inputs:
        edge = tensor._edge
        edges.append(tensor if edge is LEAF else edge)
        fits.append((tensor._data.shape, tensor._type.np) if edge is not None else None)
    node.edges, node.fit = tuple(edges), tuple(fits)
    node.parts = [sum(1 for _ in _tensors_in(part)) if not isinstance(part, Tensor) else None for part in parts]
    node.inputs = len(parts)
    excluded = node._not_differentiable
    kinds = [o._type if isinstance(o, Tensor) else None for o in outputs]
    node.outputs = [(o._data.shape, o._type) if isinstance(o, Tensor) else None for o in outputs]
    made = []
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            made.append(output)
            continue
        dirty = any(output is t for t in node._dirty)
        if dirty and output._edge is LEAF:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        floating = kinds[number].dtype.is_floating_point or kinds[number].dtype.is_complex
        alias = None if dirty else next((t for t in inputs if output is t), None)
        if alias is not None:
            output = make(output._data, output._type.plain)
        if floating and not any(outputs[number] is t for t in excluded):
            edge = node if len(outputs) == 1 else OutputSlot(node, number)
            if dirty:
                touch(output)
                inplace.rebase(output, edge)
            else:
                output._edge, output._view = edge, _alias_view(node, number, alias) if alias is not None else None
        made.append(output)
    return made


def _alias_view(node, number, source):
    """An input returned as it is shares memory with it: writing to it in place would be lost to one of the two."""
    return alias_view(
        source,
        f"Output {number} of {node.name()} is a view and is being modified inplace. This view was created inside a "
        "custom Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would "
        "override the custom backward associated with the custom Function: clone() it first.",
    )


class _FunctionNode(Node):
    """The node of a user's Function; it is also the context that forward and backward see."""

    user = Function
    broadcasts = True
    pure = False
    parts: list = []
    outputs: list = []
    _replay = None

    def _remember(self, args, kwargs, inputs, outputs):
        """Turn what forward saved into a form without reference cycles; note whether there are intermediates."""
        saved, intermediate = [], False
        for tensor in self._to_save:
            if tensor is None:
                saved.append(None)
                continue
            number = next((i for i, o in enumerate(outputs) if o is tensor), None)
            if inference.marked(tensor):
                raise RuntimeError(inference.not_saved(f"{self.user.__name__} saved a tensor"))
            if number is None:
                intermediate = intermediate or not any(tensor is t for t in inputs)
            saved.append(_Saved(tensor, number))
        kept = [v for k, v in self.__dict__.items() if k not in ("_dirty", "_not_differentiable", "_to_save")]
        for tensor in _tensors_in(kept):
            intermediate = intermediate or not any(tensor is t for t in inputs)
        if mode.saved_hooks:
            pack, unpack = mode.saved_hooks[-1]
            with no_grad():
                saved = [
                    item if item is None or item.output is not None else _packed(item, pack, unpack) for item in saved
                ]
        self.saved = tuple(saved)
        self.__dict__.pop("_dirty", None)
        self.__dict__.pop("_not_differentiable", None)
        if intermediate:
            self._replay = (args, kwargs)
        if mode.anomaly:
            annotate(self, from_raw)

    @property
    def saved_tensors(self):
        """The tensors given to `save_for_backward`, checked for in-place changes."""
        if self.saved is None:
            raise RuntimeError(FREED)
        if not self.saved and self._to_save:
            return self._to_save
        found = []
        for item in self.saved:
            if item is None:
                found.append(None)
                continue
            if isinstance(item, Packed):
                found.append(item.unpacker(item.packed))
                continue
            check_unchanged(self, (item.data,))
            if item.output is None:
                found.append(item.tensor)
            else:
                edge = self if len(self.outputs) == 1 else OutputSlot(self, item.output)
                found.append(ops.make_output(item.data, edge))
        return tuple(found)

    saved_variables = saved_tensors

    def tensors(self):
        return self.saved

    def values(self):
        return self.saved

    def name(self):
        return type(self).__name__

    def __getattr__(self, name):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def materialize(self, g, F=None):
        """Return the gradients of all outputs as Tensors or None."""
        if isinstance(g, Outputs):
            found = [ensure_tensor(g.grads.get(i)) for i in range(len(self.outputs))]
        else:
            found = [ensure_tensor(g)]
        if self._materialize:
            for i, grad in enumerate(found):
                if grad is None and self.outputs[i] is not None:
                    shape, kind = self.outputs[i]
                    found[i] = make(kind.zeros(shape), kind)
        return tuple(found)

    def pull(self, F, g, saved, retain):
        create = F is ops.F
        ctx = self._recompute() if create and self._replay is not None else self
        backward = getattr(self.user, "vjp", None) or self.user.backward
        grads = self._call(backward, ctx, self.materialize(g))
        if not isinstance(grads, (tuple, list)) or hasattr(grads, "_data"):
            grads = (grads,)
        grads = list(grads)
        while len(grads) > len(self.parts) and grads[-1] is None:
            grads.pop()
        if len(grads) != len(self.parts):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {len(self.parts)}, got "
                f"{len(grads)}): return one gradient (or None) per argument of {self.user.__name__}.forward"
            )
        flat = []
        for number, (part, grad) in enumerate(zip(self.parts, grads)):
            if part is None:
                flat.append(grad)
            elif not part and grad is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different from None at position {number + 1}, but the "
                    "corresponding forward input was not a Variable"
                )
            elif part:
                inner = [None] * part if grad is None else list(_leaves(grad))
                if len(inner) != part:
                    raise RuntimeError(
                        f"function {self.name()} returned {len(inner)} gradients for argument {number}, which holds "
                        f"{part} tensors"
                    )
                flat += inner
        for number, grad in enumerate(flat):
            if grad is not None and not isinstance(grad, Tensor):
                raise RuntimeError(
                    f"function {self.name()} returned a gradient at index {number} of type {type(grad).__name__}: "
                    "expected Variable or None"
                )
        if saved and not retain:
            self.saved = None
        if create:
            return flat
        return [None if grad is None else grad._data for grad in flat]

    def _call(self, backward, ctx, arrived):
        """Return what the user's backward returns; RuntimeError if it changed in place what it was given."""
        start = tick()
        shared_memory.inside += 1
        try:
            grads = backward(ctx, *arrived)
        finally:
            shared_memory.inside -= 1
        if _changed([grad for grad in arrived if grad is not None], start):
            raise RuntimeError(
                f"{self.user.__name__}.backward changed a gradient that it was given in place; other paths may share "
                "its memory: work on grad.clone(), or write the operation out of place"
            )
        return grads

    def _recompute(self):
        """Run forward again, recorded, and return a context whose intermediates are connected to the inputs."""
        args, kwargs = self._replay
        ctx = _node_class(self.user)()
        ctx.__dict__.update(self.__dict__)
        ctx.edges, ctx.saved, ctx.fit, ctx.rare, ctx.seq = (), (), None, None, tick()
        cls = self.user
        with enable_grad():
            if "setup_context" in _all_names(cls):
                cls.setup_context(ctx, args, cls.forward(*args, **kwargs))
            else:
                cls.forward(ctx, *args, **kwargs)
        old = [*self.saved_tensors, *_tensors_in([v for k, v in self.__dict__.items() if k[0] != "_"])]
        new = [*ctx._to_save, *_tensors_in([v for k, v in ctx.__dict__.items() if k[0] != "_"])]
        for was, now in zip(old, new):
            if was is not None and now._edge is not None and was is not now:
                if not numpy.array_equal(ensure_tensor(was._data)._host(), now.detach()._host(), equal_nan=True):
                    raise RuntimeError(
                        f"double backward through {cls.__name__}: forward kept an intermediate tensor of shape "
                        f"{list(now.shape)} that depends on the inputs and is not the same when forward is run again "
                        "(does forward draw random numbers?): save inputs or outputs with ctx.save_for_backward, or "
                        "decorate backward with once_differentiable"
                    )
        ctx.outputs = self.outputs
        return ctx


def _leaves(value):
    """Yield the gradients in nested lists, tuples and dicts, None included."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    else:
        yield value


def _packed(item, pack, unpack):
    return Packed(pack(item.tensor), unpack)


class _OnceNode(Node):
    """History of gradients that can't be differentiated again."""

    __slots__ = ("label",)

    def tensors(self):
        return ()

    def pull(self, F, g, saved, retain):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
            f" ({self.label}): write its backward with differentiable operations and remove the decorator"
        )


def once_differentiable(backward):
    """Mark a `backward` whose result can't be differentiated again: doing so is an error."""

    @functools.wraps(backward)
    def wrapper(ctx, *grads):
        with no_grad():
            results = backward(ctx, *grads)
        if not mode.grad or not any(isinstance(g, Tensor) and g.requires_grad for g in (*grads, *ctx.saved_tensors)):
            return results
        single = not isinstance(results, (tuple, list))
        guarded = []
        for result in (results,) if single else results:
            if isinstance(result, Tensor):
                node = _OnceNode()
                node.edges = tuple(
                    g if g._edge is LEAF else g._edge for g in grads if g is not None and g._edge is not None
                )
                node.saved, node.fit, node.rare, node.seq = (), None, None, tick()
                node.label = ctx.name()
                result = result.detach()
                result._edge = node
            guarded.append(result)
        return guarded[0] if single else tuple(guarded)

    return wrapper


class InplaceFunction(Function):
    """The old base of Functions with an `inplace` argument."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace
        if inplace:
            warnings.warn("InplaceFunction is the old style; mark inputs with ctx.mark_dirty instead", stacklevel=2)
