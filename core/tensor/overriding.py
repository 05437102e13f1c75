"""Subclasses of Tensor that override what ops do, by a `__torch_function__` of their own."""

from __future__ import annotations

from plugrad.graph import modes
from plugrad.graph.modes import region


def disabled(func, types, args=(), kwargs=None):
    """Stand as `__torch_function__` in a class that overrides nothing."""
    with region(no_override=True):
        return func(*args, **({} if kwargs is None else kwargs))


def watch_classes(dispatches=False) -> None:
    """Have composite ops ask for overrides from now on: a class with some exists.

    `dispatches` says that it is one of those that have a `__torch_dispatch__`.
    """
    modes.watched.add("dispatching classes" if dispatches else "overriding classes")
