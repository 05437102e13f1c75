"""The tables a Module keeps in its ``__dict__``, and helpers its parts share."""

from __future__ import annotations

import importlib
from collections import OrderedDict


class Table:
    """A table of one instance, made when it is first looked at.

    Being a non-data descriptor it runs only while the instance has no such table, so a class that forgets
    ``super().__init__()``, or an old pickle that lacks a table, works; and unused tables cost nothing.
    """

    __slots__ = ("make", "name")

    def __init__(self, make=OrderedDict):
        self.make = make

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        # setdefault and not assignment: two threads that look at once must end up with the same table.
        return instance.__dict__.setdefault(self.name, self.make())


def room(name: str):
    """Import a module beside the core, at the first use of what it is for."""
    return importlib.import_module(f"plugrad.{name}")


def typename(value) -> str:
    """How error messages call ``value``: by its tensor type, its name or its class."""
    return room("queries").typename(value)


def addindent(text: str, spaces: int) -> str:
    """Indent every line of ``text`` but the first; blank lines stay empty."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line if line.strip() else "" for line in rest)])
