"""Real CuPy on a machine without a GPU: its build for HIP on a small runtime of our own, its kernels compiled by g++.

`load()` makes this process one in which `import cupy` finds two devices. CuPy is not changed: what it does with
arrays, which kernels it generates and launches, what it refuses, is its own. Below it are `runtime/` (memory, launches,
streams, products of matrices) and `include/` (the device's language in C++). What no such runtime can do is in
tests/known/cupy_on_cpu.txt. `python tests/cupy_on_cpu` runs the tests of the CUDA backend on it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

from cupy_on_cpu import libraries

WHEEL = "cupy-rocm-7-0==14.2"


def folder() -> pathlib.Path:
    """Return where the wheel is: apart from the environment, in which it would be a CuPy that can't be used."""
    return libraries.root() / WHEEL.replace("==", "-")


def install() -> None:
    """Install the wheel into its folder, if it is not there."""
    if not (folder() / "cupy").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder()), WHEEL]
        subprocess.run(command, check=True)


def reason() -> str | None:
    """Return why the stand-in can't be used here, None where it can."""
    if not (folder() / "cupy").exists():
        return f"{WHEEL} is not there: `python tests/cupy_on_cpu --install` brings it"
    if sys.platform != "linux" or not shutil.which("g++") or not shutil.which("nm"):
        return "it needs Linux, g++ and nm"
    return None


def load():
    """Return CuPy on the stand-in; RuntimeError where it can't be used, or CuPy was imported already."""
    if "cupy_on_cpu.patches" in sys.modules:
        return sys.modules["cupy"]
    if (why := reason()) is not None:
        raise RuntimeError(why)
    if "cupy" in sys.modules:
        raise RuntimeError("cupy was imported before the stand-in was loaded")
    sys.path.insert(0, str(folder()))
    package = importlib.util.find_spec("cupy").submodule_search_locations[0]
    cache = libraries.cache_folder()
    os.environ.update(CUPY_ACCELERATORS="", CUPY_CACHE_DIR=str(cache / "cupy"), ROCM_HOME=str(cache))
    before = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)
    try:
        for library in libraries.build(package):
            ctypes.CDLL(str(library), os.RTLD_LAZY | os.RTLD_GLOBAL)
        import cupy
    finally:
        sys.setdlopenflags(before)
    from cupy_on_cpu import patches

    patches.apply()
    return cupy


def counts() -> dict[str, int]:
    """Return how often kernels and graphs were launched, memory allocated, the host waited or was copied to, so far."""
    found = (ctypes.c_long * 5)()
    ctypes.CDLL(None).standin_counts(found)
    return dict(zip(("launches", "allocations", "waits", "copies_to_host", "replays"), found))


def set_order(seed: int) -> None:
    """Choose in which order the threads of a block run where they meet; 0 is the order of their numbers."""
    ctypes.CDLL(None).standin_order(ctypes.c_uint(seed))


def set_idle(on: bool) -> None:
    """Choose whether launches and products of matrices do nothing, so that what is measured is the host's time."""
    ctypes.CDLL(None).standin_idle(on)
