"""Kernels in CUDA C, as CuPy generates them or a program writes them: compiled by g++, kept on disk."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pathlib
import re
import subprocess

from cupy_on_cpu.libraries import HERE, RUNTIME, cache_folder

# Names that are unique in a process would be one memory for kernels that were compiled with different options.
FLAGS = ("-O0", "-w", "-std=c++17", "-fpermissive", "-fPIC", "-ffp-contract=off", "-fno-gnu-unique")
NAME = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")
MEETS = re.compile(r"__syncthreads|__shfl|__syncwarp|_REDUCE|cub::")
DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\s*\(\d+\)\s*)?([\w:<>, ]+?)\s+(\w+)\s*\[\s*\]\s*;")
DOUBLE = re.compile(r"CArray<(?:complex<)?double|typedef (?:complex<)?double|double\s*\*")


def kind_of(source: str) -> str:
    """Return how the threads of a kernel run: see `Kind` in include/standin.h."""
    if MEETS.search(source):
        return "FIBERS"
    # A thread that walks a grid-stride loop to its end does the work of all, unless it may leave the loop.
    return "ONE_THREAD" if "CUPY_FOR" in source and "return;" not in source else "EVERY_THREAD"


def translation(source: str, expressions=()) -> str:
    """Return the C++ of kernels: the source, and a record for each that the runtime launches by.

    Where there are instances of templates to be found by name, these are the kernels.
    """
    text = DYNAMIC.sub(r"\1* \2 = (\1*)standin::dynamic_shared;", source)
    record = f"standin::{kind_of(source)}, {str(not DOUBLE.search(source)).lower()}"
    for kernel in expressions or dict.fromkeys(NAME.findall(source)):
        name = exported(kernel)
        text += (
            f"\nstatic void body_{name}(void** from) {{ standin::apply({kernel}, from); }}"
            f"\nstatic size_t keep_{name}(void** from, char* into) {{ return standin::keep({kernel}, from, into); }}"
            f'\nextern "C" const standin::Kernel kernel_{name} = '
            f"{{body_{name}, keep_{name}, standin::count_of({kernel}), {record}}};\n"
        )
    return text


def exported(kernel: str) -> str:
    """Return the name of a kernel, or of an instance of a template, as its record is called."""
    return re.sub(r"\W", "_", kernel)


def compiled(source: str, options=(), include: str = "", expressions=()) -> pathlib.Path:
    """Return the library of kernels; CompileException with the compiler's first errors."""
    rocm = f"-I{cache_folder()}"  # where CuPy takes ROCm to be: no kernel is another one because the runtime is
    options = [option for option in options if option.startswith(("-D", "-I")) and not option.startswith(rocm)]
    prefix = _prefix(include)
    key = hashlib.sha256("\0".join([source, *options, *expressions]).encode()).hexdigest()[:32]
    path = cache_folder(kernels=True) / "kernels" / f"{key}.so"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        own = path.with_name(f"{key}.{os.getpid()}.cpp")
        own.write_text(translation(source, expressions))
        made = own.with_suffix(".so")
        command = ["g++", *FLAGS, "-pipe", "-include", str(prefix), "-shared", *_includes(include), *options]
        # The runtime brings the libraries of C++ and mathematics: to look for their symbols here takes a fifth longer.
        command += ["-nostdlib", "-o", str(made), str(own), str(cache_folder() / RUNTIME)]
        told = subprocess.run(command, capture_output=True, text=True)
        if told.returncode:
            errors = [line for line in told.stderr.splitlines() if "error" in line]
            message = f"a kernel does not compile, {own}:\n" + "\n".join(errors[:10] or [told.stderr])
            from cupy.cuda.compiler import CompileException  # CuPy is at hand only where it was loaded

            raise CompileException(message, source, str(own), options, "g++")
        own.unlink()
        os.replace(made, path)
    return path


def count() -> int:
    """Return how many libraries of kernels are in the cache."""
    return len(list((cache_folder(kernels=True) / "kernels").glob("*.so")))


def _includes(include):
    return ["-I", str(HERE / "include"), "-I", include]


@functools.cache
def _prefix(include):
    """Return the header that precedes all kernels, compiled beforehand."""
    folder = cache_folder(kernels=True)
    header, made = folder / "prefix.h", folder / "prefix.h.gch"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            header.write_text((HERE / "include" / "prefix.h").read_text())
            temporary = folder / "prefix.new"
            command = ["g++", *FLAGS, *_includes(include), "-x", "c++-header", str(header), "-o", str(temporary)]
            subprocess.run(command, check=True)
            os.replace(temporary, made)
    return header
