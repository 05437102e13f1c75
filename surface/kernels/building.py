"""Libraries of kernels in C: compiled once by the system's compiler, kept in a cache, loaded."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from plugrad.kernels import loading
from plugrad.kernels.loading import CompilationError, text_of

__all__ = ["build_library", "cache_folder", "cache_place", "load_library", "why_not_compiled"]

FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd")
HEADER = pathlib.Path(__file__).with_name("plugrad_native.h")


def build_library(c, name: str, flags: tuple = ()) -> pathlib.Path:
    """Return the path of the library that C source becomes.

    It is compiled if it is not in the cache.

    Arguments, the cache and errors are those of `load_inline`. One library may have many functions, for `load_library`.
    """
    compiler, version = _compiler()
    label = f"{name}.c" if isinstance(c, str) else pathlib.Path(c).name
    text = f'#include <math.h>\n#include "plugrad_native.h"\n#line 1 "{label}"\n{text_of(c)}\n'
    options = (*FLAGS, "-shared", "-fPIC", *flags)
    parts = (HEADER.read_text(), text, " ".join(options), version, platform.machine(), str(loading.ABI))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    try:
        library = cache_folder() / f"{name}-{key}{_suffix()}"
        if not _is_whole(library):
            _compile(compiler, options, text, library, name)
    except OSError as error:
        told = f"{name} can't be compiled and kept in {cache_place()} ({error}); PLUGRAD_CACHE names another folder"
        raise CompilationError(told) from None
    return library


def load_library(path, name: str, *, arrays: int, numbers: int = 0, like: int | None = None, strided: bool = False):
    """Load a kernel in C from a library that was compiled before.

    `path` is that of the library, the other arguments are those of `load_inline`. Raises OSError for a file that is no
    library, AttributeError where it has no function `name`.
    """
    extension = loading.module()
    library = _library(os.fspath(path))
    try:
        address = ctypes.cast(library[name], ctypes.c_void_p).value
    except AttributeError:
        raise AttributeError(f"{path} has no function {name!r}") from None
    if hasattr(library, "pg_connect"):
        library.pg_connect(ctypes.c_void_p(extension.parallel_address()))
    return extension.at_address(address, arrays, numbers, -1 if like is None else like, strided)


@functools.cache
def _library(path: str):
    return ctypes.CDLL(path)  # kept for good: functions of it may be called at any time


@functools.cache
def _compiler() -> tuple[str, str]:
    """Return (the compiler, what it says of its version)."""
    wanted = os.environ.get("CC")
    for command in (wanted, "cc", "gcc", "clang"):
        path = shutil.which(command) if command else None
        if path is not None:
            try:
                return path, subprocess.run([path, "--version"], capture_output=True, text=True).stdout
            except OSError as error:
                raise CompilationError(f"the C compiler {path} can't be run ({error})") from None
    raise CompilationError("there is no C compiler: install gcc or clang, or set CC to the command of one")


def why_not_compiled() -> str | None:
    """Return why the C compiler that is here makes no libraries.

    None where it does, and where there is none.
    """
    try:
        compiler, _ = _compiler()
    except CompilationError as error:
        return str(error) if "can't be run" in str(error) else None
    with tempfile.TemporaryDirectory() as folder:
        try:
            _compile(compiler, (*FLAGS, "-shared", "-fPIC"), "int f;\n", pathlib.Path(folder) / f"f{_suffix()}", "f")
        except (CompilationError, OSError) as error:
            return f"{compiler} makes no library: {str(error).strip()}"
    return None


def _suffix() -> str:
    return sysconfig.get_config_var("SHLIB_SUFFIX") or ".so"


def cache_place() -> pathlib.Path:
    """Return where the folder of compiled kernels is, or would be."""
    base = os.environ.get("PLUGRAD_CACHE")
    if base is None:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "plugrad")
    return pathlib.Path(base).absolute() / "kernels"


def cache_folder() -> pathlib.Path:
    """Return the folder of compiled kernels, made if it is not there."""
    folder = cache_place()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _compile(compiler, options, text, library, name) -> None:
    """Compile into a temporary file, then rename: of two processes that do it at once either result is whole."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        source, result = pathlib.Path(folder) / f"{name}.c", pathlib.Path(folder) / library.name
        source.write_text(text)
        command = [compiler, *options, f"-I{HEADER.parent}", str(source), "-o", str(result), "-lm"]
        told = subprocess.run(command, capture_output=True, text=True)
        if told.returncode:
            raise CompilationError(f"{name} does not compile ({' '.join(command[:1])}):\n{told.stderr}")
        if _SUMMED:
            digest = hashlib.sha256(result.read_bytes()).digest()  # FileNotFoundError where the compiler wrote none
            with open(result, "ab") as file:
                file.write(digest)
        os.replace(result, library)


_SUMMED = sys.platform != "darwin"  # where a library is signed up to its end


def _is_whole(library) -> bool:
    """Whether a library is as it was compiled: a part of one, as a full disk leaves it, may end the process.

    One that another user has put into the folder is not: to load it is to run it.
    """
    try:
        owner, content = library.stat().st_uid, library.read_bytes()
    except OSError:
        return False
    if hasattr(os, "getuid") and owner not in (0, os.getuid()):
        return False
    return not _SUMMED or hashlib.sha256(content[:-32]).digest() == content[-32:]
