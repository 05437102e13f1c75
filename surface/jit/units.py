"""Units of compilation: a function with all that it calls, or a module with its methods."""

from __future__ import annotations

import inspect
import types as python_types
import typing

from plugrad import nn
from plugrad.jit import types
from plugrad.jit.decorators import Attribute
from plugrad.jit.objects import SETS
from plugrad.jit.overloads import chosen
from plugrad.jit.program import Program, renamed, tree_of
from plugrad.jit.signatures import Argument, Signature
from plugrad.jit.source import MISSING, Source, class_annotations
from plugrad.jit.statements import Compiler
from plugrad.jit.types import ANY, NONE, TENSOR, Type, fits, of_annotation, of_value, optional, tuple_of
from plugrad.jit.values import Known, Value, constant_of

__all__ = [
    "FunctionUnit",
    "LayerUnit",
    "ModuleUnit",
    "Reference",
    "StagedUnit",
    "modifier",
    "own_state",
    "public_layer",
]

_LAYERS = {
    "LSTM": tuple_of(TENSOR, tuple_of(TENSOR, TENSOR)), "GRU": tuple_of(TENSOR, TENSOR),
    "RNN": tuple_of(TENSOR, TENSOR),
    "LSTMCell": tuple_of(TENSOR, TENSOR), "MultiheadAttention": tuple_of(TENSOR, optional(TENSOR)),
}  # fmt: skip
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def own_state(module) -> list:
    """Return [(name, value)] of the attributes that a module has for itself, without those of every Module."""
    return [
        (name, value)
        for name, value in module.__dict__.items()
        if name not in ("_staged", "_texts", "_types") and not hasattr(nn.Module, name)
    ]


def modifier(function) -> str | None:
    """Return how a function was marked: "ignore", "unused", "export", or None."""
    return getattr(function, "_staged_as", None)


def public_layer(module):
    """Return the class of plugrad.nn that a module's forward is of, or None if it has one of its own."""
    cls = type(module)
    for base in cls.__mro__:
        own = getattr(nn, base.__name__, None) is base or base.__module__.startswith("plugrad.plugins.layers.")
        if own and base is not nn.Module:
            changed = {
                name for one in cls.__mro__[: cls.__mro__.index(base)] for name in vars(one) if hasattr(base, name)
            }
            return (
                base
                if all(name.startswith("__") or name in ("extra_repr", "reset_parameters") for name in changed)
                else None
            )
        if base is nn.Module:
            return None
    return None


class Reference:
    """A module as a program sees it: the unit that it is of, and the path to it from the program's own."""

    def __init__(self, unit, path=()):
        self.unit, self.path = unit, list(path)

    def __eq__(self, other):
        return isinstance(other, Reference) and self.unit is other.unit and self.path == other.path

    __hash__ = None

    @property
    def module(self):
        """The module."""
        return self.unit.module

    @property
    def is_dict(self) -> bool:
        """Whether loops over it are over keys."""
        return isinstance(self.module, (nn.ModuleDict, nn.ParameterDict))

    def has(self, name) -> bool:
        """Whether it has an attribute."""
        return hasattr(self.module, name)

    def children(self, refuse, node) -> list:
        """Return what a loop over it goes over."""
        if isinstance(self.module, _CONTAINERS):
            return [self.child(name) for name in self.module._modules]
        if isinstance(self.module, (nn.ParameterList, nn.ParameterDict)):
            return [Value(["param", self.path, name], TENSOR) for name in self.module._parameters]
        raise refuse(f"'{type(self.module).__name__}' object is not iterable", node)

    def child(self, name):
        """Return a submodule."""
        inner = self.unit.children[name]
        if inner is None:
            return constant_of(None)
        return Known("module", Reference(inner, [*self.path, name]))

    def attribute(self, name, refuse, node):
        """Return what an attribute is in a program."""
        module = self.module
        for kind, table in (("param", module._parameters), ("buffer", module._buffers)):
            if name in table:
                return constant_of(None) if table[name] is None else Value([kind, self.path, name], TENSOR)
        if name in module._modules:
            return self.child(name)
        if isinstance(module, nn.ModuleDict) and name in ("items", "keys", "values"):
            return Known("bound", Known("module", self), name)
        meant = self.unit.attribute(name, self, refuse, node)
        if meant is None:
            raise refuse(f"Module '{self.unit.program.name}' has no attribute '{name}'{self.unit.why_not(name)}", node)
        return meant

    def call(self, name, args, kwargs, refuse, node):
        """Return the call of a method."""
        function = inspect.getattr_static(type(self.module), name, None) if isinstance(self.unit, ModuleUnit) else None
        source = None
        if isinstance(function, python_types.FunctionType):
            source = chosen(function, True, args, kwargs, refuse, node)
        if source is not None:
            name = f"{name}__{source.number}"
            self.unit.accessor(name, source)
        signature = self.unit.method(name, refuse, node)
        if signature is None:
            raise refuse(f"Module '{self.unit.program.name}' has no method '{name}'", node)
        signature.check(args, kwargs, refuse, node)
        trees = [one.tree for one in args], {key: one.tree for key, one in kwargs.items()}
        if not self.path:
            kind = "python" if name in self.unit.program.python else "function"
            return Value([kind, name, *trees], signature.returns)
        return Value(["method", self.path, name, *trees], signature.returns)

    def set_property(self, name, value, refuse, node):
        """Return the call that an assignment to a property is; None for what is no property of the program's."""
        own = inspect.getattr_static(type(self.module), name, None) if isinstance(self.unit, ModuleUnit) else None
        if not isinstance(own, property) or hasattr(nn.Module, name):
            return None
        if own.fset is None:
            raise refuse(f"the property '{name}' of a {self.unit.program.name} has no setter", node)
        self.unit.accessor(name + SETS, own.fset)
        return self.call(name + SETS, [value], {}, refuse, node)

    def assigned(self, name, value, refuse, node):
        """Return the target of an assignment to an attribute."""
        if name in self.module._buffers:
            kind = TENSOR
        elif name in self.unit.program.attributes:
            kind = self.unit.program.attributes[name]
            if name in self.unit.program.constants:
                raise refuse(f"Can't set constant '{name}'", node)
        else:
            raise refuse(
                f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?", node
            )
        if not fits(value.type, kind):
            raise refuse(
                f"Expected a value of type '{kind}' for attribute '{name}' but instead found '{value.type}'", node
            )
        return ["self", self.path, name]


class Unit:
    """What functions are compiled for; see Program."""

    def __init__(self, name):
        self.program, self.working, self.keys = Program(name), [], {}

    def keep(self, name, tree, signature) -> None:
        """Put the tree of a function into the program."""
        self.program.trees[name] = tree
        self.program.note(*[one.type for one in signature.arguments], signature.returns)

    def function(self, what, refuse, node) -> tuple:
        """Return (name in the program, Signature) of another function, which is compiled at first sight."""
        known = self.keys.get(what if isinstance(what, python_types.FunctionType) else id(what))
        if known is None:
            known = self._added(what)
            self.keys[what if isinstance(what, python_types.FunctionType) else id(what)] = known
        key, signature = known
        if signature is None:
            raise refuse(f"function '{what.__name__}' is called recursively. Recursive calls are not supported", node)
        return key, signature

    def overload(self, source, refuse, node) -> tuple:
        """Return (name in the program, Signature) of a function for one of its declarations."""
        function = source.function
        known = self.keys.get((function, source.number))
        if known is None:
            name = self._free(f"{function.__name__}__{source.number}")
            self.keys[function, source.number] = name, None
            self.program.trees[name] = None
            body, signature = Compiler(self, source).compile()
            self.keep(name, tree_of(body, signature, False), signature)
            known = self.keys[function, source.number] = name, signature
        if known[1] is None:
            name = function.__name__
            raise refuse(f"function '{name}' is called recursively. Recursive calls are not supported", node)
        return known

    def _free(self, name):
        taken, key, number = {*self.program.trees, *self.program.python}, name, 0
        while key in taken or key.lstrip("!") == "forward":
            number += 1
            key = f"{name}_{number}"
        return key

    def _added(self, what):
        staged = getattr(what, "_staged", None)
        if staged is not None:
            new = {name: self._free(f"{what.name}_{name}" if name != what.name else name) for name in staged.trees}
            for name, tree in staged.trees.items():
                self.program.trees[new[name]] = renamed(tree, new)
            self.program.python.update(staged.python)
            self.program.classes.update(staged.classes)
            return new[what.name], staged.signatures[what.name]
        how = modifier(what)
        if how == "ignore":
            key = self._free(f"!{what.__name__}")
            self.program.python[key] = (what, False)
            return key, declared(what, False)
        key = self._free(what.__name__)
        if how == "unused":
            signature = declared(what, False)
            self.keep(key, unused(what.__name__, signature, False), signature)
            return key, signature
        self.keys[what] = (key, None)
        self.program.trees[key] = None
        try:
            body, signature = Compiler(self, what).compile()
        except BaseException:
            self.keys.pop(what, None)
            self.program.trees.pop(key, None)
            raise
        self.keep(key, tree_of(body, signature, False), signature)
        return key, signature


class FunctionUnit(Unit):
    """A function and those that it calls."""

    def compiled(self, function) -> Program:
        """Compile the function and return the program."""
        name, signature = self._added(function)
        self.program.signatures[name] = signature
        self.program.make()
        return self.program


def declared(function, is_method) -> Signature:
    """Return the signature of a function by its annotations alone."""
    source = Source(function)
    arguments = [Argument(*row) for row in source.arguments(is_method)]
    return Signature(function.__name__, arguments, source.returns() or TENSOR)


def unused(name, signature, is_method) -> dict:
    """Return the tree of a function that raises an error when it is called."""
    body = [["do", 1, ["call", "prim.unused", [["const", name]], {}]]]
    return tree_of(body, signature, is_method)


class ModuleUnit(Unit):
    """A module of a program's own class: `script` is what it becomes."""

    def __init__(self, module, script, children):
        super().__init__(type(module).__name__)
        self.module, self.script, self.children = module, script, children
        self.python_attributes: dict = {}
        self.signatures: dict = {}
        self.texts: dict = {}  # methods that a text defines
        self._note_attributes()

    def _note_attributes(self):
        annotations = class_annotations(type(self.module)) | self.module.__dict__.get("_types", {})
        constants = {*getattr(self.module, "__constants__", ())}
        program = self.program
        for name, value in own_state(self.module):
            kind = annotations.get(name)
            if isinstance(value, Attribute):
                value, kind = value
            if typing.get_origin(kind) is typing.Final or kind is typing.Final:
                constants.add(name)
                kind = None if kind is typing.Final else typing.get_args(kind)[0]
            try:
                kind = of_value(value) if kind is None else of_annotation(kind)
            except TypeError:
                kind = of_value(value)
            if kind is None or kind == NONE and name not in annotations and name not in constants:
                kind = None if kind is None else NONE
            if kind is None:
                self.python_attributes[name] = value
            else:
                program.attributes[name] = kind
                own = types.accepted(value, kind) if types.classes_in(kind) else value
                self.script.__dict__[name] = value.copy() if own is value and type(value) in (list, dict) else own
        program.attributes["training"] = types.BOOL
        program.note(*program.attributes.values())
        program.constants = frozenset(constants & {*program.attributes})

    def why_not(self, name) -> str:
        """Return the end of the message of an attribute that programs do not see."""
        value = getattr(self.module, name, MISSING)
        if value is MISSING:
            return ""
        empty = " (an empty one needs an annotation at the class)" if value in ([], {}) else ""
        return f" of a type that staged programs know: it is a {type(value).__name__}{empty}"

    def attribute(self, name, reference, refuse, node):
        """Return what an attribute is that is neither a tensor of the module nor a submodule."""
        program = self.program
        if name in program.attributes:
            kind, value = program.attributes[name], getattr(self.module, name)
            value = value.value if isinstance(value, Attribute) else value
            if kind == NONE:
                return constant_of(None)
            tree = ["self", reference.path, name]
            if name in program.constants and type(value) in (int, float, bool, str):
                return constant_of(value)
            return Value(tree, kind)
        if name in self.python_attributes:
            value = self.python_attributes[name]
            return Known("python", value) if callable(value) else None
        if name in self.texts:
            return Known("method", reference, name)
        value = inspect.getattr_static(type(self.module), name, None)
        if isinstance(value, property):
            self.accessor(name, value.fget)
            return reference.call(name, [], {}, refuse, node)
        if isinstance(value, staticmethod):
            return Known("python", value.__func__)
        if isinstance(value, (python_types.FunctionType,)):
            return Known("method", reference, name)
        if value is not None and of_value(value) is not None:
            return constant_of(value) if type(value) in (int, float, bool, str) else None
        return None

    def accessor(self, name, function) -> None:
        """Compile a function that is no attribute of this name at first sight: a property's, or an overload."""
        if name not in self.signatures:
            self._compile(name, function)

    def method(self, name, refuse=None, node=None) -> Signature | None:
        """Return the signature of a method, which is compiled at first sight; None if there is none of that name."""
        if name in self.signatures:
            if self.signatures[name] is None:
                raise refuse(f"method '{name}' is called recursively. Recursive calls are not supported", node)
            return self.signatures[name]
        function = self.texts.get(name) or inspect.getattr_static(type(self.module), name, None)
        inherited = function is inspect.getattr_static(nn.Module, name, None)
        if inherited or not isinstance(function, python_types.FunctionType):
            return None
        return self._compile(name, function)

    def _compile(self, name, function):
        how = modifier(function)
        if how == "ignore":
            self.program.python[name] = (function, True)
            signature = declared(function, True)
        elif how == "unused":
            signature = declared(function, True)
            self.keep(name, unused(name, signature, True), signature)
        else:
            self.signatures[name] = self.program.trees[name] = None
            try:
                body, signature = Compiler(self, function, Known("module", Reference(self))).compile()
            except BaseException:
                self.signatures.pop(name, None)
                self.program.trees.pop(name, None)
                raise
            signature.name = name
            self.keep(name, tree_of(body, signature, True), signature)
        self.signatures[name] = signature
        return signature

    def finish(self) -> None:
        """Make the functions of the program, and give it to the script module."""
        self.program.signatures = dict(self.signatures)
        self.program.make(self.script._declares)


class StagedUnit:
    """A module that is a script module already."""

    python_attributes: typing.ClassVar[dict] = {}

    def __init__(self, script, children):
        self.module = self.script = script
        self.children, self.program = children, script._staged

    def why_not(self, name) -> str:
        """Return no reason."""
        return ""

    def attribute(self, name, reference, refuse, node):
        """Return what an attribute is."""
        kind = self.program.attributes.get(name)
        if kind is not None:
            return constant_of(None) if kind == NONE else Value(["self", reference.path, name], kind)
        return Known("method", reference, name) if name in self.program.signatures else None

    def method(self, name, refuse=None, node=None):
        """Return the signature of a method."""
        return self.program.signatures.get(name)

    def finish(self) -> None:
        """Do nothing: it is ready."""


class LayerUnit(StagedUnit):
    """A layer of plugrad's, or of a package's: its class is there wherever programs run, and so it is not compiled."""

    def __init__(self, module, layer, script, children):
        program = Program(type(module).__name__)
        for name, value in own_state(module):
            kind = of_value(value)
            if kind is not None:
                program.attributes[name] = kind
        program.attributes["training"] = types.BOOL
        script.__dict__["_staged"] = program
        super().__init__(script, children)
        self.layer = layer
        program.signatures = (
            {"forward": LayerSignature(layer, layer_returns(script, layer))} if hasattr(layer, "forward") else {}
        )

    def attribute(self, name, reference, refuse, node):
        """Return what an attribute is; layers have no methods in programs but `forward`."""
        if name in self.program.attributes or name == "forward":
            return super().attribute(name, reference, refuse, node)
        return None


def layer_returns(module, layer) -> Type:
    """Return the type of the result of a layer, which is a script module already."""
    if layer.__name__ in _LAYERS:
        return _LAYERS[layer.__name__]
    if getattr(module, "return_indices", False):
        return tuple_of(TENSOR, TENSOR)
    if layer is nn.Sequential and module._modules:
        last = list(module._modules.values())[-1]._staged.signatures.get("forward")
        return TENSOR if last is None else last.returns
    return TENSOR


class LayerSignature(Signature):
    """The signature of a layer's forward: what Python knows of it."""

    def __init__(self, layer, returns):
        try:
            parameters = list(inspect.signature(layer.forward).parameters.values())[1:]
        except (TypeError, ValueError):
            parameters = []
        arguments = [
            Argument(one.name, ANY, MISSING if one.default is one.empty else one.default)
            for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        ]  # fmt: skip
        super().__init__("forward", arguments, returns)
        if len(arguments) < len(parameters) or issubclass(layer, nn.Sequential):
            self.arguments = None  # it takes any

    def check(self, args, kwargs, refuse, node) -> None:
        """Refuse a call with too many or too few arguments, or with what is no tensor where one leads."""
        if self.arguments is not None:
            super().check(args, kwargs, refuse, node)
        first = args[0].type if args else TENSOR
        if first == NONE or first.name == "Optional":
            raise refuse(
                f"Expected a value of type 'Tensor' for the first argument but instead found type '{first}'", node
            )
