"""plugrad's own extension in C, where there is one, and the level of instructions that it uses."""

from __future__ import annotations

import functools
import importlib
import os
import pathlib
import warnings

ABI = 1  # of plugrad_native.h


class CompilationError(RuntimeError):
    """Source that the compiler refuses, in its own words, or no compiler."""


def text_of(source) -> str:
    """Return source that is given as text, or as the path of a file."""
    return source if isinstance(source, str) else pathlib.Path(source).read_text(encoding="utf-8")


def module():
    """Return the extension; RuntimeError, which says why, where there is none."""
    if why_none() is not None:
        raise RuntimeError(f"kernels in C can't be used: {why_none()}")
    return importlib.import_module("plugrad._native")


@functools.cache
def _extension() -> tuple:
    """Return (level of instructions, C functions by name, why there are none)."""
    wanted = os.environ.get("PLUGRAD_NATIVE", "")
    if wanted == "0":
        return None, {}, "PLUGRAD_NATIVE=0 switches them off"
    try:
        extension = importlib.import_module("plugrad._native")
    except ModuleNotFoundError as error:
        return None, {}, f"the extension plugrad._native is not there, plugrad was built without a C compiler ({error})"
    except ImportError as error:
        told = f"the extension plugrad._native can't be loaded ({error}); install plugrad again"
        warnings.warn(f"kernels in C are left out: {told}", stacklevel=2)
        return None, {}, told
    if not hasattr(extension, "over"):  # the newest of its functions
        return None, {}, "the extension plugrad._native is of an older build; install plugrad again"
    known = extension.levels()
    if wanted not in ("", "1", *known):
        told = f"PLUGRAD_NATIVE={wanted} is none of 0, 1, {', '.join(known)}: {known[-1]} is taken"
        warnings.warn(told, stacklevel=2)
        wanted = ""
    return *extension.kernels(*([] if wanted in ("", "1") else [wanted])), None


def level() -> str | None:
    """Return the level of instructions of the kernels in C: "avx2", say.

    None where there are none.

    >>> from plugrad import kernels
    >>> kernels.level() in (None, "base", "avx2", "avx512")
    True
    """
    return _extension()[0]


def levels() -> list[str]:
    """Return the levels of instructions that there are here, the best at last."""
    return module().levels()


def why_none() -> str | None:
    """Return why there are no kernels in C, where there are none."""
    return _extension()[2]


def function(name: str):
    """Return one of plugrad's C functions; None where there is none.

    There is no extension, or an older one that lacks it.

    It takes arrays and numbers, and returns NotImplemented for what it does not serve.
    """
    return _extension()[1].get(name)
