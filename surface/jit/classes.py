"""Classes of a program's own in staged programs: their methods are compiled, and so are what dataclasses write."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import sys
import types as python_types

from plugrad import nn
from plugrad.jit import types
from plugrad.jit.objects import SETS, SPECIAL, ClassRecord, EnumRecord
from plugrad.jit.program import tree_of
from plugrad.jit.source import Source
from plugrad.jit.statements import Compiler
from plugrad.jit.types import FLOAT, INT, STR, of_value
from plugrad.jit.units import Unit, declared, modifier, unused

__all__ = ["compiled_class", "record_of"]

_OPERATORS = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def record_of(cls):
    """Return the record of a class, which is compiled at first sight; None for those that are none of a program's own.

    Raises what its methods are refused with, and TypeError for a class that can be none of a program.
    """
    known = vars(cls).get("_staged_class")
    if known is not None:
        return known
    if issubclass(cls, enum.Enum):
        return _enumeration(cls)
    if modifier(cls) is not None or issubclass(cls, (nn.Module, tuple, list, BaseException)):
        return None
    routines = [one for one in map(inspect.unwrap, vars(cls).values()) if inspect.isroutine(one)]
    if cls.__module__.partition(".")[0] in ("plugrad", "builtins", "typing") or not all(
        hasattr(getattr(one, "__func__", one), "__code__") for one in routines
    ):
        return None
    return ClassUnit(cls).record


types.CLASSES.append(record_of)


def compiled_class(cls):
    """Return the class, compiled: what `script` does with one."""
    if len(cls.__mro__) > 2 and not issubclass(cls, enum.Enum):
        raise RuntimeError(
            f"a staged class derives from `object` alone, and {cls.__name__} does not: give it the other's attributes "
            "and methods, or make the other an attribute of it"
        )
    try:
        record_of(cls)
    except TypeError as error:
        raise RuntimeError(str(error)) from None
    return cls


def _enumeration(cls):
    kinds = {of_value(one.value) for one in cls}
    if len(kinds) != 1 or not kinds <= {INT, FLOAT, STR}:
        raise TypeError(
            f"the values of the Enum {cls.__name__} must be all int, all float or all str in a staged program, and are "
            f"{', '.join(sorted(str(type(one.value).__name__) for one in cls)) or 'none'}"
        )
    record = EnumRecord(cls.__name__, f"{cls.__module__}.{cls.__qualname__}", cls, kinds.pop(), cls)
    cls._staged_class = record
    return record


class ClassUnit(Unit):
    """A class of a program's own, whose methods are compiled."""

    def __init__(self, cls):
        super().__init__(cls.__name__)
        self.cls, self.signatures = cls, {}
        self.record = record = ClassRecord(cls.__name__, f"{cls.__module__}.{cls.__qualname__}", cls)
        record.program, record.unit, self.program.name = self.program, self, record.name
        cls._staged_class = record
        try:
            self._compile_all()
        except BaseException:
            del cls._staged_class
            raise

    def _compile_all(self):
        if not isinstance(vars(self.cls).get("__init__"), python_types.FunctionType):
            raise TypeError(f"Class {self.cls.__name__} does not have an __init__ function defined")
        self.method("__init__")
        for name, function in vars(self.cls).items():
            is_own = isinstance(function, python_types.FunctionType) and not _is_written(self.cls, name)
            if is_own and (name in SPECIAL or not name.startswith("__")):
                self.method(name)
        if dataclasses.is_dataclass(self.cls):
            for name in ("__eq__", *_OPERATORS):
                if _is_written(self.cls, name):
                    self.method(name)
        for name, value in vars(self.cls).items():
            if isinstance(value, property) and modifier(value.fget) != "unused":
                self.method(name)
                self.method(name + SETS)
        self.program.signatures = self.signatures
        self.program.make()
        self.record.finish()

    def method(self, name, refuse=None, node=None):
        """Return the signature of a method, compiled at first sight, whose first argument is the object; or None."""
        if name in self.signatures:
            if self.signatures[name] is None:
                raise refuse(f"method '{name}' is called recursively. Recursive calls are not supported", node)
            return self.signatures[name]
        function = vars(self.cls).get(name)
        if isinstance(function, property):
            self.record.properties.add(name)
            function = function.fget
        elif name.endswith(SETS) and isinstance(vars(self.cls).get(name.removesuffix(SETS)), property):
            function = vars(self.cls)[name.removesuffix(SETS)].fset
        if not isinstance(function, python_types.FunctionType):
            return None
        if modifier(function) == "unused":
            signature = declared(function, False)
            signature.arguments[0].type = self.record.type
            self.keep(name, unused(name, signature, False), signature)
        elif modifier(function) == "ignore":
            raise NotImplementedError(
                f"the method {name} of the class {self.cls.__name__} stays Python's, which objects of staged programs "
                "have none of: make it a function with @torch.jit.ignore"
            )
        else:
            self.signatures[name] = None
            try:
                body, signature = self._compiler(name, function).compile()
            except BaseException:
                self.signatures.pop(name, None)
                raise
            signature.name = name
            self.keep(name, tree_of(body, signature, False), signature)
        self.signatures[name] = signature
        return signature

    def _compiler(self, name, function):
        own = {self.cls.__name__: self.cls}
        if _is_written(self.cls, name):
            source = Written(self.cls, name)
        else:
            source = Source(function, own)
        return Compiler(self, source, of_class=self.record)

    def static(self, name):
        """Return the function of a static method; None if there is none of that name."""
        return getattr(vars(self.cls).get(name), "__func__", None)


def _is_written(cls, name) -> bool:
    """Whether a method is one that `dataclass` has written, which has no source."""
    function = vars(cls).get(name)
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    return dataclasses.is_dataclass(cls) and (file == "<string>" or file.endswith(("reprlib.py", "dataclasses.py")))


class Written(Source):
    """The source of a method that `dataclass` writes, as a staged program has it."""

    def __init__(self, cls, name):
        fields = dataclasses.fields(cls)
        self.names = {cls.__name__: cls}
        if name == "__init__":
            text = self._init(cls, fields)
        else:
            text = self._comparison(cls, name, [one.name for one in fields if one.compare])
        space = {**vars(sys.modules.get(cls.__module__, ast)), **self.names}
        exec(compile(text, f"<dataclass {cls.__name__}>", "exec"), space)
        self.function = space[name]
        self.lines, self.file, self.first = text.splitlines(), f"<dataclass {cls.__name__}>", 1
        (self.tree,) = ast.parse(text).body

    def _init(self, cls, fields):
        arguments, lines = ["self"], []
        for number, one in enumerate(fields):
            if one.default_factory is not dataclasses.MISSING:
                raise NotImplementedError(
                    f"the field {one.name} of the dataclass {cls.__name__} has a default_factory, which staged "
                    "programs have not: give it a value where you make the object"
                )
            self.names |= {f"_type_{number}": one.type, f"_default_{number}": one.default}
            default = "" if one.default is dataclasses.MISSING else f" = _default_{number}"
            if one.init:
                arguments.append(f"{one.name}: _type_{number}{default}")
            lines.append(f"    self.{one.name} = {one.name if one.init else f'_default_{number}'}")
        if "__post_init__" in vars(cls):
            lines.append("    self.__post_init__()")
        return "\n".join([f"def __init__({', '.join(arguments)}) -> None:", *(lines or ["    pass"])])

    @staticmethod
    def _comparison(cls, name, names):
        head = f"def {name}(self, other: {cls.__name__}) -> bool:"
        if name == "__eq__":
            return f"{head}\n    return {' and '.join(f'self.{one} == other.{one}' for one in names) or 'True'}"
        sign = _OPERATORS[name]
        lines = [line for one in names for line in (f"    if self.{one} != other.{one}:",
                                                    f"        return self.{one} {sign} other.{one}")]  # fmt: skip
        return "\n".join([head, *lines, f"    return {'=' in sign}"])
