"""What an expression is while a program is compiled: a value with a type, or something that is known before it runs."""

from __future__ import annotations

import dataclasses

import plugrad
from plugrad.jit.types import ANY, Type, of_value

__all__ = ["Known", "Scope", "Undefined", "Value", "constant_of"]


@dataclasses.dataclass
class Value:
    """A value of the program: the tree that computes it, and its type.

    `constant` is a tuple of the value if it is known before the program runs, else empty.
    """

    tree: list
    type: Type
    constant: tuple = ()


@dataclasses.dataclass
class Known:
    """Something that is no value of the program.

    Attributes:
        kind: "python" (an object of Python's), "module" (a submodule), "method" (of a module), "bound" (a method of a
            value), "items" (several, over which loops are written out), "self" values of such as `super`.
        what: the object; for methods and bound ones what they are of.
        name: of a method; of an object of Python's the (module, attribute) where it was found.
    """

    kind: str
    what: object
    name: object = None


@dataclasses.dataclass
class Undefined:
    """A name that has no value here, and why."""

    why: str


class Scope:
    """Names of a program: frames of blocks, the innermost last."""

    def __init__(self):
        self.frames: list = [{}]

    def find(self, name: str):
        """Return what a name is, None if it was never set."""
        return next((frame[name] for frame in reversed(self.frames) if name in frame), None)

    def outer(self, name: str):
        """Return what a name is outside of the innermost block."""
        return next((frame[name] for frame in reversed(self.frames[:-1]) if name in frame), None)

    def put(self, name: str, value) -> None:
        """Set a name in the innermost block."""
        self.frames[-1][name] = value


def constant_of(value) -> Value:
    """Return the expression of a value that is known."""
    if isinstance(value, (plugrad.layout, plugrad.memory_format)):
        return Value(["torch", str(value).removeprefix("torch.")], ANY, (value,))
    return Value(["const", value], of_value(value) or ANY, (value,))
