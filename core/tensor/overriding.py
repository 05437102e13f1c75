"""Subclasses of Tensor that override what ops do, by a `__torch_function__` of their own."""

from __future__ import annotations

from plugrad.graph import modes
from plugrad.graph.modes import mode


def disabled(func, types, args=(), kwargs=None):
    """Stand as `__torch_function__` in a class that overrides nothing: its results are plain Tensors."""
    previous, mode.no_override = mode.no_override, True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        mode.no_override = previous


_classes_watched = False


def watch_classes() -> None:
    """Note that a tensor of an overriding class exists: from now on composite ops ask for overrides, too."""
    global _classes_watched
    if not _classes_watched:
        _classes_watched = True
        modes.watched += 1
