"""Classes and functions that a program trusts: `load` unpickles objects of them, and of nothing else, by default."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict, defaultdict
from types import FunctionType, ModuleType

import plugrad
from plugrad.extend.blocks import Restoring
from plugrad.formats import CheckpointError

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]

_trusted: list = []  # classes, functions, and pairs (object, "module.name")


def add_safe_globals(safe_globals) -> None:
    """Trust classes and functions: `load` may restore objects of them.

    Without `weights_only=False`.

    Args:
        safe_globals: a list of classes and functions, or of pairs (object, "module.name") where a file names it
            otherwise. What is trusted is called while a file is loaded, with what the file says.

    >>> import io, fractions, plugrad as torch
    >>> file = io.BytesIO()
    >>> torch.save(fractions.Fraction(1, 3), file)
    >>> with torch.serialization.safe_globals([fractions.Fraction]):
    ...     torch.load(file)
    Fraction(1, 3)
    """
    for one in safe_globals:
        _names(one)  # refuses what has none
    _trusted.extend(one for one in safe_globals if one not in _trusted)


def get_safe_globals() -> list:
    """Return what is trusted."""
    return list(_trusted)


def clear_safe_globals() -> None:
    """Trust nothing any more."""
    _trusted.clear()


class safe_globals(Restoring):
    """Trust classes and functions in a `with` block.

    The argument is that of `add_safe_globals`.
    """

    def __init__(self, safe_globals):
        self._more = safe_globals

    def begin(self):
        self._before = get_safe_globals()
        add_safe_globals(self._more)

    def end(self):
        _trusted[:] = self._before


def _names(one) -> list:
    """Return the names under which pickles may mention something, as "module.name"."""
    if isinstance(one, tuple):
        return [one[1]]
    if not hasattr(one, "__module__") or not hasattr(one, "__qualname__"):
        raise TypeError(f"safe globals are classes, functions or pairs (object, 'module.name'), not {one!r}")
    return [f"{one.__module__}.{one.__qualname__}", f"{one.__module__}.{one.__name__}"]


def _made_of(make, *kinds):
    """Return what calls `make` with one argument of a few types: a range of a few bytes could fill any memory."""

    def call(*arguments):
        if len(arguments) > 1 or arguments and type(arguments[0]) not in kinds:
            given = ", ".join(type(argument).__name__ for argument in arguments)
            raise CheckpointError(
                f"Weights only load failed: the file makes a {make.__name__} of a {given}, which could fill any "
                f"memory; at the default it is made of a {' or '.join(kind.__name__ for kind in kinds)} alone"
            )
        return make(*arguments)

    return call


# What holds plain data, or makes an empty object of a class that is itself looked up.
_PLAIN = {
    "collections.OrderedDict": OrderedDict, "collections.defaultdict": defaultdict,
    "collections.Counter": _made_of(Counter, dict), "builtins.set": _made_of(set, list, tuple),
    "builtins.frozenset": _made_of(frozenset, list, tuple), "builtins.complex": complex, "builtins.slice": slice,
    "builtins.bytearray": _made_of(bytearray, bytes), "builtins.range": range, "builtins.object": object,
    "plugrad.tensor.tensor.Tensor": plugrad.Tensor, "plugrad.Tensor": plugrad.Tensor,
}  # fmt: skip


def unpickler():
    """Return an unpickler of what is trusted, None where that is nothing."""
    if not _trusted:
        return None
    known = {**_PLAIN, **trusted_names()}

    class SafeUnpickler(pickle._Unpickler):  # the one in Python, of which a step can be refused
        dispatch = dict(pickle._Unpickler.dispatch)

        def load_build(self):
            _refuse_to_change(self.stack[-2])
            pickle._Unpickler.load_build(self)

        dispatch[pickle.BUILD[0]] = load_build

        def find_class(self, module, name):
            if f"{module}.{name}" in known:
                return known[f"{module}.{name}"]
            if module == "copyreg" and name == "_reconstructor":
                return _reconstructed
            raise CheckpointError(
                f"Weights only load failed: the file holds pickled objects that need {module}.{name}, which is not "
                f"trusted: torch.serialization.add_safe_globals([{name}]) trusts it; if you trust the file as a whole, "
                "pass weights_only=False"
            )

    return SafeUnpickler


def trusted_names() -> dict:
    """Return what is trusted by the names under which pickles may mention it."""
    return {name: one[0] if isinstance(one, tuple) else one for one in _trusted for name in _names(one)}


def build_trusted(instance, state) -> None:
    """Give an object of a trusted class its state, as a pickle says it."""
    _refuse_to_change(instance)
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
        return
    state, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    vars(instance).update(state or {})
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


def _refuse_to_change(instance) -> None:
    if isinstance(instance, (type, FunctionType, ModuleType)):
        raise CheckpointError("Weights only load failed: the file would change a class or a function")


def _reconstructed(cls, base, state):
    """Return an empty object of a class that was looked up, as `copyreg` does, of plain classes only."""
    if base is not object:
        raise CheckpointError(f"Weights only load failed: {cls!r} derives from {base!r}, which takes an initial value")
    return object.__new__(cls)
