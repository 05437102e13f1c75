"""Subclasses of Tensor that override what ops do, by a `__torch_function__` of their own."""

from __future__ import annotations

from plugrad.graph import modes
from plugrad.graph.modes import region


def disabled(func, types, args=(), kwargs=None):
    """Stand as `__torch_function__` in a class that overrides nothing: its results are plain Tensors."""
    with region(no_override=True):
        return func(*args, **(kwargs or {}))


_classes_watched = False


def watch_classes() -> None:
    """Note that a tensor of an overriding class exists: from now on composite ops ask for overrides, too."""
    global _classes_watched
    if not _classes_watched:
        _classes_watched = True
        modes.watched.add("overriding classes")
