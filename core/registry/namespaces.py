"""Modules whose names are looked up when they are first used: in rooms beside the core, and in the registry."""

from __future__ import annotations

import importlib
import sys
import types
from functools import partial
from importlib.machinery import ModuleSpec

from plugrad.registry.events import reserve
from plugrad.registry.lookup import kept, names_in, resolve


def lazy_names(namespace: dict, home: str | None, rooms: dict | None = None):
    """Return `__getattr__` and `__dir__` of a module that finds names when asked.

    Args:
        namespace: the module's globals, which keep what was found.
        home: the place where plugins can give it names, such as "nn.init"; None if there is none.
        rooms: modules beside the core, as {dotted path behind "plugrad.": "names that it gives to this module"}.
    """
    module, where = namespace["__name__"], {}
    for room, names in (rooms or {}).items():
        where |= dict.fromkeys(names.split(), room)
        parent, _, own = f"plugrad.{room}".rpartition(".")
        if parent == module:
            where[own] = room
    if home is not None:
        reserve(home, where)

    def __getattr__(name):
        if name in where:
            value = room = importlib.import_module(f"plugrad.{where[name]}")
            if not value.__name__.endswith(f".{name}"):
                value = getattr(room, name)
                if name not in vars(room):  # the room says anew each time what it is
                    return value
        elif home == "ops" and names_in(f"ops.{name}", failed=True):
            return namespace_module(f"ops.{name}", f"Ops of the namespace {name!r}.")
        else:
            try:
                if home is None or name.startswith("__"):
                    raise AttributeError(f"module {module!r} has no attribute {name!r}")
                find = partial(resolve, f"{home}.{name}" if home else name)
                return kept(find, partial(namespace.__setitem__, name))
            except AttributeError as error:
                if name.startswith("__") and name not in ("__all__", "__config__", "__future__"):  # Python asks
                    raise
                return importlib.import_module("plugrad.torch_modules").attribute(module, name, error)
        namespace[name] = value
        return value

    def __dir__():
        return sorted({*namespace, *where, *(names_in(home) if home is not None else ())})

    return __getattr__, __dir__


def namespace_module(home: str, doc: str, rooms: dict | None = None) -> types.ModuleType:
    """Return the module of a public namespace `plugrad.HOME`; see lazy_names."""
    module = sys.modules.get(f"plugrad.{home}")
    if module is None:
        module = sys.modules[f"plugrad.{home}"] = types.ModuleType(f"plugrad.{home}", doc)
        (module.__getattr__, module.__dir__), module.__path__ = lazy_names(vars(module), home, rooms), []
    return module


class LazyMethod:
    """Stands in a class for a method, and replaces itself by the function when that is first looked up.

    It is a plain class attribute rather than a `__getattr__`: a class with that makes every read of every attribute
    three times slower.
    """

    __slots__ = ("find", "owner", "name")

    def __init__(self, find, owner, name):
        self.find, self.owner, self.name = find, owner, name

    def __get__(self, instance, owner):
        function = kept(partial(self.find, self.name), partial(setattr, self.owner, self.name))
        return function.__get__(instance, owner) if instance is not None else function


def lazy_methods(cls: type, rooms: dict) -> None:
    """Give a class the methods and properties that stand in rooms beside the core; `rooms` as in lazy_names."""
    where = {name: room for room, names in rooms.items() for name in names.split()}

    def find(name):
        function = getattr(importlib.import_module(f"plugrad.{where[name]}"), name)
        getattr(function, "fget", function).__qualname__ = f"{cls.__qualname__}.{name}"
        return function

    for name in where:
        setattr(cls, name, LazyMethod(find, cls, name))


class Namespaces:
    """Finds `plugrad.ops.NAMESPACE`, and PyTorch's further module paths, for import statements."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """Return the spec of a third party's namespace or of such a path, None for everything else."""
        home, _, namespace = name.rpartition(".")
        if home == "plugrad.ops" and names_in(f"ops.{namespace}", failed=True):
            return ModuleSpec(name, cls)
        if not name.startswith("plugrad.") or name.startswith("plugrad.torch_modules"):
            return None
        return importlib.import_module("plugrad.torch_modules").find_spec(name)

    @staticmethod
    def create_module(spec):
        """Return the module."""
        return getattr(sys.modules["plugrad.ops"], spec.name.rpartition(".")[2])

    @staticmethod
    def exec_module(module):
        """Do nothing: names are looked up when they are used."""
