"""The libraries that CuPy's build for HIP is linked with, built from `runtime/`."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).parent
RUNTIME = "libamdhip64.so.7"  # holds everything; the others depend on it
OTHERS = (
    "libhiprtc.so.7", "libhipblas.so.3", "libhiprand.so.1", "libhipfft.so.0", "libhipsparse.so.4", "librocblas.so.5",
    "librocfft.so.0", "librocsolver.so.0", "libroctracer64.so.4", "libroctx64.so.4", "librccl.so.1",
)  # fmt: skip
OF_HIP = re.compile(r"_*hip[A-Z]|hip(blas|rand|fft|sparse|rtc)|roc(blas|fft|solver|tracer|tx)|rccl|nccl")
HIPRTC = (
    "CreateProgram DestroyProgram CompileProgram GetCodeSize GetCode GetProgramLogSize GetProgramLog AddNameExpression "
    "GetLoweredName GetBitcode GetBitcodeSize"
).split()
FLAGS = ("-O2", "-w", "-std=c++17", "-fPIC")
MISSING = """#include <cstdio>
#include <cstdlib>
static int missing(const char* name) {
    if (getenv("CUPY_ON_CPU_TRACE")) fprintf(stderr, "the stand-in has no %s\\n", name);
    return 801;
}
"""


def root() -> pathlib.Path:
    """Return the folder of all that is kept: `CUPY_ON_CPU_CACHE`, or one in ~/.cache."""
    return pathlib.Path(os.environ.get("CUPY_ON_CPU_CACHE") or pathlib.Path.home() / ".cache" / "plugrad-cupy-on-cpu")


@functools.cache
def cache_folder(kernels=False) -> pathlib.Path:
    """Return the folder of what was built from the sources as they are: the runtime's, or those that kernels see."""
    kinds = ("include/**/*.h", "kernels.py") if kernels else ("**/*.cpp", "**/*.h")
    sources = sorted(file for kind in kinds for file in HERE.glob(kind))
    version = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:16]
    folder = root() / version
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build(package: str) -> list[pathlib.Path]:
    """Return the libraries in the order of loading, building them where that was not done yet."""
    folder = cache_folder()
    paths = [folder / name for name in (RUNTIME, *OTHERS)]
    with open(folder / "lock", "w") as lock:  # several processes begin at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all(path.exists() for path in paths):
            _build_runtime(package, paths[0])
            nothing = folder / "nothing.cpp"
            nothing.write_text("")
            for path in paths[1:]:  # a symbol that is looked up in one of these is found in what it depends on
                _link(path, nothing, "-Wl,--no-as-needed", paths[0])
    return paths


def _link(path, *inputs):
    temporary = path.with_suffix(".new")
    command = ["g++", *FLAGS, "-shared", f"-Wl,-soname,{path.name}", "-o", str(temporary), *map(str, inputs)]
    subprocess.run(command, check=True)
    os.replace(temporary, path)


def _build_runtime(package, path):
    objects = []
    for source in sorted((HERE / "runtime").glob("*.cpp")):
        objects.append(path.with_name(source.stem + ".o"))
        command = ["g++", *FLAGS, "-c", "-I", str(HERE / "include"), "-o", str(objects[-1]), str(source)]
        subprocess.run(command, check=True)
    defined = {name for file in objects for name in _symbols("--defined-only", file)}
    backends = pathlib.Path(package).parent / "cupy_backends"
    wanted = {f"hiprtc{name}" for name in HIPRTC}
    for file in [*pathlib.Path(package).rglob("*.so"), *backends.rglob("*.so")]:
        wanted |= {name for name in _symbols("-D", "--undefined-only", file) if OF_HIP.match(name)}
    absent = [f'extern "C" int {name}() {{ return missing("{name}"); }}\n' for name in sorted(wanted - defined)]
    rest = path.with_name("missing.cpp")
    rest.write_text(MISSING + "".join(absent))
    _link(path, *objects, rest, "-ldl")


def _symbols(*arguments):
    told = subprocess.run(["nm", *map(str, arguments)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].partition("@")[0] for line in told.splitlines() if line.strip()}
