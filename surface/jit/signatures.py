"""Signatures of staged functions: what calls in programs and from outside must give."""

from __future__ import annotations

import dataclasses

from plugrad import Tensor
from plugrad.jit.source import MISSING
from plugrad.jit.types import ANY, Mismatch, Type, accepted, classes_in, fits

__all__ = ["Argument", "Signature"]


@dataclasses.dataclass
class Argument:
    """An argument: name, type, and default or MISSING."""

    name: str
    type: Type
    default: object = MISSING


@dataclasses.dataclass
class Signature:
    """A function's name, arguments and type of the result."""

    name: str
    arguments: list
    returns: Type

    def __post_init__(self):
        self.gives_objects = _may_hold_objects(self.returns)

    def __str__(self):
        parts = []
        for one in self.arguments:
            default = "" if one.default is MISSING else f"={one.default!r}"
            parts.append(f"{one.type.schema} {one.name}{default}")
        returns = f"({self.returns.schema})" if self.returns.name == "Tuple" else self.returns.schema
        return f"{self.name}({', '.join(parts)}) -> {returns}"

    def check(self, args, kwargs, refuse, node) -> None:
        """Refuse a call in a program whose arguments do not fit."""
        if any(one.tree[0] == "star" for one in args):
            return
        if len(args) > len(self.arguments):
            raise refuse(
                f"Arguments for call are not valid. {self.name}() expected at most {len(self.arguments)} "
                "argument(s) but "
                f"found {len(args)}",
                node,
            )
        given = dict(zip([one.name for one in self.arguments], args))
        for name, value in kwargs.items():
            if name in given or name not in [one.name for one in self.arguments]:
                raise refuse(f"Arguments for call are not valid. {self.name}(): Keyword argument {name} unknown", node)
            given[name] = value
        for one in self.arguments:
            if one.name not in given:
                if one.default is MISSING:
                    raise refuse(
                        f"Arguments for call are not valid. {self.name}(): Argument {one.name} not provided", node
                    )
            elif not fits(given[one.name].type, one.type):
                raise refuse(
                    f"Arguments for call are not valid. {self.name}(): Expected a value of type '{one.type}' for "
                    "argument "
                    f"'{one.name}' but instead found type '{given[one.name].type}'",
                    node,
                )

    def bind(self, args, kwargs) -> list:
        """Return the arguments of a call from outside in order, each as its type takes it."""
        wanted = self.arguments
        if len(args) > len(wanted):
            raise RuntimeError(
                f"{self.name}() expected at most {len(wanted)} argument(s) but received {len(args) + len(kwargs)} "
                f"argument(s). Declaration: {self}"
            )
        bound = []
        for i, one in enumerate(wanted):
            if i < len(args):
                value = args[i]
                if one.name in kwargs:
                    raise RuntimeError(f"{self.name}() got two values for argument '{one.name}'")
            elif one.name in kwargs:
                value = kwargs[one.name]
            elif one.default is not MISSING:
                bound.append(list(one.default) if one.type.name == "List" and one.default is not None else one.default)
                continue
            else:
                raise RuntimeError(f"{self.name}() is missing value for argument '{one.name}'. Declaration: {self}")
            if one.type.name == "Tensor" and isinstance(value, Tensor):
                bound.append(value)
                continue
            bound.append(self._accepted(one, i, value))
        unknown = [name for name in kwargs if name not in [one.name for one in wanted]]
        if unknown:
            raise RuntimeError(f"Unknown keyword argument '{unknown[0]}' for operator '{self.name}'. Schema: {self}")
        return bound

    def _accepted(self, argument, position, value):
        try:
            return accepted(value, argument.type)
        except Mismatch:
            raise RuntimeError(
                f"{self.name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but "
                "instead found "
                f"type '{type(value).__name__}'.\nPosition: {position}\nValue: {value!r:.200}\nDeclaration: {self}"
            ) from None


def _may_hold_objects(kind: Type) -> bool:
    return kind == ANY or bool(classes_in(kind)) or any(map(_may_hold_objects, kind.args))
