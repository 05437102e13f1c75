"""PyTorch's module paths beside those that are packages here: `torch.nn.modules.conv`, `torch.jit`, `torch.version`...

A path is one of four things: another name of a module (`ALIASES`), a view of the names that a public namespace has
(`VIEWS`, by a pattern, so that a new layer is where PyTorch would have it), the module of an optimizer's plugin, or
names that have no counterpart here and say so when they are used (`plugrad.absent`). The import system asks
`find_spec`, and a namespace that lacks a name asks `attribute`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from plugrad import absent
from plugrad.torch_modules import borrowed
from plugrad.torch_modules.paths import ALIASES, NATIVE, NO_EXPORTS, PRIVATE, VIEWS

__all__ = ["attribute", "exports", "find_spec", "imported"]

_PATHS = (*VIEWS, *ALIASES)


def imported(name: str):
    """Return a module by its name, importing it."""
    return importlib.import_module(name)


def at(name: str):
    """Return what stands under a dotted name: a module, or something in one."""
    home, _, own = name.rpartition(".")
    module = imported(home or name)
    if not home:
        return module
    return getattr(module, own) if hasattr(module, own) else imported(name)  # a module that nobody has imported yet


def find_spec(name: str):
    """Return the spec of a module path of PyTorch's, such as "plugrad.nn.modules.conv", or None."""
    path = name.removeprefix("plugrad.")
    if path == "__main__":
        command = pathlib.Path(importlib.util.find_spec("plugrad.cli").origin).with_name("__main__.py")
        return importlib.util.spec_from_file_location(name, command)
    if path in VIEWS or _real_name(path) is not None:
        return ModuleSpec(name, _Loader, is_package=any(other.startswith(f"{path}.") for other in _PATHS))
    return None if name.startswith("plugrad.absent") else absent.Modules.spec(name)


def _real_name(path):
    """Return the name of the module that a path means; None if it is no such path."""
    if path in ALIASES:
        return f"plugrad.{ALIASES[path]}"
    home, _, name = path.rpartition(".")
    plugin = f"plugrad.plugins.{path}"  # PyTorch's `optim.adam` is where our Adam is written
    return plugin if home == "optim" and importlib.util.find_spec(plugin) is not None else None


class _Loader:
    @staticmethod
    def create_module(spec):
        """Return the view that a path is, None for another name of a module."""
        path = spec.name.removeprefix("plugrad.")
        if path.startswith("optim.") and path not in ALIASES:
            return OptimizerView(spec.name, f"plugins.{path}", "[A-Z].*")
        return View(spec.name, *VIEWS[path]) if path in VIEWS else None

    @staticmethod
    def exec_module(module):
        """Put the module that a path means into the place of the empty one."""
        name = module.__spec__.name
        path = name.removeprefix("plugrad.")
        if path not in VIEWS and type(module) is not OptimizerView:
            sys.modules[name] = imported(_real_name(path))


class View(ModuleType):
    """A module of those public names of a namespace that match a pattern, and of the private bases of such classes.

    >>> import plugrad as torch
    >>> torch.nn.modules.conv.Conv2d is torch.nn.Conv2d, issubclass(torch.nn.Conv2d, torch.nn.modules.conv._ConvNd)
    (True, True)
    """

    def __init__(self, name, home, pattern):
        super().__init__(name, f"PyTorch's module path of names that `plugrad.{home}` has.")
        self._home, self._pattern = imported(f"plugrad.{home}" if home else "plugrad"), pattern
        self._hidden = vars(self._home).get(name.rpartition(".")[2])

    def __call__(self, *args, **kwargs):
        """Call the function of the same name: importing the module `autograd.gradcheck` must not hide the function."""
        function = self._hidden or getattr(self._home, self.__name__.rpartition(".")[2], self)
        if isinstance(function, ModuleType):
            raise TypeError(f"'module' object is not callable: {self.__name__} is a module of names")
        return function(*args, **kwargs)

    def __dir__(self):
        return [*super().__dir__(), *self.__all__]

    def __getattr__(self, name):
        if name == "__all__":
            return [one for one in exports(self._home) if re.fullmatch(self._pattern, one)]
        error = AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name.startswith("__"):
            raise error
        if find_spec(f"{self.__name__}.{name}") is not None:
            return imported(f"{self.__name__}.{name}")
        base = self._private(name) if name.startswith("_") else None
        if base is not None:
            return base
        try:
            return getattr(self._home, name)  # any of its names: PyTorch's modules import each other's
        except AttributeError:
            inside = self._inside(name)
            if inside is None and (inside := borrowed.find(self.__name__, name, at)) is None:
                raise error from None
            return inside

    def _classes(self) -> list:
        return [one for one in (getattr(self._home, public) for public in self.__all__) if isinstance(one, type)]

    def _private(self, name):
        """Return the class of that name from which one of the view's classes derives, or None."""
        return next((base for one in self._classes() for base in one.__mro__ if base.__name__ == name), None)

    def _inside(self, name):
        """Return what has that name, or the private one, in a module that one of the view's classes is of, or None."""
        modules = dict.fromkeys(sys.modules[one.__module__] for one in self._classes())
        names = (name, f"_{name}")
        return next((vars(module)[one] for module in modules for one in names if one in vars(module)), None)


class OptimizerView(View):
    """The module of an optimizer's plugin, with the function of its name that PyTorch has there.

    >>> import plugrad as torch
    >>> torch.optim.sgd.sgd.__name__, torch.optim.sgd.SGD is torch.optim.SGD
    ('sgd', True)
    """

    def __getattr__(self, name):
        own = self.__name__.rpartition(".")[2]
        function = imported("plugrad.torch_modules.optimizers").named(name) if name == own else None
        if function is None and f"optim.optimizer.{name}" in PRIVATE:
            return getattr(imported("plugrad.optim.optimizer"), name)
        return super().__getattr__(name) if function is None else function


def attribute(module: str, name: str, error: AttributeError):
    """Return what a module has by PyTorch's paths.

    A submodule, its `__all__`, or what stands for an absent name. Raises the error otherwise.
    """
    if name == "__all__":
        return exports(sys.modules[module])
    if module == "plugrad" and name.startswith("_foreach_") and (each := imported("plugrad.foreach").function(name)):
        return each
    if module == "plugrad" and name in NATIVE:
        return getattr(imported("plugrad.native"), name)
    if module == "plugrad" and re.fullmatch(r"[a-z]+_autocast_(cpu|gpu|ipu|xla)_[a-z]+", name):
        return getattr(imported("plugrad.amp"), name)
    if module == "plugrad.ops" and (space := imported("plugrad.library").namespace(name)) is not None:
        return space
    path = f"{module}.{name}"
    private = PRIVATE.get(path.removeprefix("plugrad."))
    if private is not None:
        return at(private)
    if find_spec(path) is None or name == "__main__":
        if (value := borrowed.find(module, name, at)) is not None:
            return value
        if type(error) is not AttributeError:
            raise error
        return absent.instead(path.removeprefix("plugrad."), error)
    try:
        return imported(path)
    except ImportError as missing:  # what it needs is not installed
        raise error from missing


def exports(module) -> list[str]:
    """Return the names that `from ... import *` takes: the public ones of PyTorch's that the module has.

    >>> import plugrad as torch
    >>> "relu" in exports(torch), "Linear" in exports(torch.nn), "sys" in exports(torch.nn)
    (True, True, False)
    """
    path = module.__name__.removeprefix("plugrad").lstrip(".")
    static = vars(module).get("__all__")
    if static is not None:
        return list(static)
    hidden = NO_EXPORTS.get(path, "")
    names = [name for name in dir(module) if not name.startswith("_") and not re.fullmatch(hidden, name)]
    return names if path else [name for name in names if not _is_module(name, vars(module))]


def _is_module(name, namespace) -> bool:
    """Whether a name of plugrad's is a module, which is not imported to know it."""
    if name in namespace:
        return isinstance(namespace[name], ModuleType)
    return importlib.util.find_spec(f"plugrad.{name}") is not None
