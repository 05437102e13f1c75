"""Instances and enumerations of staged programs, and what becomes of them where a program is entered and left.

A program has objects of its own: an instance of a program's class is an `Instance`, whose attributes and methods have
names that nothing else has, so that reading one, which a file may ask for, reads nothing else. What a caller gives is
copied when the program begins, and what the program returns when it ends, as lists are.
"""

from __future__ import annotations

import enum
import weakref

from plugrad.jit.types import Mismatch, Type, accepted

__all__ = ["FIELD", "METHOD", "SETS", "SPECIAL", "ClassRecord", "EnumRecord", "Instance", "handed_out", "records_of"]

FIELD, METHOD = "_of_", "_do_"  # names of attributes and of methods begin with it
SETS = "__set"  # the end of the name of a property's setter
# Methods that operators, len(), str() and the like call.
SPECIAL = frozenset(
    "__init__ __post_init__ __enter__ __exit__ __len__ __str__ __repr__ __int__ __float__ __bool__ __complex__ "
    "__getitem__ "
    "__setitem__ __delitem__ __contains__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __add__ __sub__ __mul__ "
    "__truediv__ __floordiv__ __mod__ __pow__ __matmul__ __and__ __or__ __xor__ __lshift__ __rshift__ __iadd__ "
    "__isub__ __imul__ __itruediv__ __neg__ __pos__ __invert__ __abs__ __hash__ __call__".split()
)
_CALLED_BY_NAME = frozenset("__init__ __post_init__ __enter__ __exit__ __call__ __hash__".split())
_records: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # {name in programs: record}


class Instance:
    """An object of a program's class, as the program has it; outside, its attributes and methods have their names."""

    __slots__ = ("__weakref__",)
    _record = None

    def __getattr__(self, name):
        if not name.startswith("_"):
            if name in self._record.fields:
                return getattr(self, FIELD + name)
            if (function := getattr(type(self), METHOD + name, None)) is not None:
                return function(self) if name in self._record.properties else function.__get__(self)
        raise AttributeError(f"a {self._record.name} has no attribute {name!r}")

    def __setattr__(self, name, value):
        kind = self._record.fields.get(name)
        object.__setattr__(self, *((name, value) if kind is None else (FIELD + name, accepted(value, kind))))

    def __repr__(self):
        return f"<{self._record.name} object>"


class Record:
    """What is known of a class: `name`, which no other has, `type`, `home`, and `python`, the class if it is here."""

    def __init__(self, name, home, python=None):
        number, self.name = 0, name
        while self.name in _records:
            number += 1
            self.name = f"{name}_{number}"
        _records[self.name] = self
        self.type, self.home, self.python = Type(self.name, cls=self), home, python


def records_of(home: str) -> list:
    """Return the records of the classes that stood at a place, `module.name`."""
    return [one for one in tuple(_records.values()) if one.home == home]


class ClassRecord(Record):
    """A class with attributes and methods.

    Attributes:
        fields: {name: Type}.
        properties: names of methods that are read as attributes are.
        program: the methods' Program, whose functions take the object first.
        unit: what compiles its methods; of a class from a file the record itself, whose methods are all there.
        runtime: the class of its objects, a subclass of Instance.
    """

    def __init__(self, name, home, python=None):
        super().__init__(name, home, python)
        self.fields: dict = {}
        self.properties: set = set()
        self.program = self.runtime = None
        self.unit = self

    def method(self, name, refuse=None, node=None):
        """Return the signature of a method; None if there is none of that name."""
        return self.program.signatures.get(name)

    def static(self, name):
        """Return no static method: programs have them among their functions."""

    def finish(self) -> None:
        """Make the class of its objects, of the functions that were made."""
        space = {"__slots__": [FIELD + one for one in self.fields], "_record": self, "__hash__": object.__hash__,
                 "__module__": "staged"}  # fmt: skip
        for name, function in self.program.functions.items():
            if name in self.program.signatures:
                space[METHOD + name] = function
                if name in SPECIAL - _CALLED_BY_NAME:
                    space[name] = function
        self.runtime = type(self.name, (Instance,), space)

    def holds(self, value) -> bool:
        """Whether a value of a program is an object of the class."""
        return type(value) is self.runtime

    def construct(self, *args, **kwargs):
        """Return a new object: what a program's call of the class does."""
        new = self.runtime()
        getattr(new, METHOD + "__init__")(*args, **kwargs)
        return new

    def filled(self, values: dict):
        """Return an object with such attributes."""
        new = self.runtime()
        for name, value in values.items():
            object.__setattr__(new, FIELD + name, value)
        return new

    def taken(self, value):
        """Return a value from outside as an object of the program: anything that has the attributes is copied."""
        if type(value) is self.runtime:
            return value
        if not all(hasattr(value, name) for name in self.fields):
            raise Mismatch
        return self.filled({name: accepted(getattr(value, name), kind) for name, kind in self.fields.items()})

    def given(self, value):
        """Return an object as the program's caller gets it: of the class, where it is known."""
        if self.python is None:
            return value
        new = self.python.__new__(self.python)
        for name in self.fields:
            if hasattr(value, FIELD + name):
                object.__setattr__(new, name, handed_out(getattr(value, FIELD + name)))
        return new


class EnumRecord(Record):
    """An enumeration, whose values are all of one type."""

    def __init__(self, name, home, members, value_type, python=None):
        super().__init__(name, home, python)
        self.value_type = value_type
        self.members = members if isinstance(members, type) else enum.Enum(name, members)

    def holds(self, value) -> bool:
        """Whether a value of a program is a member."""
        return type(value) is self.members

    def taken(self, value):
        """Return a member from outside: this one's, or one of the same name and value of a class of the same name."""
        if type(value) is self.members:
            return value
        known = isinstance(value, enum.Enum) and self.members.__members__.get(value.name)
        if not known or known.value != value.value or type(value).__name__ != self.members.__name__:
            raise Mismatch
        return known


def handed_out(value):
    """Return what a program returns as its caller gets it: objects of the caller's classes."""
    if isinstance(value, Instance):
        return value._record.given(value)
    if type(value) is list:
        return [handed_out(one) for one in value]
    if type(value) is dict:
        return {handed_out(key): handed_out(one) for key, one in value.items()}
    if isinstance(value, tuple):
        items = [handed_out(one) for one in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
