"""`autograd.Function`: a gradient formula written by hand, in PyTorch's static style or the documents' instance style.

Tensors in lists, dicts and keyword arguments are tracked like others. What `forward` keeps on its context, and how
`backward` gets it again, is the business of the node (`plugrad.autograd.function_node`).
"""

from __future__ import annotations

from plugrad.autograd.function_node import function_node, tensors_of
from plugrad.errors import flag
from plugrad.graph import numpy_writes, rare
from plugrad.graph.modes import levels, mode, paused, tick
from plugrad.registry.namespaces import lazy_names
from plugrad.tensor.tensor import Tensor


class FunctionCtx:
    """What `forward` and `backward` are handed: a place to keep things between them."""

    __slots__ = ("_node", "__dict__", "__weakref__")  # `_node`: its `attributes` are the context's __dict__

    _to_save: tuple = ()
    _dirty: tuple = ()
    _not_differentiable: tuple = ()
    _materialize = True
    needs_input_grad: tuple = ()
    num_inputs = num_outputs = 0
    clear_saved_tensors_on_access = False  # True: `saved_tensors` can be read once, and keeps nothing alive after that

    def save_for_backward(self, *tensors):
        """Keep tensors (or None) for backward; `saved_tensors` checks that none changed."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                rare.refuse_to_save(tensors, TypeError("save_for_backward can only save variables, but "))
        self._to_save = tensors

    def save_for_forward(self, *tensors):
        """Keep tensors (or None) for `jvp`, which finds them in `saved_tensors`."""
        if not all([tensor is None or isinstance(tensor, Tensor) for tensor in tensors]):
            rare.refuse_to_save(tensors, AssertionError("save_for_forward expects all arguments to be tensors, but "))
        if levels:
            self._for_forward = tensors

    def mark_dirty(self, *tensors):
        """Say which inputs forward changed in place; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Say which outputs have no gradient."""
        self._not_differentiable = tensors

    def set_materialize_grads(self, value: bool):
        """Choose whether missing gradients of outputs arrive as zeros (default) or None."""
        self._materialize = flag("value", value)

    @property
    def saved_tensors(self):
        """The tensors given to `save_for_backward`."""
        if not hasattr(self, "_node"):
            raise AttributeError("saved_tensors is available in backward, on the context")
        return rare.saved_once(self._node) if self.clear_saved_tensors_on_access else self._node.saved_tensors

    saved_variables = property(lambda self: rare.saved_variables(self))

    def __getattr__(self, name):
        # The context is PyTorch's node, too. What the user sets on it never gets in the way of the node.
        if name in ("metadata", "name", "next_functions", "register_hook", "register_prehook"):
            return getattr(self._node, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


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
        """Return a gradient per input of forward; differentiable Functions override it."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """Return tangents of the outputs; Functions for forward mode override it."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run forward on the arguments and record the operation."""
        return _run(function_node(cls), args, kwargs)

    def __call__(self, *args, **kwargs):
        rare.warn_of_old_style(type(self).__name__)
        node = function_node(type(self))
        node.attributes = self.__dict__  # what __init__ set is visible in forward and backward, and the reverse
        return _run(node, args, kwargs)


def _run(node, args, kwargs):
    """Call forward with recording off, then make `node` the history of its outputs."""
    arguments = [*args, *kwargs.values()] if kwargs else args
    inputs, counts = tensors_of(arguments)
    if levels and any([tensor._type.rare for tensor in inputs]):
        result = rare.function_of_duals(_run, node, args, kwargs, inputs)
        if result is not None:
            return result
    needs = [(tensor._edge if tensor._view is None else tensor._live_edge()) is not None for tensor in inputs]
    needs = tuple(needs) if counts.count(None) == len(counts) else rare.needs_by_argument(needs, counts)
    context = node.context()
    context.needs_input_grad, context.num_inputs = needs, len(arguments)
    start, records = tick(), not paused or mode.records()
    output = node.forward(context, args, kwargs)
    if records and numpy_writes.any_since(start):
        node.check_inputs(inputs, start)
    several = type(output) if isinstance(output, (tuple, list)) else None
    outputs = list(output) if several else [output]
    context.num_outputs = len(outputs)
    if context._dirty or context._not_differentiable:
        rare.check_returned(context, inputs, outputs)
    node.seq = tick()
    if True in needs and records:
        outputs = node.connect(counts, inputs, outputs)
        node.keep(args, kwargs, inputs, outputs)
    else:
        outputs = node.without_history(inputs, outputs)
    return outputs[0] if not several else outputs if issubclass(several, list) else tuple(outputs)


__getattr__, __dir__ = lazy_names(globals(), None, {
    "autograd.once": "once_differentiable", "legacy": "InplaceFunction",
    "autograd.rare.old_functions": "BackwardCFunction FunctionMeta NestedIOFunction",
})  # fmt: skip
