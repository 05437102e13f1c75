"""What programs are marked with, and what they ask: `ignore`, `unused`, `export`, `is_scripting`, `annotate`..."""

from __future__ import annotations

import contextlib
import typing
from collections import namedtuple

from plugrad.regions import declare, mode

__all__ = [
    "Attribute", "_overload", "_overload_method", "annotate", "enable_onednn_fusion", "export", "ignore", "interface",
    "is_scripting", "is_tracing",
    "isinstance", "onednn_fusion_enabled", "optimized_execution", "script_method", "set_fusion_strategy",
    "strict_fusion",
    "unused",
]  # fmt: skip

_isinstance = isinstance
Attribute = namedtuple("Attribute", ["value", "type"])
Attribute.__doc__ = "A value of a module and its type, for classes that are scripted."
_declared: dict = {}  # {(module, name): declarations} of overloaded functions
declare("tracing")  # `trace` runs a program in this thread


def ignore(drop=False, **kwargs):
    """Mark a function that stays Python's: staged programs call it as it is.

    They can't be saved then.

    Args:
        drop: True marks it as `unused` does.

    A decorator with or without arguments. The types of its arguments and result are those of its annotations.
    """
    if callable(drop):
        return _marked(drop, "ignore")
    if not isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    return unused if drop or kwargs.get("drop_on_export") else lambda fn: _marked(fn, "ignore")


def unused(fn):
    """Mark a function that staged programs leave out: to call it is an Error."""
    if _isinstance(fn, property):
        return property(_marked(fn.fget, "unused"), fn.fset and _marked(fn.fset, "unused"))
    return _marked(fn, "unused")


def export(fn):
    """Mark a method that is compiled though `forward` does not call it."""
    return _marked(fn, "export")


def script_method(fn):
    """Mark a method that is compiled, as `export` does."""
    return export(fn)


def _marked(fn, how):
    fn._staged_as = how
    return fn


def interface(obj):
    """Return the class: interfaces are not looked at."""
    return obj


def _overload(fn):
    """Note the declaration of a function: which one a call means is seen from the types of its arguments."""
    known = _declared.setdefault((fn.__module__, fn.__qualname__), [])
    known[:] = [one for one in known if one.__code__.co_firstlineno < fn.__code__.co_firstlineno]  # not of a reload
    known.append(fn)
    return fn


_overload_method = _overload


def declarations_of(fn) -> list:
    """Return the declarations of an overloaded function, none for others."""
    return _declared.get((fn.__module__, fn.__qualname__), [])


def is_scripting() -> bool:
    """Whether it is asked by a staged program: False, since in one it is True."""
    return False


def is_tracing() -> bool:
    """Whether `trace` runs the program in this thread."""
    return mode.tracing


def annotate(the_type, the_value):
    """Return the value; in a staged program it has that type."""
    return the_value


def isinstance(obj, target_type) -> bool:
    """Whether an object is of a type, also one of `typing`'s.

    For lists, dicts, tuples and optional values.
    """
    origin, arguments = typing.get_origin(target_type), typing.get_args(target_type)
    if _isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    if target_type is None:
        return obj is None
    if origin is None:
        return _isinstance(obj, target_type)
    if not _isinstance(origin, type) or origin.__name__ == "UnionType":  # Optional and Union
        return any(isinstance(obj, one) for one in arguments)
    if not _isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(k, arguments[0]) and isinstance(v, arguments[1]) for k, v in obj.items())
    if origin is tuple and Ellipsis not in arguments:
        return len(obj) == len(arguments) and all(map(isinstance, obj, arguments))
    return all(isinstance(item, arguments[0]) for item in obj)


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """A context without effect: programs are run as they are."""
    yield


class strict_fusion(contextlib.nullcontext):
    """A context without effect: no ops are fused.

    `torch.compile` takes staged programs.
    """


def set_fusion_strategy(strategy) -> list:
    """Accepted: no ops are fused. Returns the strategy before, an empty list."""
    return []


def enable_onednn_fusion(enabled) -> None:
    """Accepted: no ops are fused."""


def onednn_fusion_enabled() -> bool:
    """Always False."""
    return False
