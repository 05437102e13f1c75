"""Tracing: a program runs once with proxies in the place of its arguments, and what it does becomes a graph."""

from __future__ import annotations

import copy
import inspect
import math
import threading
import types
import warnings
from itertools import chain

from plugrad import Tensor, _assert, nn
from plugrad.fx._codegen import _PyTreeCodeGen, _PyTreeInfo
from plugrad.fx._names import as_torch
from plugrad.fx._patching import Patches, find_proxy, tracing
from plugrad.fx.graph import Graph
from plugrad.fx.node import base_types
from plugrad.fx.proxy import ParameterProxy, Scope, ScopeContextManager, TracerBase
from plugrad.nn import Parameter
from plugrad.utils import _pytree as pytree

__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "is_fx_symbolic_tracing", "is_fx_tracing"]

_proxyable_classes: dict = {}
_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class _State(threading.local):
    tracing = False


_state = _State()


def is_fx_tracing() -> bool:
    """Whether a program is being traced, by this thread."""
    return _state.tracing


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """Metaclass of classes that traces can call: `C(proxy)` becomes one node."""

    def __init__(cls, name, bases, attrs):
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        proxy = find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PHBase:
    """Stands in `concrete_args` for a value that stays an argument of the graph."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A PHBase whose attributes the node of the argument gets."""

    def __init__(self, ph_key: str | None = None):
        super().__init__()
        self.ph_key = ph_key


def _transfer(placeholder, node) -> None:
    for name in dir(placeholder):
        value = getattr(placeholder, name)
        if not callable(value) and not name.startswith("__") and not hasattr(node, name):
            setattr(node, name, value)


def _assert_is_none(value, msg):
    assert value is None, msg


class Tracer(TracerBase):
    """Records programs as graphs; methods that subclasses override say how.

    Args:
        autowrap_modules: modules whose functions, such as `math.sqrt`, become one node each.
        autowrap_functions: further functions that do.
        param_shapes_constant: whether shapes of parameters are values that the program can branch on.

    >>> import plugrad as torch
    >>> class Whole(torch.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return True
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    >>> print([node.target for node in Whole().trace(model).nodes])
    ['input', '0', '1', 'output']
    """

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        super().__init__()
        functions = chain.from_iterable(vars(module).items() for module in autowrap_modules)
        self._autowrap_function_ids = {id(f) for name, f in functions if not name.startswith("_") and callable(f)}
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict | None = None
        self.root_module_name = ""
        self.num_calls: dict[str, int] = {}
        self.tensor_attrs: dict = {}

    def __deepcopy__(self, memo):
        copied = type(self).__new__(type(self))
        kept = {"_autowrap_search": list(self._autowrap_search)}
        own = {key: value for key, value in vars(self).items() if key not in kept}
        vars(copied).update(kept, **{key: copy.deepcopy(value, memo) for key, value in own.items()})
        return copied

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name with this beginning and a number that the root has not yet."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def create_arg(self, a):
        """Return a value of the program as an argument of nodes.

        Parameters, buffers and modules are looked up in the root; other tensors become attributes of it.
        """
        if isinstance(a, Parameter):
            return self._registered(a, self.root.named_parameters(), "parameter is not a member of this module")
        if isinstance(a, (Tensor, nn.Module)):
            named = self.root.named_modules() if isinstance(a, nn.Module) else self.root.named_buffers()
            node = self._registered(a, named)
            if node is not None:
                return node
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple([self.create_arg(item) for item in a]), {})
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._constant(a, "_tensor_constant", id(a)), (), {})
        if type(a) in _proxyable_classes:
            return self.create_node("get_attr", self._constant(a, f"_{type(a).__name__}_constant_", None), (), {})
        return super().create_arg(a)

    def _registered(self, value, named, missing=None):
        for name, one in named:
            if one is value:
                return self.create_node("get_attr", name, (), {})
        if missing is not None:
            raise NameError(missing)
        return None

    def _constant(self, value, prefix, key) -> str:
        """Return the name of the root's attribute that is a value; it becomes one if there is none."""
        name = self.tensor_attrs.get(key, (None,))[0]
        if name is None:
            name = self.get_fresh_qualname(prefix)
            setattr(self.root, name, value)
            if key is not None:
                self.tensor_attrs[key] = (name, value)
        return name

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module's call is one node: the layers of `torch.nn`, save Sequential."""
        home = as_torch(type(m).__module__)
        return home.startswith(("torch.nn", "torch.plugins.")) and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the dotted path of a module below the root; NameError if it is not there."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, one in self.root.named_modules() if one is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(self, m: nn.Module, forward, args, kwargs):
        """Return the result of a module's call: a node, or its `forward`, traced."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            self.num_calls[path] = calls + 1
            self.module_stack[f"{path}@{calls}" if calls else path] = (path, type(m))
            try:
                if not self.is_leaf_module(m, path):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", path, args, kwargs)
            finally:
                self.module_stack.popitem(last=True)

    def getattr(self, attr: str, attr_val, parameter_proxy_cache: dict):
        """Return a module's attribute while tracing: a proxy for each parameter."""
        if isinstance(attr_val, Parameter):
            named = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            named = self.root.named_buffers()
        else:
            return attr_val
        for name, one in named:
            if one is attr_val:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self._attribute(name, one)
                return parameter_proxy_cache[name]
        return attr_val

    def _attribute(self, name, value):
        if not self.param_shapes_constant or not isinstance(value, Parameter):
            return self.create_proxy("get_attr", name, (), {})
        factory = lambda node: ParameterProxy(self, node, name, value)  # noqa: E731
        return self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=factory)

    # ------------------------------------------------------------------------------------------ arguments

    def create_args_for_root(self, root_fn, is_module: bool, concrete_args=None):
        """Return (function, its arguments): placeholders by the function's signature."""
        analysed = inspect.unwrap(root_fn)
        code = analysed.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        args, names = [], list(code.co_varnames)
        if is_module:
            if count == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            args.append(self.root)
        start = len(args)
        variadic = code.co_flags & _VARIADIC
        if isinstance(concrete_args, tuple) and concrete_args and variadic and count == 1:
            for i, given in enumerate(concrete_args):
                args.append(self.create_proxy("placeholder", f"input_{i}", (), {}))
                if isinstance(given, PHBase) and given is not PH:
                    _transfer(given, args[-1].node)
            return root_fn, args
        if isinstance(concrete_args, tuple):
            if count - start != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {count - start} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names[start:count], concrete_args))
        signature = inspect.signature(analysed)
        further = []
        if code.co_flags & inspect.CO_VARARGS:
            further.append(f"*{names[count]}")
        if code.co_flags & inspect.CO_VARKEYWORDS:
            further.append(f"**{names[count + len(further)]}")
        for name in (*names[start:count], *further):
            args.append(self._placeholder(name, concrete_args, signature, analysed))
        if code.co_kwonlyargcount or variadic:
            root_fn = _all_positional(root_fn, len(args))
        return self._flattened(root_fn, args, names[:count])

    def _flattened(self, root_fn, args, names):
        """Return (function of the leaves, leaves) where concrete arguments are nested, else what is given."""
        leaves, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children_specs):
            return root_fn, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

        def of_leaves(*leaves):
            result, out_spec = pytree.tree_flatten(root_fn(*pytree.tree_unflatten(list(leaves), spec)))
            self.graph._codegen.pytree_info = self.graph._codegen.pytree_info._replace(out_spec=out_spec)
            return result

        return of_leaves, leaves

    def _placeholder(self, name, concrete_args, signature, analysed):
        parameter = signature.parameters.get(name)
        default = () if parameter is None or parameter.default is inspect.Parameter.empty else (parameter.default,)
        if concrete_args is None or name not in concrete_args:
            annotation = analysed.__annotations__.get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)
        number = 0

        def concrete(value):
            nonlocal number
            number += 1
            out = self.create_proxy("placeholder", f"{name}_{number}", default, {})
            if isinstance(value, PHBase):
                if value is not PH:
                    _transfer(value, out.node)
                return out
            said = f"{name} has been specialized to have value {value} but got another value"
            if type(value) in base_types and not isinstance(value, Tensor):
                _assert(out == value, said)
            elif value is None:
                self.create_proxy("call_function", _assert_is_none, (out, said), {})
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is "
                    "up to the user to make sure that your inputs match the inputs you specialized the function with.",
                    stacklevel=2,
                )
            return value

        return pytree.tree_map(concrete, concrete_args[name])

    # ------------------------------------------------------------------------------------------ the trace

    def trace(self, root, concrete_args=None) -> Graph:
        """Return the graph of a module or function.

        Args:
            root: an nn.Module, whose `forward` is traced, or a function.
            concrete_args: {name: value} of arguments that have these values in the graph, or a tuple of all.

        Raises TraceError where the program branches on values.
        """
        before, _state.tracing = _state.tracing, True
        try:
            return self._trace(root, concrete_args)
        finally:
            _state.tracing = before
            self.submodule_paths = None

    def _trace(self, root, concrete_args):
        is_module = isinstance(root, nn.Module)
        self.root, function = root if is_module else nn.Module(), root
        if is_module:
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        self.graph = Graph(tracer_cls=type(self))
        code = getattr(function, "__code__", None)
        if code is not None:
            self.graph._co_fields = {f"co_{name}": getattr(code, f"co_{name}") for name in
                                     ("name", "filename", "firstlineno")}  # fmt: skip
        self.tensor_attrs = {
            id(value): (f"{prefix}.{name}" if prefix else name, value) for prefix, module in self.root.named_modules()
            for name, value in vars(module).items() if isinstance(value, Tensor)
        }  # fmt: skip
        if not isinstance(function, types.FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        names = function.__globals__
        function, args = self.create_args_for_root(function, is_module, concrete_args)
        returns = inspect.unwrap(function).__annotations__.get("return")
        proxies: dict = {}

        def read(original, module, name):
            return self.getattr(name, original(module, name), proxies)

        def call(original, module, *args, **kwargs):
            forward = getattr(module, "forward", module)
            patches.search(getattr(forward, "__globals__", {}), self._autowrap_function_ids)
            return self.call_module(module, lambda *a, **k: original(module, *a, **k), args, kwargs)

        with tracing, Patches() as patches:
            patches.of_modules("__getattr__", read)
            patches.of_modules("__call__", call)
            patches.wrapped()
            for namespace in (names, *map(vars, self._autowrap_search)):
                patches.search(namespace, self._autowrap_function_ids)
            result = self.create_arg(function(*args))
            self.create_node("output", "output", (result,), {}, type_expr=returns)
        return self.graph


def _all_positional(function, count):
    """Return a function of which *args, **kwargs and keyword-only arguments are plain ones."""
    code = function.__code__
    flags = code.co_flags & ~_VARIADIC
    code = code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags)
    names, defaults, closure = function.__globals__, function.__defaults__, function.__closure__
    return types.FunctionType(code, names, function.__name__, defaults, closure)
