"""Modules whose names are looked up in the registry when they are first used."""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec

from plugrad.registry.lookup import names_in, resolve


class LazyModule(types.ModuleType):
    """A module whose further names are looked up in the registry: `plugrad.special`, `plugrad.linalg`..."""

    def __init__(self, home: str, doc: str):
        super().__init__(f"plugrad.{home}", doc)
        self.__dict__["_home"] = home

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        dotted = f"{self._home}.{name}"
        if self._home == "ops" and names_in(dotted, failed=True):
            return namespace_module(dotted, f"Ops of the namespace {name!r}.")
        value = self.__dict__[name] = resolve(dotted)
        return value

    def __dir__(self):
        return sorted({*super().__dir__(), *names_in(self._home)})


def namespace_module(home: str, doc: str) -> LazyModule:
    """Return the module of a public namespace, importable as `plugrad.HOME`."""
    module = sys.modules.get(f"plugrad.{home}")
    if module is None:
        module = sys.modules[f"plugrad.{home}"] = LazyModule(home, doc)
    return module


class Namespaces:
    """Finds `plugrad.ops.NAMESPACE` for import statements; a namespace becomes a module when it is first asked for."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """Return the spec of a namespace that some third party has, None for everything else."""
        home, _, namespace = name.rpartition(".")
        if home != "plugrad.ops" or not names_in(f"ops.{namespace}", failed=True):
            return None
        return ModuleSpec(name, cls)

    @staticmethod
    def create_module(spec):
        """Return the module."""
        return getattr(sys.modules["plugrad.ops"], spec.name.rpartition(".")[2])

    @staticmethod
    def exec_module(module):
        """Do nothing: names are looked up when they are used."""
