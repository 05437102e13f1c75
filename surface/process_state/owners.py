"""Whose something is that was met in the process: a plugin's, a library's, or that of Python, NumPy or plugrad."""

from __future__ import annotations

import functools
import sys

from plugrad import registry


def is_foreign(what, chosen=True) -> bool:
    """Whether a function, or a class, is a plugin's, or one of Python's that only a plugin can have `chosen`.

    Those of libraries, and what some modules of Python's register when they are first used, are their own affair.
    """
    while isinstance(what, functools.partial):
        what = what.func
    what = getattr(what, "__func__", what)
    home = getattr(what, "__module__", None) or type(getattr(what, "__self__", what)).__module__
    top = str(home).partition(".")[0]
    if is_of_plugin(top):
        return True
    return chosen and (top == "__main__" or top in sys.stdlib_module_names - _SELF_REGISTERED)


def is_of_plugin(module) -> bool:
    """Whether a module, or the package that it is in, is what a third party's entry point names."""
    top = str(module).partition(".")[0]
    return any(top == plugin.value.partition(":")[0].partition(".")[0] for plugin in _third_parties())


_SELF_REGISTERED = {
    "concurrent", "importlib", "logging", "multiprocessing", "rlcompleter", "site", "threading", "weakref",
}  # fmt: skip


def _third_parties() -> list:
    return [plugin for plugin in list(registry.plugins.values()) if not plugin.builtin]


def is_common(one) -> bool:
    """Whether a class or function is what all programs have: plugrad's, NumPy's or Python's; all of a tuple's."""
    if isinstance(one, tuple):
        return all(is_common(part) for part in one if isinstance(part, type) or callable(part))
    top = str(getattr(one, "__module__", None)).partition(".")[0]
    return top in ("plugrad", "numpy", "builtins") or top in sys.stdlib_module_names
