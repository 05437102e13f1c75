"""What goes wrong with plugins, as exceptions and as warnings of one line."""

from __future__ import annotations

import sys
import traceback
import warnings


class PluginLoadError(ImportError):
    """A name was used whose plugin failed to load; the cause is chained."""


class PluginWarning(UserWarning):
    """A third party's plugin or a setting is wrong; plugrad goes on without it."""


class AmbiguousNameError(AttributeError):
    """Two plugins bring one name, and the user has not said which to prefer."""


def warn(message: str, category=PluginWarning) -> None:
    """Give a warning of one line, without the line of source that Python would add."""
    warnings.warn_explicit(f"plugrad: {message}", category, "<plugrad>", 0)


def describe(error) -> str:
    """Return an exception, also one whose text can't be made, as a line to print."""
    notes = getattr(error, "__notes__", None)
    after = sum(str(note).count("\n") + 1 for note in notes) if isinstance(notes, (list, tuple)) else 0
    line = " ".join(traceback.format_exception_only(error)[-1 - after].removeprefix("plugrad.errors.").split())
    return "".join([c if c.isprintable() else f"\\x{ord(c):02x}" for c in line])


def flag(name: str, value) -> bool:
    """Return a bool argument; TypeError for what is none."""
    if value is not True and value is not False:
        raise TypeError(f"argument '{name}' must be bool, not {type(value).__name__}; write True or False")
    return value


def suggestion(name: str, known) -> str:
    """Return '; did you mean ...?' for the nearest known name, or nothing."""
    import difflib

    near = difflib.get_close_matches(name, list(known), 1, 0.75)
    return f"; did you mean {near[0]!r}?" if near else ""


def stack_is_deep() -> bool:
    """Whether the program, not its last call, took the stack before RecursionError."""
    frame, depth = sys._getframe(1), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return 2 * depth > sys.getrecursionlimit()
