"""What is wrong with code in C: the extension, the compiler, and the folder of what was compiled."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import plugrad
from plugrad import kernels

LOADING = """
import importlib.util, sys
importlib.util.module_from_spec(importlib.util.spec_from_file_location("plugrad._native", sys.argv[1]))
"""
SWITCHED_OFF = os.environ.get("PLUGRAD_NATIVE") == "0"


def extension():
    """Yield why the extension `plugrad._native`, which is there, can't be used; it is loaded in another process.

    A file that is cut off ends the process that loads it.
    """
    spec = importlib.util.find_spec("plugrad._native")
    if SWITCHED_OFF or spec is None and not _others():
        return
    advice = "install plugrad again: pip install --force-reinstall --no-deps plugrad"
    if spec is None:
        yield "plugrad._native", f"{_others()[0]} is built for another Python; kernels in C are left out", advice
        return
    done = subprocess.run([sys.executable, "-c", LOADING, spec.origin], capture_output=True, text=True)
    if done.returncode:
        how = done.stderr.strip().rpartition("\n")[2] or f"loading it ends the process with {done.returncode}"
        yield "plugrad._native", f"the extension in C can't be loaded: {how}", advice
    elif kernels.why_none() is not None:
        yield "plugrad._native", kernels.why_none(), advice


def left_out():
    """Yield that there is no extension; plugrad works without one."""
    if SWITCHED_OFF:
        yield "plugrad._native", "kernels in C are switched off by PLUGRAD_NATIVE=0", "nothing, if that is meant"
    elif importlib.util.find_spec("plugrad._native") is None and not _others():
        problem = "there are no kernels in C: plugrad was installed without a C compiler, and NumPy computes all"
        yield "plugrad._native", problem, "nothing, if that is meant; else install gcc or clang, and plugrad again"


def _others() -> list[str]:
    """Return the files of the extension that are there for whatever Python."""
    folder = pathlib.Path(plugrad.__file__).parent
    return sorted(path.name for path in folder.glob("_native.*") if path.suffix in (".so", ".pyd"))


def compiler():
    """Yield why C can't be compiled, where there is a compiler or CC names one."""
    wanted = os.environ.get("CC")
    if wanted and shutil.which(wanted) is None:
        yield "CC", f"there is no command {wanted!r}", "write the command of a C compiler, or unset CC"
    why = kernels.why_not_compiled()
    if why is not None:
        yield "C compiler", why, "install gcc or clang, or set CC to the command of one that works"


def cache():
    """Yield why what is compiled can't be kept; nothing is made for that."""
    folder = kernels.cache_place()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    what = None if there.is_dir() else f"{there} is no folder"
    if what is None and not os.access(there, os.W_OK | os.X_OK):
        what = f"{there} can't be written to"
    if what is not None:
        problem = f"what is compiled can't be kept in {folder}: {what}"
        yield "PLUGRAD_CACHE", problem, "make it writable, or set PLUGRAD_CACHE to another folder"
