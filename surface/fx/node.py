"""A node of a graph: one value of the traced program, and what computes it."""

from __future__ import annotations

import operator
import warnings

import plugrad
from plugrad.fx._names import qualified_name, type_name
from plugrad.fx.immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

OPCODES = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
base_types = (str, int, float, bool, complex, plugrad.dtype, plugrad.Tensor, plugrad.device, plugrad.memory_format,
              plugrad.layout)  # fmt: skip
BaseArgumentTypes = Argument = Target = object  # what programs name in annotations
_side_effectful_functions = {plugrad._assert, operator.setitem}
_RANDOM = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial".split()
)


def has_side_effect(fn):
    """Keep a function's calls in graphs though their results are unused; return it."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a, fn):
    """Return a nested value with `fn` of each leaf.

    Lists and dicts become immutable ones.
    """
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(item, fn) for key, item in a.items()})
    if isinstance(a, slice):
        return slice(*[map_aggregate(item, fn) for item in (a.start, a.stop, a.step)])
    return fn(a)


def map_arg(a, fn):
    """Return an argument of a node with `fn` of each node in it."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda item: fn(item) if isinstance(item, Node) else item)


def _format_arg(arg, max_list_len=float("inf")) -> str:
    """Return an argument as printed graphs show it."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        items = [_format_arg(item) for i, item in enumerate(arg) if i < max_list_len]
        left_out = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
        text = ", ".join(items)
        if isinstance(arg, list):
            return f"[{text}{left_out}]"
        return f"({text}{',' * (len(arg) == 1)}{left_out})"
    if isinstance(arg, dict):
        items = ", ".join(f"{key}: {_format_arg(item)}" for key, item in arg.items())
        return f"{{{items}}}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """One operation of a `Graph`, and the value that it computes.

    Args:
        graph: the Graph that it is of.
        name: name of the value, unique in the graph.
        op: `placeholder` (an argument of the program), `get_attr` (a parameter, buffer or module by its path),
            `call_function`, `call_module`, `call_method` (on the first of `args`), or `output` (what is returned).
        target: the function that is called; else the name of argument, attribute, module or method.
        args: positional arguments: numbers, strings, Nodes, and lists, tuples, dicts and slices of them.
        kwargs: keyword arguments.
        return_type: annotation of the value, or None.

    Programs make nodes by the methods of Graph.

    >>> import plugrad as torch
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
    >>> for node in graph.nodes:
    ...     print(node.op, node.name, node.args)
    placeholder x ()
    call_function relu (x,)
    call_function add (relu, 1)
    output output (add,)
    """

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op not in OPCODES:
            raise AssertionError(f"op '{op}' is not one of {', '.join(OPCODES)}")
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {plugrad.typename(target)} "
                f"but a {'Callable' if op == 'call_function' else 'str'} is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased, self._repr_fn = False, None
        self._args, self._kwargs = (), immutable_dict()
        self._set_arguments(args, kwargs)

    def _set_arguments(self, args, kwargs) -> None:
        for one in self._input_nodes:
            one.users.pop(self, None)
        self._input_nodes = {}

        def note(one):
            self._input_nodes.setdefault(one)
            one.users.setdefault(self)
            return one

        self._args, self._kwargs = map_arg(tuple(args), note), map_arg(dict(kwargs), note)

    args = property(lambda self: self._args, lambda self, args: self._set_arguments(args, self._kwargs))
    args.__doc__ = "The positional arguments; assign a new tuple to change them."
    kwargs = property(lambda self: self._kwargs, lambda self, kwargs: self._set_arguments(self._args, kwargs))
    kwargs.__doc__ = "The keyword arguments; assign a new dict to change them."

    @property
    def next(self) -> Node:
        """The node behind it."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self._prev

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among its arguments, each once, in their order."""
        return list(self._input_nodes)

    @property
    def stack_trace(self) -> str | None:
        """Where the program computes it, if the tracer has `record_stack_traces`."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace) -> None:
        self.meta["stack_trace"] = trace

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Move a node of the same graph to the place before this one."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            warnings.warn("Trying to prepend a node to itself. This behavior has no effect on the graph.", stacklevel=2)
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move a node of the same graph to the place behind this one."""
        self._next.prepend(x)

    def __lt__(self, other):
        """Whether it stands before another node of its graph."""
        step = self._next
        while step is not other and step.op != "root":
            step = step._next
        return step is other and self is not other

    __gt__ = lambda self, other: other < self  # noqa: E731
    __le__ = lambda self, other: self is other or self < other  # noqa: E731
    __ge__ = lambda self, other: self is other or other < self  # noqa: E731

    def update_arg(self, idx: int, arg) -> None:
        """Replace one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg) -> None:
        """Insert a positional argument before that of an index."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg) -> None:
        """Replace or add one keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def __repr__(self):
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target) -> str:
        if isinstance(target, str):
            return target
        module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
        if name is not None and module in ("builtins", "_operator"):
            return f"{module.lstrip('_')}.{name}"
        return qualified_name(target)

    def format_node(self, placeholder_names=None, maybe_return_typename=None, *, include_tensor_metadata=False):
        """Return the line of a printed graph that shows the node.

        Args:
            placeholder_names: list that gets the text of a placeholder, for which None is returned then.
            maybe_return_typename: list whose first element becomes the annotation of an output.
            include_tensor_metadata: whether dtype, shape, strides and device of `meta["val"]` are shown.
        """
        kind = f"{type_name(self.type)} " if self.type is not None else ""
        start = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(self.target + (f"{self.target}: {type_name(self.type)}" if self.type else ""))
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{start}[target={self.target}]{default}"
        if self.op == "output":
            return f"return {self.args[0]}"
        target = self._pretty_print_target(self.target)
        if self.op == "get_attr":
            return f"{start}[target={target}]"
        value = self.meta.get("val", self.meta.get("example_value"))
        if include_tensor_metadata and isinstance(value, plugrad.Tensor):
            shown = f"{short_dtype(value.dtype)}{list(value.shape)}{list(value.stride())}{value.device}"
            start = f'%{self.name} : Tensor "{shown}"[num_users={len(self.users)}] = {self.op}'
        return f"{start}[target={target}](args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def replace_all_uses_with(self, replace_with, delete_user_cb=lambda user: True, *, propagate_meta=False):
        """Let this node's users use another one; return the list of them.

        Args:
            replace_with: the other node.
            delete_user_cb: function of a user that says whether it is changed.
            propagate_meta: whether the other node, which must have no `meta`, gets that of this one.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                                     "replace_with already has .meta keys")  # fmt: skip
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if (delete_user_cb or (lambda user: True))(user)]
        for user in changed:
            user._exchange(self, replace_with)
        return changed

    def _exchange(self, old, new) -> None:
        exchange = lambda one: new if one is old else one  # noqa: E731
        self._set_arguments(map_arg(self._args, exchange), map_arg(self._kwargs, exchange))

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another node wherever one is among the arguments."""
        self._exchange(old_input, new_input)

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the call does more than compute its value, so that it stays."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions:
                return True
            name = getattr(self.target, "__name__", "")
            if impure_random and name in _RANDOM and hasattr(self.target, "__op__"):
                return True
            in_place = hasattr(self.target, "__op__") and name.endswith("_") and not name.endswith("__")
            return in_place or bool(self.kwargs.get("inplace"))
        if self.op == "call_method" and self.target.endswith("_") and not self.target.endswith("__"):
            return True
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return bool(getattr(owner.get_submodule(self.target), "_is_impure", False))
        return False

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate)


def short_dtype(dtype) -> str:
    """Return a dtype as annotations show it: `f32`, `i64`, `b8`."""
    text = str(dtype).rpartition(".")[2]
    if text == "bool":
        return "b8"
    if text == "bfloat16":
        return "bf16"
    kind = text.rstrip("0123456789")
    return {"uint": "u", "complex": "c"}.get(kind, kind[:1]) + text[len(kind) :]
