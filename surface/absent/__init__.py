"""Names of PyTorch's that plugrad does not have, each with a reason, and what stands in their place.

`reasons.txt` lists classes of names by pattern. A name of one of them can be imported, compared and asked for its type,
so that a program that only mentions it runs; who calls it, makes an instance of it or derives from it gets a
NotImplementedError that says why it is not there and what to write. A module is one that has all names of its pattern.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import re
import sys
import types
from importlib.machinery import ModuleSpec
from importlib.resources import files


class AbsentError(NotImplementedError, AttributeError):
    """An attribute of something that plugrad does not have was asked for; `hasattr` takes it for no."""


@functools.cache
def reasons() -> dict:
    """Return {pattern: reason}; patterns are of dotted names behind `torch.`, as `fnmatch` takes them."""
    return _table("reasons.txt")


def _table(name) -> dict:
    """Return {pattern: text} of a file: lines of patterns, then indented lines of text."""
    table, pending = {}, []
    for line in files(__package__).joinpath(name).read_text().splitlines():
        if line.startswith("    "):
            text = " ".join(line.split())
            for pattern in pending:
                table[pattern] = f"{table[pattern]} {text}" if pattern in table else text
        elif line and not line.startswith("#"):
            pending = (pending if pending and pending[-1] not in table else []) + line.split()
    return table


@functools.cache
def reason(dotted: str) -> str | None:
    """Return why a name of PyTorch's is not there; None if nothing is known of it.

    >>> from plugrad import absent
    >>> print(absent.reason("quantize_per_tensor"))
    quantized tensors are kernels of their own for inference; train and infer in float32 or bfloat16
    """
    if dotted.rpartition(".")[2].startswith("__"):
        return None
    for beginning, pattern in _beginnings():  # else the first name that is missing has all patterns compiled
        if dotted.startswith(beginning) and fnmatch.fnmatchcase(dotted, pattern):
            return reasons()[pattern]
    return None


@functools.cache
def _beginnings() -> list:
    """Return (what each name of a pattern begins with, the pattern)."""
    return [(re.match(r"[^*?[]*", pattern)[0], pattern) for pattern in reasons()]


@functools.cache
def differences() -> dict:
    """Return {pattern: how the name differs from PyTorch's}, of names that are there."""
    return _table("differences.txt")


def difference(dotted: str) -> str | None:
    """Return how a name that is there differs from PyTorch's; None if it doesn't."""
    return next((how for pattern, how in differences().items() if fnmatch.fnmatchcase(dotted, pattern)), None)


def stands_for(value) -> bool:
    """Whether an object stands for a name that is not there."""
    return isinstance(value, (Absent, AbsentClass, AbsentModule)) or getattr(value, "_is_absent", False)


def _refuse(dotted):
    raise NotImplementedError(f"plugrad has no torch.{dotted}: {reason(dotted)}")


class Absent:
    """A function or value that is not there."""

    def __init__(self, dotted):
        self.__name__ = self.__qualname__ = dotted.rpartition(".")[2]
        self.__module__ = f"torch.{dotted}".rpartition(".")[0]
        self.__doc__ = f"Not there.\n\n{reason(dotted)}."
        self._dotted = dotted

    def __call__(self, *args, **kwargs):
        _refuse(self._dotted)

    def __getattr__(self, name):
        dotted = self.__dict__.get("_dotted", "")
        raise AbsentError(f"plugrad has no torch.{dotted}: {reason(dotted)}")

    def __reduce__(self):
        return instead, (self._dotted,)

    def __repr__(self):
        return f"<absent torch.{self._dotted}>"


class AbsentClass(type):
    """The type of classes that are not there, and of those derived from one: nothing is an instance of them."""

    def __call__(cls, *args, **kwargs):
        _refuse(cls._dotted)

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AbsentError(f"plugrad has no torch.{cls._dotted}: {reason(cls._dotted)}")


class AbsentModule(types.ModuleType):
    """A module that is not there; all names of it are absent."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        dotted = f"{self.__name__.partition('.')[2]}.{name}"
        value = _of_device(dotted) or named(dotted)
        if value is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        setattr(self, name, value)
        return value


def _of_device(dotted):
    """Return the functions that every program may ask of a device that is not there: is there one, how many?"""
    home, _, name = dotted.rpartition(".")
    if home in ("mps", "xpu", "mtia"):
        return {"is_available": lambda: False, "is_initialized": lambda: False, "device_count": lambda: 0}.get(name)
    return None


def is_module(dotted: str) -> bool:
    """Whether a dotted name is a module of PyTorch's that is not there."""
    return f"{dotted}.*" in reasons()


def module(dotted: str) -> AbsentModule:
    """Return the module that stands for one of PyTorch's; always the same."""
    full = f"plugrad.{dotted}"
    known = sys.modules.get(full)
    if known is None:
        known = sys.modules[full] = AbsentModule(full, f"Not there.\n\n{reason(dotted)}.")
        known.__path__ = []
    return known


def named(dotted: str):
    """Return what stands for a name of PyTorch's that is not there; None if nothing is known of it."""
    why = reason(dotted)
    if why is None:
        return None
    if is_module(dotted):
        return module(dotted)
    own = dotted.rpartition(".")[2]
    if own[:1].isupper() and not own.isupper():
        home = f"torch.{dotted}".rpartition(".")[0]
        return AbsentClass(own, (), {"__module__": home, "__doc__": f"Not there.\n\n{why}.", "_dotted": dotted})
    return Absent(dotted)


def instead(dotted: str, error: AttributeError | None = None):
    """Return what stands for a name that plugrad does not have, or raise `error`."""
    value = named(dotted)
    if value is None:
        raise error or AttributeError(f"module 'plugrad' has no attribute {dotted!r}")
    return value


def attributes(home: str):
    """Return the `__getattr__` of a module of plugrad's, for the names of PyTorch's that it does not have.

    >>> from plugrad import absent
    >>> find = absent.attributes("cuda")
    >>> find("no_such_name")
    Traceback (most recent call last):
    ...
    AttributeError: module 'plugrad.cuda' has no attribute 'no_such_name'
    """

    def __getattr__(name):
        error = AttributeError(f"module 'plugrad.{home}' has no attribute {name!r}")
        return importlib.import_module("plugrad.torch_modules").attribute(f"plugrad.{home}", name, error)

    return __getattr__


class Modules:
    """Loads the modules that are not there, for import statements."""

    @staticmethod
    def spec(full: str):
        """Return the spec of `plugrad.NAME`, None if it isn't a module of PyTorch's that is not there."""
        dotted = full.partition(".")[2]
        below = is_module(dotted) or type(sys.modules.get(full.rpartition(".")[0])) is AbsentModule
        return ModuleSpec(full, Modules, is_package=True) if below else None

    @staticmethod
    def create_module(spec):
        """Return the module."""
        return module(spec.name.partition(".")[2])

    @staticmethod
    def exec_module(module):
        """Do nothing: names are made when they are used."""


def __getattr__(name):
    # Methods of Tensor that are not there, which `plugrad.tensor.tensor` asks for.
    dotted = f"Tensor.{name}"
    if name.startswith("__") or reason(dotted) is None:
        raise AttributeError(f"module 'plugrad.absent' has no attribute {name!r}")

    def method(self, *args, **kwargs):
        _refuse(dotted)

    method._is_absent = True
    method.__name__, method.__qualname__, method.__doc__ = name, dotted, f"Not there.\n\n{reason(dotted)}."
    return method
