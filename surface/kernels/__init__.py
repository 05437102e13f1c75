"""Kernels in C: those of plugrad's own extension, and how ops use them.

The extension is optional. Without it, or with PLUGRAD_NATIVE=0 in the environment, ops run by NumPy alone;
PLUGRAD_NATIVE=base, avx2 or avx512 asks for one level of instructions. See docs/native.md.
"""

from __future__ import annotations

import functools
import os

from plugrad.kernels.joining import native

__all__ = ["extension", "function", "level", "levels", "native", "why_none"]


@functools.cache
def extension() -> tuple:
    """Return (level of instructions, C functions by name, why there are none)."""
    wanted = os.environ.get("PLUGRAD_NATIVE", "")
    if wanted == "0":
        return None, {}, "PLUGRAD_NATIVE=0 switches them off"
    try:
        from plugrad import _native
    except ImportError as error:
        return None, {}, f"the extension plugrad._native is not there, it was built without a C compiler ({error})"
    return *_native.kernels(*([wanted] if wanted not in ("", "1") else [])), None


def level() -> str | None:
    """Return the level of instructions that the kernels in C use: "avx2", say; None where there are none.

    >>> from plugrad import kernels
    >>> kernels.level() in (None, "base", "avx2", "avx512")
    True
    """
    return extension()[0]


def levels() -> list[str]:
    """Return the levels of instructions that this processor has; the best is the last."""
    from plugrad import _native

    return _native.levels()


def why_none() -> str | None:
    """Return why there are no kernels in C, where there are none."""
    return extension()[2]


def function(name: str):
    """Return a C function by its name; None where there is no extension, KeyError where it has no such function.

    It takes arrays and numbers, and returns NotImplemented for what it does not serve.
    """
    level, functions, _ = extension()
    return None if level is None else functions[name]
