"""Types of staged programs: what annotations say, how two types meet, and what a value given from outside must be."""

from __future__ import annotations

import dataclasses
import types as python_types
import typing

import plugrad
from plugrad import Tensor
from plugrad import device as Device
from plugrad import dtype as Dtype
from plugrad.jit.errors import FrontendError

__all__ = [
    "ANY",
    "BOOL",
    "FLOAT",
    "INT",
    "NONE",
    "STR",
    "TENSOR",
    "Type",
    "accepted",
    "named",
    "of_annotation",
    "of_value",
]

LIMIT = 40  # how deep types may be nested


@dataclasses.dataclass(frozen=True)
class Type:
    """A type: its name and, for containers, those of what is in it.

    `fields` are the names of a named tuple's items; `cls` is the record of a class of a program's own (see `classes`).
    A Union is Any to a program, which asks for the type by isinstance(); `among` are those that calls may give.
    """

    name: str
    args: tuple = ()
    fields: tuple = ()
    cls: object = None
    among: tuple = dataclasses.field(default=(), compare=False)

    def __str__(self):
        if self.among:
            return f"Union[{', '.join(map(str, self.among))}]"
        if self.name == "None":
            return "NoneType"
        if self.name == "Tuple" and not self.args:
            return "Tuple[()]"
        return f"{self.name}[{', '.join(map(str, self.args))}]" if self.args else self.name

    @property
    def schema(self) -> str:
        """The type as schemas of functions write it."""
        if self.name == "Optional":
            return f"{self.args[0].schema}?"
        if self.name == "List":
            return f"{self.args[0].schema}[]"
        if self.name == "Dict":
            return f"Dict({self.args[0].schema}, {self.args[1].schema})"
        if self.name == "Tuple":
            return f"({', '.join(one.schema for one in self.args)})"
        return str(self)


TENSOR, INT, FLOAT, BOOL, STR, NONE, ANY = (
    Type(name) for name in ("Tensor", "int", "float", "bool", "str", "None", "Any")
)
COMPLEX, NUMBER, DEVICE, DTYPE = Type("complex"), Type("Scalar"), Type("Device"), Type("dtype")
GENERATOR = Type("Generator")
SIMPLE = {str(one) if one is not NONE else "None": one
          for one in (TENSOR, INT, FLOAT, BOOL, STR, NONE, ANY, COMPLEX, NUMBER, DEVICE, DTYPE, GENERATOR)}  # fmt: skip
NUMBERS = {INT, FLOAT, BOOL, COMPLEX, NUMBER}
_OF_PYTHON = {
    int: INT, float: FLOAT, bool: BOOL, str: STR, complex: COMPLEX, type(None): NONE, None: NONE, Tensor: TENSOR,
    Device: DEVICE, Dtype: DTYPE, typing.Any: ANY, plugrad.Size: Type("List", (INT,)),
}  # fmt: skip
_CONTAINERS = {"Optional": 1, "List": 1, "Dict": 2, "Future": 1}
CLASSES: list = []  # functions that give the record of a class of a program's own, or None; `classes` puts its own here


def optional(one: Type) -> Type:
    """Return the type of a value that may be None."""
    return one if one.name in ("Optional", "None", "Any") else Type("Optional", (one,))


def list_of(one: Type) -> Type:
    """Return the type of lists of something."""
    return Type("List", (one,))


def tuple_of(*items: Type, fields=()) -> Type:
    """Return the type of tuples of such items."""
    return Type("Tuple", items, tuple(fields))


def named(text: str, classes=(), depth: int = 0) -> Type:
    """Return the type that a text is, as `str` writes it; ValueError if it is none.

    Args:
        classes: {name: record} of the classes that may stand in it.
    """
    if text in SIMPLE:
        return SIMPLE[text]
    if text in classes:
        return classes[text].type
    if text == "NoneType":
        return NONE
    head, bracket, rest = text.partition("[")
    if not bracket or not rest.endswith("]") or depth > LIMIT:
        raise ValueError(f"{text[:60]!r} is not a type")
    if head == "Tuple" and rest == "()]":
        return tuple_of()
    parts, level, start = [], 0, 0
    for at, char in enumerate(rest[:-1]):
        level += (char == "[") - (char == "]")
        if char == "," and not level:
            parts.append(rest[start:at].strip())
            start = at + 1
    parts.append(rest[start:-1].strip())
    if head not in ("Tuple", "Union") and _CONTAINERS.get(head) != len(parts):
        raise ValueError(f"{text[:60]!r} is not a type")
    if head == "Union":
        return dataclasses.replace(ANY, among=tuple(named(one, classes, depth + 1) for one in parts))
    return Type(head, tuple(named(one, classes, depth + 1) for one in parts))


def of_annotation(kind) -> Type:
    """Return the type that an annotation of Python's is; TypeError if it is none of the language."""
    if isinstance(kind, Type):
        return kind
    if isinstance(kind, typing.Hashable) and kind in _OF_PYTHON:
        return _OF_PYTHON[kind]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Final:
        return of_annotation(args[0])
    if origin in (typing.Union, python_types.UnionType):
        others = [of_annotation(one) for one in args if one not in (None, type(None))]
        return union_of([*others, *[NONE] * (len(others) < len(args))])
    if origin is list and len(args) == 1:
        return list_of(of_annotation(args[0]))
    if origin is dict and len(args) == 2:
        return Type("Dict", (of_annotation(args[0]), of_annotation(args[1])))
    if origin is tuple:
        return tuple_of(*[of_annotation(one) for one in args if one != ()])
    if getattr(kind, "__name__", None) == "Future":
        return Type("Future", (ANY,))
    if isinstance(kind, type) and issubclass(kind, Tensor):
        return TENSOR
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        return tuple_of(*[of_annotation(hints.get(one, Tensor)) for one in kind._fields], fields=kind._fields)
    if kind in (list, dict, tuple, typing.List, typing.Dict, typing.Tuple):  # noqa: UP006
        name = getattr(kind, "__name__", str(kind)).capitalize()
        raise TypeError(
            f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {name}[int]"
        )
    record = of_class(kind)
    if record is not None:
        return record.type
    raise TypeError(f"Unknown type annotation: '{getattr(kind, '__name__', kind)}'")


def union_of(kinds) -> Type:
    """Return the type of what is of one of the types; None is the last one of them."""
    if len(kinds) == 1:
        return kinds[0]
    return optional(kinds[0]) if len(kinds) == 2 and kinds[1] == NONE else dataclasses.replace(ANY, among=tuple(kinds))


def of_class(cls):
    """Return the record of a class of a program's own, which is compiled at first sight; None if it can be none."""
    return next((record for find in CLASSES if isinstance(cls, type) and (record := find(cls)) is not None), None)


def classes_in(kind: Type) -> set:
    """Return the records of the classes that a type names."""
    return {kind.cls, *(one for inner in kind.args for one in classes_in(inner))} - {None}


def of_value(value) -> Type | None:
    """Return the type of a value; None for those of no type of the language."""
    if isinstance(value, Tensor):
        return TENSOR
    plain = _OF_PYTHON.get(type(value))
    if plain is not None:
        return plain
    if isinstance(value, list):
        items = [of_value(item) for item in value]
        return None if None in items or not items else _unified(items, list_of)
    if isinstance(value, dict):
        keys, items = [of_value(key) for key in value], [of_value(item) for item in value.values()]
        if None in keys or None in items or not items:
            return None
        return _unified(items, lambda one: Type("Dict", (keys[0], one)))
    if isinstance(value, tuple):
        items = [of_value(item) for item in value]
        return None if None in items else tuple_of(*items, fields=getattr(value, "_fields", ()))
    record = _of_instance(value)
    return None if record is None else record.type


def _of_instance(value):
    try:
        return of_class(type(value))
    except (RuntimeError, FrontendError, OSError, TypeError):  # its class is not written in the language
        return None


def _unified(items, make):
    one = items[0]
    for other in items[1:]:
        one = one and unified(one, other)
    return None if one is None else make(one)


def unified(one: Type, other: Type) -> Type | None:
    """Return the type that values of both types have; None if there is none."""
    if fits(one, other):
        return other
    if fits(other, one):
        return one
    if NONE in (one, other):
        return optional(one if other == NONE else other)
    if "Optional" in (one.name, other.name):
        inner = unified(*(each.args[0] if each.name == "Optional" else each for each in (one, other)))
        return inner and optional(inner)
    if one.name == other.name == "Tuple" and len(one.args) == len(other.args):
        items = [unified(a, b) for a, b in zip(one.args, other.args)]
        return None if None in items else tuple_of(*items)
    return None


def fits(one: Type, wanted: Type) -> bool:
    """Whether a value of a type may stand where another one is wanted."""
    if one == wanted or "Any" in (wanted.name, one.name):
        return True
    if wanted.name == "Optional":
        return one == NONE or fits(one.args[0] if one.name == "Optional" else one, wanted.args[0])
    if wanted == NUMBER:
        return one in NUMBERS
    if one.name == wanted.name and len(one.args) == len(wanted.args) and one.args:
        return all(map(fits, one.args, wanted.args))
    return False


class Mismatch(Exception):
    """A value is not of the type that is wanted."""


def accepted(value, wanted: Type):
    """Return a value given from outside as a staged function takes it; Mismatch if it is not of the type."""
    name = wanted.name
    if name == "Tensor":
        if isinstance(value, Tensor):
            return value
    elif wanted.cls is not None:
        return wanted.cls.taken(value)
    elif wanted.among:
        return _one_of(value, wanted.among)
    elif name == "Any":
        kind = of_value(value)
        return value if kind is None or kind == ANY or not classes_in(kind) else accepted(value, kind)
    elif name == "Optional":
        return None if value is None else accepted(value, wanted.args[0])
    elif name in ("int", "float", "bool", "complex", "Scalar"):
        return _number(value, name)
    elif name == "List" and isinstance(value, (list, tuple)):
        return [accepted(item, wanted.args[0]) for item in value]
    elif name == "Dict" and isinstance(value, dict):
        key, item = wanted.args
        return {accepted(k, key): accepted(v, item) for k, v in value.items()}
    elif name == "Tuple" and isinstance(value, (tuple, list)) and len(value) == len(wanted.args):
        items = [accepted(item, one) for item, one in zip(value, wanted.args)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    elif name == "Device" and isinstance(value, (str, Device)):
        return Device(value)
    elif _OF_PYTHON.get(type(value)) == wanted or name == "Future":
        return value
    raise Mismatch


def _one_of(value, kinds):
    """Return a value as the first type takes it that is its own, or else takes it at all."""
    own = of_value(value)
    for kind in [*[one for one in kinds if one == own], *kinds]:
        try:
            return accepted(value, kind)
        except Mismatch:
            continue
    raise Mismatch


_FROM = {"int": (int,), "float": (int, float), "bool": (bool,), "complex": (int, float, complex),
         "Scalar": (int, float, complex)}  # fmt: skip
_TO = {"int": int, "float": float, "bool": bool, "complex": complex}


def _number(value, name):
    if isinstance(value, Tensor) and name in _TO and value.numel() == 1:
        return _TO[name](value.item())
    if not isinstance(value, _FROM[name]):
        raise Mismatch
    return _TO[name](value) if name in _TO and type(value) is not _TO[name] else value
