"""What `script` raises: refusals that show the line, and errors of programs that run."""

from __future__ import annotations

import ast

__all__ = [
    "OF_PYTHON", "Error", "FrontendError", "NotSupportedError", "UnsupportedNodeError", "failed", "refuse_starred",
    "unfinished", "unsupported", "wrong",
]  # fmt: skip

# What Python raises in a program; TorchScript raises its own error, a RuntimeError, in their place.
OF_PYTHON = (LookupError, ValueError, TypeError, ArithmeticError, AttributeError, NameError)


class Error(Exception):
    """What a staged program raises by `raise`, or where an `assert` does not hold.

    As in PyTorch it is no RuntimeError, which all other errors of programs are.
    """

    __module__ = "plugrad.jit"


class FrontendError(Exception):
    """A program is written in a way that `script` does not take."""


class NotSupportedError(FrontendError):
    """It uses something of Python's that is not part of the staged language."""


class UnsupportedNodeError(NotSupportedError):
    """It has a kind of statement or expression that is not."""


class Place:
    """A piece of a source: (file, its lines, number of the first) and a node of its syntax tree."""

    __slots__ = ("source", "node")

    def __init__(self, source, node):
        self.source, self.node = source, node

    def __str__(self):
        line = getattr(self.node, "lineno", 1)
        lines = self.source.lines
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        start = min(getattr(self.node, "col_offset", 0), len(text))
        end = getattr(self.node, "end_col_offset", None) if getattr(self.node, "end_lineno", line) == line else None
        width = max((len(text) if end is None else end) - start, 1)
        where = f'  File "{self.source.file}", line {line + self.source.first - 1}'
        return f"{where}\n{text}\n{' ' * start}{'~' * width} <--- HERE"


def wrong(message: str, place) -> RuntimeError:
    """Return the error of a program whose types, names or calls do not fit together."""
    return RuntimeError(f"\n{message}:\n{place}")


def unfinished(message: str, place) -> NotImplementedError:
    """Return the error of what TorchScript has and is not here."""
    return NotImplementedError(f"\n{message}:\n{place}")


def refuse_starred(target, source) -> None:
    """Refuse a starred target where no statement can follow that makes a tuple of what it gets."""
    if any(isinstance(one, ast.Starred) for one in ast.walk(target)):
        raise unsupported("Starred targets of comprehensions and `with`", source.place(target))


def unsupported(message: str, place) -> UnsupportedNodeError:
    """Return the error of what is not part of the language."""
    return UnsupportedNodeError(f"{message} aren't supported:\n{place}")


def failed(name: str, error: Exception) -> RuntimeError:
    """Return the error of a program in which Python, or an op, raised one."""
    line = error.__traceback__
    while line.tb_next is not None and not line.tb_frame.f_code.co_filename.startswith("<plugrad.jit"):
        line = line.tb_next
    return RuntimeError(
        f"The following operation failed in the staged program {name}, line {line.tb_lineno}: "
        f"{type(error).__name__}: {error}"
    )
