"""Warnings that a process gives once, or each time if it asks for that."""

from __future__ import annotations

import sys
import warnings

_said: set = set()
_always = {"mode": False}


def set_warn_always(b) -> None:
    """Give warnings that are given once in a process each time, or not.

    Raises RuntimeError for what is no bool.

    >>> import plugrad as torch
    >>> torch.set_warn_always(True)
    >>> torch.is_warn_always_enabled()
    True
    >>> torch.set_warn_always(False)
    """
    if not isinstance(b, bool):
        raise RuntimeError(f"set_warn_always expects a bool, but got {type(b).__name__}")
    _always["mode"] = b


def is_warn_always_enabled() -> bool:
    """Return what `set_warn_always` was last told, False before."""
    return _always["mode"]


def warn_once(key: str, message: str, stacklevel: int | None = 2, category=UserWarning) -> None:
    """Warn the first time that this is called with `key`.

    After `set_warn_always(True)` it warns each time. `stacklevel=None` leads to the first caller outside of plugrad.
    """
    if _always["mode"] or key not in _said:
        _said.add(key)
        warnings.warn(message, category, stacklevel=1 + (_level_outside() if stacklevel is None else stacklevel))


def _level_outside() -> int:
    frame, level = sys._getframe(2), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "plugrad").partition(".")[0] == "plugrad":
        frame, level = frame.f_back, level + 1
    return level
