"""Script modules and script functions: what `script`, `trace` and `load` return."""

from __future__ import annotations

import copy
import functools
import re

from plugrad import nn
from plugrad.jit import printing
from plugrad.jit.decorators import Attribute
from plugrad.jit.errors import OF_PYTHON, failed
from plugrad.jit.graph import Graph
from plugrad.jit.objects import handed_out
from plugrad.jit.texts import functions_in, names_of_caller
from plugrad.jit.traced import current, untraced
from plugrad.jit.types import accepted, classes_in
from plugrad.jit.units import LayerUnit, ModuleUnit, StagedUnit, modifier, own_state, public_layer
from plugrad.jit.writing import save
from plugrad.regions import mode

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptModule", "TopLevelTracedModule", "layer_class", "stage"]


class ScriptFunction:
    """A staged function: `code` and `graph` show it, `save` writes it to a file."""

    __module__ = "plugrad.jit"

    def __init__(self, program, original=None):
        self._staged = program
        self._run = program.functions[program.name]
        self._original = original
        self._tensors = [value for name, value in self._run.__globals__.items() if hasattr(value, "requires_grad")]
        self.__name__ = self.__qualname__ = program.name
        self.__doc__ = getattr(original, "__doc__", None)

    def __call__(self, *args, **kwargs):
        signature = self._staged.signatures[self._staged.name]
        bound = signature.bind(args, kwargs)
        try:
            if mode.tracing:
                return self._noted(bound)
            result = self._run(*bound)
            return handed_out(result) if signature.gives_objects else result
        except OF_PYTHON as error:
            raise failed(self.name, error) from error

    def _noted(self, bound):
        """Run in a trace, which notes the call of the whole function."""
        tracer = current()
        with untraced():
            result = self._run(*bound)
        return tracer.staged_function(self._staged, bound, result)

    def __repr__(self):
        return f"<plugrad.jit.ScriptFunction {self.name}>"

    def __reduce__(self):
        raise RuntimeError("a script function is saved by torch.jit.save, not pickled")

    def __deepcopy__(self, memo):
        return self

    @property
    def name(self) -> str:
        """The function's name."""
        return self._staged.name

    @property
    def signature(self):
        """The function's arguments and the type of its result."""
        return self._staged.signatures[self._staged.name]

    @property
    def schema(self) -> str:
        """The signature, as TorchScript writes it."""
        return str(self.signature)

    @property
    def code(self) -> str:
        """The function as text, in Python's syntax."""
        return printing.code(self._staged, self.name)

    @property
    def graph(self):
        """The function as a list of nodes."""
        return Graph(self._staged, self.name)

    inlined_graph = graph

    def save(self, f, _extra_files=None) -> None:
        """Write the function to a file; see `torch.jit.save`."""
        save(self, f, _extra_files)


class _Compiling(type):
    """The class of ScriptModule: what a class of a program's own makes is compiled as soon as it is made."""

    def __call__(cls, *args, **kwargs):
        module = super().__call__(*args, **kwargs)
        return module if issubclass(cls, RecursiveScriptModule) else stage(module).script


class ScriptModule(nn.Module, metaclass=_Compiling):
    """Base of staged modules, which train and run without their class's source.

    `torch.jit.script(module)` makes one. In a class that derives from this one the methods marked by
    `@torch.jit.script_method` are compiled when `__init__` has run; the others stay Python's.
    """

    def __setattr__(self, name, value):
        if isinstance(value, Attribute):  # until it is compiled the attribute is the value
            self.__dict__.setdefault("_types", {})[name] = value.type
            value = value.value
        super().__setattr__(name, value)

    def define(self, src) -> None:
        """Add methods that a text defines; call it in `__init__`."""
        self.__dict__.setdefault("_texts", []).append((src, names_of_caller(1)))


class ScriptMethod:
    """A method of a script module: `schema`, `code` and `graph` show it."""

    def __init__(self, module, name):
        self.__self__, self.name = module, name

    def __call__(self, *args, **kwargs):
        return self.__self__._call_staged(self.name, args, kwargs)

    @property
    def schema(self) -> str:
        """The signature, as TorchScript writes it."""
        return str(self.__self__._staged.signatures[self.name])

    @property
    def code(self) -> str:
        """The method as text, in Python's syntax."""
        return printing.module_code(self.__self__, self.name)

    @property
    def graph(self):
        """The method as a list of nodes."""
        return Graph(self.__self__._staged, self.name)


class RecursiveScriptModule(ScriptModule):
    """A staged module; `code` and `graph` show `forward`.

    `original_name` is the name of its class.
    """

    def __init__(self, program):
        nn.Module.__init__(self)
        self.__dict__["_staged"] = program

    def forward(self, *args, **kwargs):
        """Run the program."""
        return self._call_staged("forward", args, kwargs)

    def _call_staged(self, name, args, kwargs):
        program = self._staged
        signature = program.signatures.get(name)
        if signature is None:
            raise NotImplementedError(f'Module [{program.name}] is missing the required "{name}" function')
        if name in program.python:
            return program.python[name][0](self, *args, **kwargs)
        bound = signature.bind(args, kwargs)
        try:
            if mode.tracing:
                tracer = current()
                with untraced():
                    result = program.functions[name](self, *bound)
                return tracer.staged_method(self, name, bound, result)
            result = program.functions[name](self, *bound)
            return handed_out(result) if signature.gives_objects else result
        except OF_PYTHON as error:
            raise failed(f"{program.name}.{name}", error) from error

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            program = self.__dict__.get("_staged")
            if program is None or name not in program.signatures:
                raise
            return ScriptMethod(self, name)

    def __setattr__(self, name, value):
        kind = self._staged.attributes.get(name)
        super().__setattr__(name, accepted(value, kind) if kind is not None and classes_in(kind) else value)

    def define(self, src) -> None:
        """Raise NotImplementedError: a compiled module has the methods that it has."""
        raise NotImplementedError("define() adds methods in the __init__ of a class derived from ScriptModule")

    def __deepcopy__(self, memo):
        staged = memo[id(self)] = type(self).__new__(type(self))
        staged.__dict__.update({name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()})
        return staged

    def __copy__(self):
        staged = type(self).__new__(type(self))
        staged.__dict__.update(self.__dict__)
        return staged

    def __reduce_ex__(self, protocol):
        raise RuntimeError("a script module is saved by torch.jit.save, not pickled; torch.save its state_dict()")

    def _get_name(self):
        return "RecursiveScriptModule"

    def extra_repr(self):
        """Return the name of the class that the module was made of."""
        return f"original_name={self.original_name}"

    __repr__ = nn.Module.__repr__

    def _declares(self, path, name) -> bool:
        """Whether the module at a path has an attribute, for programs that read or write it."""
        module = self
        for one in path:
            module = module._modules.get(one)
            if not isinstance(module, RecursiveScriptModule):
                return False
        return name in module._staged.attributes or name in module._buffers or name in module._parameters

    @property
    def original_name(self) -> str:
        """The name of the class that the module was made of."""
        return self._staged.name

    @property
    def code(self) -> str:
        """`forward` as text, in Python's syntax."""
        if "forward" not in self._staged.signatures:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute 'code'")
        return printing.module_code(self, "forward")

    @property
    def graph(self):
        """`forward` as a list of nodes.

        NotImplementedError for layers, which are called as they are.
        """
        if "forward" not in self._staged.signatures:
            raise RuntimeError("Method 'forward' is not defined.")
        if "forward" not in self._staged.trees:
            raise NotImplementedError(f"{self.original_name} has no graph: a layer is called as it is, not compiled")
        return Graph(self._staged, "forward")

    @property
    def inlined_graph(self):
        """The same as `graph`: calls of modules stay calls."""
        return self.graph

    def save(self, f, _extra_files=None) -> None:
        """Write the module to a file; see `torch.jit.save`."""
        save(self, f, _extra_files)


class TopLevelTracedModule(RecursiveScriptModule):
    """A module that was traced."""


@functools.cache
def layer_class(cls):
    """Return the class of the staged form of a layer of plugrad's."""

    def _get_name(self):
        return "RecursiveScriptModule"

    own = {"__doc__": cls.__doc__, "__module__": "plugrad.jit", "_get_name": _get_name, "_layer": cls,
           "__getattr__": cls.__getattr__}  # fmt: skip
    if "forward" in dir(cls):
        own["forward"] = cls.forward
    return type("RecursiveScriptModule", (RecursiveScriptModule, cls), own)


@functools.cache
def script_class(cls):
    """Return the class of the staged form of a module: it derives from that of a ScriptModule of a program's own."""
    if not issubclass(cls, ScriptModule):
        return RecursiveScriptModule

    def staged(name):
        return property(lambda self: ScriptMethod(self, name))

    marked = [name for name in dir(cls) if modifier(getattr(cls, name, None)) == "export"]
    own = {"__doc__": cls.__doc__, "__module__": cls.__module__}
    if cls.forward is not nn.Module.forward:  # it stays Python's, unless it is marked
        own["forward"] = cls.forward
    own.update({name: staged(name) for name in marked})
    return type(cls.__name__, (RecursiveScriptModule, cls), own)


def empty(cls, module):
    """Return a module of a class with tables that hold what those of another one hold."""
    staged = cls.__new__(cls)
    nn.Module.__init__(staged)
    staged._parameters.update(module._parameters)
    staged._buffers.update(module._buffers)
    staged._non_persistent_buffers_set.update(module._non_persistent_buffers_set)
    staged.__dict__["training"] = module.training
    return staged


def stage(module, memo=None):
    """Return the unit of a module, compiled; its `script` is the script module. Tensors are shared, modules are new."""
    memo = {} if memo is None else memo
    if id(module) in memo:
        if memo[id(module)] is None:
            raise RuntimeError(f"a {type(module).__name__} contains itself, so that it has no end as a program")
        return memo[id(module)]
    memo[id(module)] = None
    _refuse_uninitialized(module)
    _refuse_hooks(module)
    children = {
        name: None if child is None else stage(child, memo) for name, child in module._modules.items()
    }  # fmt: skip
    layer = public_layer(module)
    if isinstance(module, RecursiveScriptModule):
        unit = StagedUnit(module, children)
    elif layer is not None:
        script = empty(layer_class(layer), module)
        script.__dict__.update(own_state(module))
        script._modules.update({name: child and child.script for name, child in children.items()})
        unit = LayerUnit(module, layer, script, children)
    else:
        script = empty(script_class(type(module)), module)
        unit = ModuleUnit(module, script, children)
        script.__dict__["_staged"] = unit.program
    memo[id(module)] = unit
    if unit.script is not module:
        for name, child in children.items():
            unit.script._modules[name] = None if child is None else child.script
    if isinstance(unit, ModuleUnit):
        _compile(unit)
    return unit


def _compile(unit):
    cls = type(unit.module)
    for text, names in unit.module.__dict__.get("_texts", ()):
        unit.texts.update({function.__name__: function for function in functions_in(text, names)})
    for name in (*unit.texts, *([] if issubclass(cls, ScriptModule) else ["forward"])):
        unit.method(name)
    for name in dir(cls):
        function = cls.__dict__.get(name) or next((vars(one)[name] for one in cls.__mro__ if name in vars(one)), None)
        if callable(function) and modifier(function) in ("export", "ignore"):
            unit.method(name)
    unit.finish()
    if issubclass(cls, ScriptModule):  # methods that stay Python's may read what is of no type of the language
        own = unit.script.__dict__
        own.update({name: value for name, value in unit.module.__dict__.items() if name not in own})


def _refuse_uninitialized(module):
    for kind, table in (("parameters", module._parameters), ("buffers", module._buffers)):
        for name, value in table.items():
            if value is not None and nn.parameter.is_lazy(value):
                raise RuntimeError(
                    f"{type(module).__name__!r} has uninitialized {kind} {name}. Did you forget to run a forward pass?"
                )


_RUN_BY_CALLS = re.compile("_(forward|backward)(_pre)?_hooks")


def _refuse_hooks(module):
    hooks = [name for name, value in module.__dict__.items() if _RUN_BY_CALLS.fullmatch(name) and value]
    if hooks:
        raise NotImplementedError(
            f"a {type(module).__name__} has hooks ({hooks[0].strip('_')}), which are functions of Python's and no "
            "part of a "
            "staged program: remove them, or register them at the script module"
        )
