"""What stands for a value while a program is traced: every op on it becomes a node of the graph."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import operator
import sys
import traceback

from plugrad import Tensor
from plugrad.fx._calls import as_called, instructions_at
from plugrad.fx.graph import Graph, magic_methods, reflectable_magic_methods
from plugrad.fx.node import base_types, map_aggregate, map_arg
from plugrad.nn import Parameter
from plugrad.overrides import watch_classes

__all__ = [
    "Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager", "TraceError",
    "TracerBase",
]  # fmt: skip

watch_classes()  # proxies are no Tensors: composite ops must ask for their overrides, too


class TraceError(ValueError):
    """A program asked for the value of what is being traced: there is none yet."""


class Scope:
    """The module whose forward is being traced: its path, and its class."""

    def __init__(self, module_path: str, module_type):
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Sets a Scope to another module for the `with` block."""

    def __init__(self, scope: Scope, current_scope: Scope):
        self._scope, self._before = scope, copy.copy(scope)
        vars(scope).update(vars(current_scope))

    def __enter__(self):
        return self._scope

    def __exit__(self, *exception):
        vars(self._scope).update(vars(self._before))


class TracerBase:
    """What proxies ask of their tracer: nodes, and what control flow on them means.

    Attributes:
        graph: the Graph that nodes are added to.
        record_stack_traces: whether nodes note where the program computes them.
        trace_asserts: whether `assert` of a proxy becomes a node.
        proxy_buffer_attributes: whether buffers become nodes where a module reads them.
    """

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def __init__(self):
        self.scope = Scope("", None)
        self.module_stack: collections.OrderedDict = collections.OrderedDict()
        self.node_name_to_scope: dict = {}

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Add a node to the graph, with its module as `meta["nn_module_stack"]`."""
        if kind == "call_function" and self.check_mutable_operations and _writes(target, kwargs):
            form = ".out" if "out" in kwargs else ""
            raise RuntimeError(
                f"Tried to trace mutable operation aten::{target.__name__}{form}. FX only supports functional code"
            )
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            frames = traceback.extract_stack(sys._getframe(1))
            start = next((i for i, one in enumerate(frames) if one.name == "forward"), len(frames))
            own = [one for one in frames[start:] if not one.filename.startswith("<plugrad") and one.line]
            if own:
                node.stack_trace = "".join(traceback.StackSummary.from_list(own).format()).strip()
        return node

    def proxy(self, node):
        """Return the Proxy of a node."""
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        """Add a node whose arguments hold proxies, and return its Proxy."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a):
        """Return a value of the traced program as an argument of nodes.

        NotImplementedError for what can be none.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(item) for key, item in a.items()}
        if isinstance(a, (slice, range)):
            return type(a)(*[self.create_arg(item) for item in (a.start, a.stop, a.step)])
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {one.name: self.create_arg(getattr(a, one.name)) for one in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if isinstance(a, (*base_types, enum.Enum)) or a is None or a is ...:
            return a
        raise NotImplementedError(
            f"argument of type: {type(a)}: nodes take numbers, strings, tensors, and lists, tuples, dicts and slices "
            "of them; give the class a method __fx_create_arg__(self, tracer), or torch.fx.wrap the function that "
            "makes it"
        )

    def _key(self, key):
        key = key if isinstance(key, str) else self.create_arg(key)
        map_arg(key, _refuse_key)
        return key

    def to_bool(self, obj):
        """Say whether a proxy is true: TraceError, unless a subclass knows."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow: their values are not known while "
            "tracing; give the argument that decides by concrete_args={...}, or put what branches into a function "
            "marked by torch.fx.wrap, or write torch.where"
        )

    def iter(self, obj):
        """Return an iterator over a proxy: TraceError, unless a subclass knows its length."""
        raise TraceError(
            "Proxy object cannot be iterated: how many items it has is not known while tracing, in a loop and as *args "
            "or **kwargs; write `for i in range(n): x[i]` with a number, or torch.fx.wrap the function that loops"
        )

    def keys(self, obj):
        """Return what `.keys()` of a proxy is: a node."""
        return Attribute(obj, "keys")()


def _refuse_key(node):
    raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}")


def _writes(target, kwargs) -> bool:
    name = getattr(target, "__name__", "")
    return "out" in kwargs or hasattr(target, "__op__") and name.endswith("_") and not name.endswith("__")


class GraphAppendingTracer(TracerBase):
    """The tracer of proxies that a program makes itself: it adds nodes to their graph."""

    def __init__(self, graph: Graph):
        super().__init__()
        self.graph = graph


def assert_fn(x) -> None:
    """Raise AssertionError if something is not true."""
    if not x:
        raise AssertionError("Assertion failed")


class Proxy:
    """Stands for the value of a node: what is done with it becomes nodes.

    Ops, methods, operators, attributes and items.

    Its truth, length and items are not known, which TraceError says where a program asks for them.

    >>> import plugrad as torch
    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))
    >>> torch.relu(x) + x[0].sum(dim=1)
    Proxy(add)
    """

    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, k):
        return Attribute(self, k)

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__ = state

    def __deepcopy__(self, memo):
        copied = object.__new__(type(self))
        copied.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()})
        return copied

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        listed, at = instructions_at(sys._getframe(1))
        if listed[at].opname == "UNPACK_SEQUENCE":
            return iter([self[i] for i in range(listed[at].argval)])
        return self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        if self.tracer.trace_asserts:
            listed, at = instructions_at(sys._getframe(1))
            behind = listed[at + 1 : at + 2]
            if listed[at].opname.endswith("IF_TRUE") and behind and behind[0].opname == "LOAD_ASSERTION_ERROR":
                self.tracer.create_proxy("call_function", assert_fn, (self,), {})
                return True
        return self.tracer.to_bool(self)

    def keys(self):
        """Return what `.keys()` of the value is: a Proxy."""
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method, types, args=(), kwargs=None):
        tracers: dict = {}

        def note(item):
            if isinstance(item, Proxy):
                tracers.setdefault(item.tracer)

        map_aggregate((args, dict(kwargs or {})), note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers))
        kind, target, args, kwargs = as_called(orig_method, tuple(args), dict(kwargs or {}))
        name = tracer.graph._target_to_str(target.__name__) if kind == "call_function" else None
        return tracer.create_proxy(kind, target, args, kwargs, name)


class Attribute(Proxy):
    """An attribute of a proxy: a method if it is called, else a node with `getattr`."""

    def __init__(self, root: Proxy, attr: str):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node = None

    @property
    def node(self):
        """The node of the attribute's value, which is added when it is first needed."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The proxy of a parameter whose shape is known.

    `shape`, `size()`, `dim()`, `ndim` and `numel()` are values.
    """

    def __init__(self, tracer, node, name: str, param: Parameter):
        super().__init__(node, tracer)
        if not isinstance(param, Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    shape = property(lambda self: self.param.shape)
    ndim = property(lambda self: self.param.ndim)

    def size(self):
        """Return the shape of the parameter."""
        return self.param.size()

    def dim(self):
        """Return the number of dimensions of the parameter."""
        return self.param.dim()

    def numel(self):
        """Return the number of elements of the parameter."""
        return self.param.numel()

    nelement = numel


def _operator(name):
    target = getattr(operator, name)

    def call(*args):
        return args[0].tracer.create_proxy("call_function", target, args, {})

    return call


def _reflected(name):
    target = getattr(operator, name)

    def call(self, other):
        if isinstance(other, Tensor) and hasattr(Tensor, name.strip("_")):  # the tensor's own method was asked first
            return self.tracer.create_proxy("call_method", name.strip("_"), (other, self), {})
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    return call


for _name in magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name))
for _name in reflectable_magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__r{_name.strip('_')}__", _reflected(_name))
Proxy.__hash__ = object.__hash__
