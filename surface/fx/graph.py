"""The graph of a traced program: its nodes in order, and the code that they are."""

from __future__ import annotations

import contextlib
import copy
import inspect
import warnings

import plugrad
from plugrad import nn
from plugrad.fx._codegen import (
    CodeGen,
    PythonCode,
    _PyTreeCodeGen,
    _PyTreeInfo,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from plugrad.fx._names import Namespace as _Namespace
from plugrad.fx._names import snake_case as _snake_case
from plugrad.fx.node import OPCODES, Node, map_arg

__all__ = [
    "CodeGen", "Graph", "PythonCode", "_PyTreeCodeGen", "_PyTreeInfo", "inplace_methods", "magic_methods",
    "reflectable_magic_methods",
]  # fmt: skip

_NOT_THERE = (
    "Attempted to insert a {} Node with no underlying reference in the owning GraphModule! Call "
    "GraphModule.add_submodule to add the necessary submodule{}"
)
_MORE = (
    ", GraphModule.add_parameter to add the necessary Parameter, or nn.Module.register_buffer to add the necessary "
    "buffer"
)


class _InsertPoint:
    """Sets where nodes are inserted, and puts the place before that back at the end of a `with` block."""

    def __init__(self, graph, insert):
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self):
        return None

    def __exit__(self, *exception):
        self.graph._insert = self.before


class _Nodes:
    """The nodes of a graph, in either direction; nodes may come and go while one walks over them."""

    def __init__(self, graph, backward=False):
        self.graph, self.backward = graph, backward

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root, step = self.graph._root, "_prev" if self.backward else "_next"
        node = getattr(root, step)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, step)

    def __reversed__(self):
        return iter(_Nodes(self.graph, not self.backward))


class Graph:
    """A program as nodes, each of which computes a value from those before it.

    Args:
        owning_module: the GraphModule that runs it, if any.
        tracer_cls: class of the tracer that recorded it, which traces it again where it is unpickled.
        tracer_extras: keyword arguments for that tracer's `trace`.

    >>> import plugrad as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.neg, (x,))
    >>> graph.output(y)
    output
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %neg : [num_users=1] = call_function[target=torch.neg](args = (%x,), kwargs = {})
        return neg
    """

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "", (), {})
        self._insert = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict = {}

    @property
    def nodes(self) -> _Nodes:
        """The nodes, in their order; `reversed` takes them from the end."""
        return _Nodes(self)

    def output_node(self) -> Node:
        """Return the node of the result."""
        last = next(iter(reversed(self.nodes)))
        if last.op != "output":
            raise AssertionError(f"the graph has no output: its last node is {last.op}")
        return last

    def find_nodes(self, *, op: str, target=None, sort: bool = True) -> list[Node]:
        """Return the nodes of an opcode, and of a target if one is given, in their order."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def graph_copy(self, g, val_map: dict, return_output_node: bool = False):
        """Copy another graph's nodes to the insert point; return its result here.

        Args:
            g: the other Graph.
            val_map: dict that gets {its node: the copy}; a node that it has already is not copied.
            return_output_node: whether (the result, the other graph's output node) is returned.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda one: val_map[one])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda one: val_map[one])
        return None

    def __deepcopy__(self, memo=None):
        g = Graph(tracer_cls=self._tracer_cls)
        memo = {} if memo is None else memo
        copied = g.graph_copy(self, memo, return_output_node=True)
        g._codegen, g._co_fields = copy.deepcopy(self._codegen), dict(self._co_fields)
        if copied is not None:
            output = g.output(copied[0], copied[1].type)
            output.meta = copy.copy(copied[1].meta)
        return g

    def create_node(self, op: str, target, args=None, kwargs=None, name=None, type_expr=None) -> Node:
        """Insert a node at the insert point and return it; arguments as for `Node`."""
        args, kwargs = args or (), kwargs or {}
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        name = self._graph_namespace.create_name(name if name is not None else self._target_to_str(target))
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    @staticmethod
    def _target_to_str(target) -> str:
        if not isinstance(target, str) and not callable(target):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        name = getattr(target, "__name__", type(target).__name__) if callable(target) else target
        if name.startswith("__") and name.endswith("__") and not callable(target):
            name = name[2:-2]
        return _snake_case(name)

    def process_inputs(self, *args):
        """Return the values of the placeholders for the arguments of a call."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """Return the result of a call for the value of the output."""
        return self._codegen.process_outputs(out)

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out; RuntimeError if others use its value."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments(map_arg(to_erase.args, lambda one: None), map_arg(to_erase.kwargs, lambda one: None))

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes before one, or before all: from now on, or in a `with` block."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes behind one, or behind all: from now on, or in a `with` block."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def placeholder(self, name: str, type_expr=None, default_value=inspect.Signature.empty) -> Node:
        """Insert an argument of the program."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr=None) -> Node:
        """Insert the look-up of a parameter, buffer or module by its dotted path."""
        if self.owning_module is not None and not _is_registered(self.owning_module, qualified_name):
            warnings.warn(_NOT_THERE.format("get_attr", _MORE), stacklevel=2)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args=None, kwargs=None, type_expr=None) -> Node:
        """Insert the call of a module of the owning module, by its dotted path."""
        if self.owning_module is not None and self.owning_module.get_submodule(module_name) is None:
            warnings.warn(_NOT_THERE.format("call_module", ""), stacklevel=2)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args=None, kwargs=None, type_expr=None) -> Node:
        """Insert the call of a method of the first of `args`."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None) -> Node:
        """Insert the call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def node_copy(self, node: Node, arg_transform=lambda one: one) -> Node:
        """Insert a copy of another graph's node.

        `arg_transform` gives this graph's node for one of that graph.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = copy.copy(node.meta)
        return copied

    def output(self, result, type_expr=None) -> Node:
        """Insert the result of the program."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def python_code(self, root_module: str, *, verbose: bool = False, **options) -> PythonCode:
        """Return the graph as a function in Python.

        Args:
            root_module: name of the variable that holds the module whose parameters and modules are used: "self".
            verbose: whether dtypes, shapes and the places in the traced program are shown.
        """
        namespace = _Namespace()
        before = {node: node._repr_fn for node in self.nodes}
        for node in before:
            node._repr_fn = lambda one: namespace.create_name(one.name, one)
        try:
            return self._python_code(root_module, namespace, verbose=verbose, **options)
        finally:
            for node, shown in before.items():
                node._repr_fn = shown

    def _python_code(self, root_module, namespace, *, verbose=False, **options):
        return self._codegen._gen_python_code(self.nodes, root_module, namespace, verbose=verbose, **options)

    def __str__(self):
        names: list[str] = []
        returns = [""]
        lines = [node.format_node(names, returns) for node in self.nodes]
        return "\n    ".join([f"graph({', '.join(names)}){returns[0]}:", *filter(None, lines)])

    def print_tabular(self) -> None:
        """Print the nodes as a table, by the package `tabulate`."""
        try:
            from tabulate import tabulate
        except ImportError:
            print("`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run "
                  "`pip install tabulate` to install the library.")  # fmt: skip
            raise
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    def lint(self) -> None:
        """Raise RuntimeError for what is wrong with the graph.

        Its order, its names, targets that are not there.
        """
        names, seen = set(), set()
        for node in self.nodes:
            if node.op not in OPCODES:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for one in node._input_nodes:
                if one.graph is not self:
                    raise RuntimeError(
                        f"Argument '{one}' of Node '{node}' does not belong to this Graph, but was used as an "
                        "argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` on "
                        f"node_copy() to remap values\n{self}"
                    )
                if one not in seen:
                    raise RuntimeError(
                        f"Argument '{one}' of Node '{node}' was used before it has been defined! Please check that "
                        f"Nodes in the graph are topologically ordered\n{self}"
                    )
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            if self.owning_module is not None:
                _check_target(self.owning_module, node)

    def eliminate_dead_code(self, is_impure_node=None) -> bool:
        """Erase the nodes whose values nobody uses; return whether there were any.

        Args:
            is_impure_node: function of a node that says whether it stays all the same; `Node.is_impure` by default.
        """
        self.lint()
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not (is_impure_node(node) if is_impure_node else node.is_impure()):
                self.erase_node(node)
        return self._len < before

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let another CodeGen write the code."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        """Change the lines of the code when it is written.

        From now on, or in a `with` block.

        Args:
            make_transformer: function of the present transformer, or None, that returns the new one: a function of the
                list of lines that returns another.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        stack = contextlib.ExitStack()
        stack.callback(setattr, self._codegen, "_body_transformer", before)
        return stack


def _is_registered(module, path) -> bool:
    home, _, name = path.rpartition(".")
    try:
        owner = module.get_submodule(home)
    except AttributeError:
        warnings.warn(f"Failed to fetch module {home}!", stacklevel=3)
        return False
    return isinstance(getattr(owner, name, None), (nn.Module, nn.Parameter)) or name in owner._buffers


def _check_target(module, node) -> None:
    if not (callable(node.target) if node.op == "call_function" else isinstance(node.target, str)):
        wanted = "Callable" if node.op == "call_function" else "str"
        raise ValueError(
            f"Node {node} target {node.target} has type {plugrad.typename(node.target)} but a {wanted} is expected"
        )
    if node.op not in ("get_attr", "call_module"):
        return
    place, path = module, node.target.split(".")
    for i, name in enumerate(path):
        place, home = getattr(place, name, None), ".".join(path[:i])
        if place is None:
            raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {name} of {home}")
        if node.op == "call_module" and not isinstance(place, nn.Module):
            raise RuntimeError(f"Node {node} target {node.target} {name} of {home} does not reference an nn.Module")
