"""Running a graph node by node: `Interpreter`, and `Transformer`, which makes another graph of it."""

from __future__ import annotations

from plugrad import nn
from plugrad.fx._symbolic_trace import Tracer
from plugrad.fx.graph import Graph
from plugrad.fx.graph_module import GraphModule
from plugrad.fx.node import map_aggregate, map_arg
from plugrad.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a GraphModule node by node; a subclass overrides what an opcode does.

    Args:
        module: the GraphModule.
        garbage_collect_values: whether values that no later node needs are dropped.
        graph: another graph than the module's.

    >>> import plugrad as torch
    >>> class Counting(torch.fx.Interpreter):
    ...     calls = 0
    ...     def call_function(self, target, args, kwargs):
    ...         self.calls += 1
    ...         return super().call_function(target, args, kwargs)
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> counting = Counting(traced)
    >>> counting.run(torch.ones(1)), counting.calls
    (tensor([2.]), 2)
    """

    def __init__(self, module: nn.Module, garbage_collect_values: bool = True, graph: Graph | None = None):
        self.module, self.graph = module, module.graph if graph is None else graph
        self.submodules = dict(module.named_modules())
        self.env: dict = {}
        self.name, self.extra_traceback = "Interpreter", True
        self.garbage_collect_values = garbage_collect_values
        self.user_to_last_uses: dict = {}
        seen = set()
        for node in reversed(self.graph.nodes) if garbage_collect_values else ():
            for one in node._input_nodes:
                if one not in seen:
                    seen.add(one)
                    self.user_to_last_uses.setdefault(node, []).append(one)

    def run(self, *args, initial_env: dict | None = None, enable_io_processing: bool = True):
        """Return the result of the graph for some arguments.

        Args:
            args: values of the placeholders.
            initial_env: {node: value} of nodes that are not run.
            enable_io_processing: whether nested arguments are taken apart, and nested results put together.

        An error gets the node at which it happened as part of its message.
        """
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    said = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
                    error.args = (f"{error.args[0]}\n\n{said}" if error.args else said, *error.args[1:])
                    if isinstance(error, KeyError):
                        raise RuntimeError(*error.args) from error
                raise
            for one in self.user_to_last_uses.get(node, ()):
                del self.env[one]
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def boxed_run(self, args_list: list):
        """Return the result for a list of arguments, which is emptied.

        So they can be freed early.
        """
        nodes = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(args_list) != len(nodes):
            what = "extra" if len(args_list) > len(nodes) else "missing"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(nodes)} arguments for placeholders but received "
                f"{len(args_list)} ({what} arguments)"
            )
        env = dict(zip(nodes, args_list))
        args_list.clear()
        return self.run(initial_env=env)

    def run_node(self, n):
        """Return the value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple, kwargs: dict):
        """Return the next of the arguments, or all that are left for `*args`."""
        if target.startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: str, args: tuple, kwargs: dict):
        """Return what the module has at a dotted path."""
        return self.fetch_attr(target)

    def call_function(self, target, args: tuple, kwargs: dict):
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple, kwargs: dict):
        """Call a method of the first argument."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict):
        """Call the module at a dotted path."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple, kwargs: dict):
        """Return the result."""
        return args[0]

    def fetch_attr(self, target: str):
        """Return what the module has at a dotted path; RuntimeError if there is nothing."""
        value, path = self.module, target.split(".")
        for i, name in enumerate(path):
            if not hasattr(value, name):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(path[: i + 1])}: the module has no {name} there"
                )
            value = getattr(value, name)
        return value

    def fetch_args_kwargs_from_env(self, n) -> tuple:
        """Return (args, kwargs) of a node with the values of the nodes in them."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        """Return an argument with the values of the nodes in it."""

        def value(one):
            if one not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {one}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[one]

        return map_arg(args, value)


# What a node's `meta` says of its place in the program, and not of its value.
_OF_PLACE = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "original_aten", "recompute", "custom")


class _TransformerTracer(Tracer):
    def __init__(self, graph):
        super().__init__()
        self.graph, self.root = graph, nn.Module()

    def is_leaf_module(self, m, module_qualified_name):
        return True


class Transformer(Interpreter):
    """Runs a graph on proxies: what a subclass does becomes a new graph.

    >>> import plugrad as torch
    >>> class NegSigmoid(torch.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return torch.neg(*args) if target is torch.sigmoid else super().call_function(target, args, kwargs)
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.sigmoid(x))
    >>> NegSigmoid(traced).transform()(torch.ones(1))
    tensor([-1.])
    """

    def __init__(self, module: nn.Module):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)

    def run_node(self, n):
        """Return the proxy of a node's copy, which keeps the node's place noted."""
        before = self.new_graph._len
        result = super().run_node(n)
        if isinstance(result, Proxy) and self.new_graph._len > before:
            kept = {key: n.meta[key] for key in _OF_PLACE if key in n.meta}
            result.node.meta = {**kept, **result.node.meta}
        return result

    def placeholder(self, target: str, args: tuple, kwargs: dict):
        """Return the proxy of an argument of the new graph."""
        default = {"default_value": next(iter(args))} if args else {}
        return Proxy(self.new_graph.placeholder(target, **default), self.tracer)

    def get_attr(self, target: str, args: tuple, kwargs: dict):
        """Return the proxy of a parameter or buffer of the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict):
        """Return what the call of a module is: a node of the new graph."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target, args: tuple, kwargs: dict):
        """Return the proxy of a function's call."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the module of the new graph."""
        self.tracer.root, self.tracer.submodule_paths = self.module, None
        result = super().run(enable_io_processing=False)
        if result is not None:
            strip = lambda value: value.node if isinstance(value, Proxy) else value  # noqa: E731
            old = self.graph.output_node()
            new = self.new_graph.output(map_aggregate(result, strip), old.type)
            new.meta = dict(old.meta)
        return GraphModule(self.module, self.new_graph)
