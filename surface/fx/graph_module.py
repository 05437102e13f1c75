"""A module that runs a graph: `GraphModule`."""

from __future__ import annotations

import copy
import itertools
import linecache
import pathlib
import sys
import traceback

from plugrad import Tensor, nn
from plugrad.fx._codegen import _PyTreeCodeGen
from plugrad.fx._names import custom_builtins
from plugrad.fx._tracer import Tracer
from plugrad.fx.graph import Graph

__all__ = ["GraphModule", "reduce_graph_module"]

_number = itertools.count().__next__
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def _function_from(source: str, names: dict, origin: dict | None = None):
    """Return the function `forward` of some source; tracebacks show its lines, and the function that was traced."""
    file = f"<eval_with_key>.{_number()}"
    if origin:
        file += f" from {origin['co_filename']}:{origin['co_firstlineno']} in {origin['co_name']}"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = dict(names)
    exec(compile(source, file, "exec", dont_inherit=True), names)  # the code that a graph is, or that pickle brought
    return names["forward"]


def _imports(names: dict) -> str:
    """Return import statements for the global names of generated code."""
    lines = set()
    for name, value in names.items():
        if name in custom_builtins:
            lines.add(custom_builtins[name].import_str)
            continue
        home, own = value.__module__, getattr(value, "__qualname__", name)
        if "." in own:
            raise RuntimeError(f"{value} can't be imported by its name: it is not at the top level of {home}")
        lines.add(f"from {home} import {own} as {name}")
    return "\n".join(sorted(lines))


class _CodeOnlyModule(nn.Module):
    """Holds what a GraphModule had, without its graph, while that is traced again."""

    def __init__(self, body):
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict, import_block: str):
    """Return the GraphModule of pickled attributes and code, traced anew."""
    forward = _function_from(import_block + (body.get("_code") or body["code"]), {})
    own = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})
    module = own(body)
    tracer_cls = body.get("_tracer_cls") or Tracer
    keeping = type("KeepModules", (tracer_cls,), {"is_leaf_module": lambda self, module, path: True})
    graph = keeping().trace(module, **body.get("_tracer_extras", {}))
    graph._tracer_cls = tracer_cls
    restored = GraphModule(module, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(restored, name):
            setattr(restored, name, value)
    return restored


def _place(module, path: str):
    """Return the module at a dotted path; modules that are not there are put there."""
    for name in path.split(".") if path else ():
        below = getattr(module, name, None)
        if below is None:
            below = nn.Module()
            setattr(module, name, below)
        module = below
    return module


def _set(module, name, value) -> None:
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def _copy_attr(source, target, path: str) -> None:
    """Put what stands at a dotted path of one module at that of another, if it is not there."""
    *homes, name = path.split(".")
    for home in homes:
        source, below = getattr(source, home), getattr(target, home, None)
        if source is below:
            return
        target = _place(target, home)
    _set(target, name, getattr(source, name))


class _WrappedCall:
    """Calls a GraphModule, and shows the line of the generated code where an error came from."""

    def __init__(self, cls, cls_call):
        self.cls, self.cls_call = cls, cls_call

    @staticmethod
    def _generate_error_message(frame) -> str:
        lines, at = linecache.getlines(frame.filename), frame.lineno
        said = f"Call using an FX-traced Module, line {at} of the traced Module's generated forward function:"
        marker = "~" * len(frame.line) + "~~~ <--- HERE"
        text = ["".join(lines[at - 2 : at]), marker, "\n".join(lines[at : at + 2])]
        return "\n".join([traceback.format_exc(), said, *text])

    def __call__(self, obj, *args, **kwargs):
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)
        except Exception as error:
            frames = [one for one in traceback.extract_tb(error.__traceback__) if "<plugrad" not in one.filename]
            own = [one for one in frames if not _is_ours(one.filename)]
            if own and "eval_with_key" in own[-1].filename:
                print(self._generate_error_message(own[-1]), file=sys.stderr)
            raise


def _is_ours(file) -> bool:
    homes = {pathlib.Path(module.__file__).parent for name in _HOMES if (module := sys.modules.get(name)) is not None}
    return any(home in pathlib.Path(file).parents for home in homes)


_HOMES = ("plugrad", "plugrad.fx", "plugrad.plugins")


class GraphModule(nn.Module):
    """A module whose `forward` is a graph, as Python code.

    Args:
        root: the module that parameters, buffers and modules of the graph are taken from by their paths, or a dict of
            them.
        graph: the Graph. After changes of it, `recompile()`.
        class_name: name of the module's class.

    >>> import plugrad as torch
    >>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    >>> for node in traced.graph.nodes:
    ...     if node.op == "call_module" and node.target == "1":
    ...         node.target = "0"
    >>> code = traced.recompile()
    >>> print(traced.code.strip())
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1);  input_1 = None
        _1 = getattr(self, "0")(_0);  _0 = None
        return _1
    """

    def __new__(cls, *args, **kwargs):
        base = next(one for one in cls.__mro__ if one.__qualname__.rpartition(".")[2] != "GraphModuleImpl")
        own = type("GraphModuleImpl", (base,), {"__module__": base.__module__})
        own.__qualname__ = "GraphModule.__new__.<locals>.GraphModuleImpl"  # each has a class, which holds its forward
        return super().__new__(own)

    def __init__(self, root, graph: Graph, class_name: str = "GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        paths = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, nn.Module):
            self.training = getattr(root, "training", self.training)
            if isinstance(root, _CodeOnlyModule):
                for named in (root.named_children(), root.named_buffers(), root.named_parameters()):
                    for name, _ in list(named):
                        _copy_attr(root, self, name)
            for path in paths:
                _copy_attr(root, self, path)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for path in sorted(paths, key=lambda path: path.count(".")):
                home, _, name = path.rpartition(".")
                _set(_place(self, home), name, root[path])
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        tracer_cls = graph._tracer_cls
        self._tracer_cls = tracer_cls if tracer_cls and "<locals>" not in tracer_cls.__qualname__ else None
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict = {}

    @property
    def graph(self) -> Graph:
        """The graph that it runs; assigning another one compiles it."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python code of `forward`."""
        if not hasattr(self, "_code"):
            raise RuntimeError("there is no code yet: call recompile()")
        return self._code

    def recompile(self):
        """Make `forward` anew from the graph, after changes of it; return its PythonCode."""
        if isinstance(self._graph._codegen, _PyTreeCodeGen):
            _, self._in_spec, self._out_spec = self._graph._codegen.pytree_info
        python_code = self._graph.python_code(root_module="self")
        self._code, self._lineno_map = python_code.src, python_code._lineno_map
        self._prologue_start = python_code._prologue_start
        cls = type(self)
        cls.forward = _function_from(self._code, python_code.globals, self._graph._co_fields)
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))
            cls.__call__ = lambda self, *args, **kwargs: self._wrapped_call(self, *args, **kwargs)
        for module in self.children():
            if isinstance(module, GraphModule):
                module.recompile()
        return python_code

    # ------------------------------------------------------------------------------------------ its modules

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Put a module at a dotted path; False where what is on the way is no module."""
        *homes, name = target.split(".")
        place = self
        for home in homes:
            below = getattr(place, home, None)
            if below is None:
                below = nn.Module()
                setattr(place, home, below)
            if not isinstance(below, nn.Module):
                return False
            place = below
        place.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take out the module at a dotted path; False if there is none.

        Nodes that call it stay.
        """
        home, _, name = target.rpartition(".")
        try:
            place = self.get_submodule(home)
        except AttributeError:
            return False
        if not isinstance(getattr(place, name, None), nn.Module):
            return False
        delattr(place, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out the modules that no node calls, or reads something of."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:i]) for i in range(len(parts) + 1))
                if node.op == "call_module":
                    below = self.get_submodule(node.target)
                    used.update(f"{node.target}.{name}" for name, _ in below.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # ------------------------------------------------------------------------------------------ copies

    def __reduce__(self):
        names = self.recompile().globals
        body = {name: value for name, value in self.__dict__.items() if name != "_graph"}
        return reduce_graph_module, ({**body, "_graphmodule_cls_name": type(self).__name__}, _imports(names))

    def _deepcopy_init(self):
        return GraphModule.__init__

    def __deepcopy__(self, memo):
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        held = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(copied, held, held.__dict__["_graph"])
        type(copied).__name__ = type(self).__name__ if type(self).__name__ != "GraphModuleImpl" else "GraphModule"
        copied.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in copied.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(copied, name, value)
        return copied

    def __copy__(self):
        copied = GraphModule(self, self.graph)
        copied.meta = getattr(self, "meta", {})
        return copied

    def to_folder(self, folder, module_name: str = "FxModule") -> None:
        """NotImplementedError: save the state_dict, and `code`, or pickle the module."""
        raise NotImplementedError(
            "GraphModule.to_folder writes code that builds the modules from their repr: pickle the GraphModule, or "
            "save its state_dict and its code"
        )

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False,
                       colored: bool = False, **options) -> str:  # fmt: skip
        """Return, and print, the code with dtypes, shapes and places in the program.

        With that of modules below it.
        """
        text = _readable(self, self._get_name())
        if print_output:
            print(text)
        return text

    def __str__(self):
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])


def _indented(text: str) -> str:
    """Return a text with all lines but the first moved to the right."""
    first, *lines = text.split("\n")
    return "\n".join([first, *(f"    {line}" for line in lines)])


def _readable(module, name) -> str:
    code = module.graph.python_code("self", verbose=True).src.lstrip("\n")
    below = [_readable(one, name) for name, one in module.named_children() if isinstance(one, GraphModule)]
    return _indented(f"class {name}(torch.nn.Module):\n{code}") + _indented("\n".join(["", *below]))
