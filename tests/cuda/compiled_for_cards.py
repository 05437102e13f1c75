"""Compile plugrad's kernels in CUDA C++ for several generations of cards, with no card and no driver.

    python tests/cuda/compiled_for_cards.py --install     # NVIDIA's compilers, as wheels, into a folder of their own
    python tests/cuda/compiled_for_cards.py               # compile, and print the table
    python tests/cuda/compiled_for_cards.py --write       # and put it into docs/cuda.md

NVRTC makes what CuPy would have it make, and `ptxas` the instructions of each card; it says how many registers a thread
takes, and what did not find room in them. A kernel that does not compile, or spills, is an error. Those that are
compiled with several options are told by their largest numbers.
"""

import argparse
import concurrent.futures
import ctypes
import gc
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from plugrad import plugins
from plugrad.catalog.rows import load_everything
from plugrad.kernels.cuda import THREADS, TYPES, WARP, CudaFunction, cuda_text

CARDS = {"75": "Turing", "80": "Ampere", "90": "Hopper", "120": "Blackwell"}
VERSION = "12.9.86"
PLUGINS = pathlib.Path(plugins.__file__).parent
TOLD = ("float32", "float64")  # in the table; others are compiled for one card
OTHERS = "90"
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cuda.md"
BEGIN, END = "<!-- kernels: written by tests/cuda/compiled_for_cards.py --write -->\n", "<!-- end of kernels -->\n"


def folder() -> pathlib.Path:
    """Return where the compilers are."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / f"plugrad-cuda-compilers-{VERSION}"


def install() -> None:
    """Bring the compilers, some 130 MB, if they are not there."""
    if not (folder() / "nvidia").is_dir():
        packages = [f"nvidia-cuda-nvrtc-cu12=={VERSION}", f"nvidia-cuda-nvcc-cu12=={VERSION}"]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder())]
        subprocess.run([*command, *packages], check=True)


def functions() -> list:
    """Return every kernel of ours, by file, name and options."""
    load_everything()
    found = [one for one in gc.get_objects() if isinstance(one, CudaFunction) and isinstance(one.source, pathlib.Path)]
    ours = [one for one in found if PLUGINS in one.source.parents]
    distinct = {(str(one.source), one.__name__, one.flags): one for one in ours}
    return [distinct[key] for key in sorted(distinct)]  # each once: some are the kernel of several ops


class Compiler:
    """NVRTC, as a library."""

    def __init__(self):
        (library,) = (folder() / "nvidia" / "cuda_nvrtc" / "lib").glob("libnvrtc.so.*")
        self.library = ctypes.CDLL(str(library))

    def ptx(self, text, expressions, card, threads, flags=()) -> tuple[str, list]:
        """Return the intermediate code of instances of templates, for blocks of so many threads, and their names in it.

        RuntimeError, with the log, where they do not compile.
        """
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
        for expression in expressions:
            self.library.nvrtcAddNameExpression(program, expression.encode())
        given = f"--gpu-architecture=compute_{card}", "--std=c++17", f"-DPG_THREADS={threads}", *flags
        options = (ctypes.c_char_p * len(given))(*map(str.encode, given))
        if self.library.nvrtcCompileProgram(program, len(given), options):
            self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            self.library.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"{expressions} do not compile for sm_{card}:\n{log.value.decode()}")
        names = []
        for expression in expressions:
            name = ctypes.c_char_p()
            self.library.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name))
            names.append(name.value.decode())
        self.library.nvrtcGetPTXSize(program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        self.library.nvrtcGetPTX(program, code)
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return code.value.decode(), names


def registers(code, card) -> dict:
    """Return, by name, the registers of a thread, bytes of shared memory, and bytes without room in registers."""
    with tempfile.TemporaryDirectory() as place:
        source = pathlib.Path(place) / "kernel.ptx"
        source.write_text(code)
        command = [folder() / "nvidia" / "cuda_nvcc" / "bin" / "ptxas", "-v", f"--gpu-name=sm_{card}", source]
        told = subprocess.run([*command, "-o", pathlib.Path(place) / "kernel.cubin"], capture_output=True, text=True)
    if told.returncode:
        raise RuntimeError(f"ptxas refuses a kernel for sm_{card}:\n{told.stderr}")
    found = {}
    for part in told.stderr.split("Compiling entry function '")[1:]:
        shared = re.search(r"(\d+) bytes smem", part)
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", part)))
        used = int(re.search(r"Used (\d+) registers", part)[1])
        found[part.partition("'")[0]] = used, int(shared[1]) if shared else 0, spilled
    return found


def programs() -> dict:
    """Return what is compiled together: by source, options and threads of a block, the kernels and their types."""
    together = {}
    for function in functions():
        for threads in (WARP, THREADS) if function.per in ("row", "rows") else (function.threads,):
            instances = [(function.__name__, dtype) for dtype in TYPES if dtype in function.types]
            together.setdefault((function.source, function.flags, threads), []).extend(instances)
    return together


def measured(compiler, program, instances, card) -> list:
    """Return (source, kernel, type, card, registers, shared memory) of kernels; RuntimeError for one that spills."""
    if not instances:
        return []
    source, flags, threads = program
    expressions = [f"{name}<{TYPES[dtype]}>" for name, dtype in instances]
    code, names = compiler.ptx(cuda_text(source), expressions, card, threads, flags)
    found, rows = registers(code, card), []
    for (name, dtype), lowered in zip(instances, names):
        used, shared, spilled = found[lowered]
        if spilled:
            raise RuntimeError(f"{name} of {dtype} spills {spilled} bytes on sm_{card}, of {threads} threads, {flags}")
        rows.append((source, name, dtype, card, used, shared))
    return rows


def table() -> str:
    """Return the table of all kernels: registers of a thread by card."""
    compiler, most = Compiler(), {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = []
        for program, instances in programs().items():
            for card in CARDS:
                chosen = [one for one in instances if card == OTHERS or one[1] in TOLD]
                jobs.append(pool.submit(measured, compiler, program, chosen, card))
        for job in jobs:
            for source, name, dtype, card, used, shared in job.result():
                if dtype not in TOLD:
                    continue
                entry = most.setdefault((str(source), name, dtype), {"shared": 0})
                entry[card], entry["shared"] = max(entry.get(card, 0), used), max(entry["shared"], shared)
    heads = [f"sm_{card}, {name}" for card, name in CARDS.items()]
    lines = ["| kernel | type | shared memory | " + " | ".join(heads) + " |", "|---" * (3 + len(CARDS)) + "|"]
    for (_, name, dtype), entry in sorted(most.items(), key=lambda row: (row[0][:2], [*TYPES].index(row[0][2]))):
        cells = "|".join(f" {entry[card]} " for card in CARDS)
        lines.append(f"| `{name}` | {dtype} | {entry['shared']} B |{cells}|")
    return "\n".join(lines) + "\n"


def alike(one, other) -> bool:
    """Whether two tables have the same rows, and nearly the same numbers.

    The compilers are not the same each time: of the same text a kernel took 71 registers once, and 72 many times.
    """
    pairs = [(re.sub(r"\d+(?= )", "#", text), re.findall(r"\d+(?= )", text)) for text in (one, other)]
    (words, numbers), (others, theirs) = pairs
    return words == others and all(abs(int(a) - int(b)) <= 2 for a, b in zip(numbers, theirs, strict=True))


def main() -> None:
    """Compile everything; print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="bring the compilers first")
    parser.add_argument("--write", action="store_true", help="put the table into docs/cuda.md")
    given = parser.parse_args()
    if given.install:
        install()
    text = table()
    print(text, end="")
    page = PAGE.read_text(encoding="utf-8")
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    if given.write:
        PAGE.write_text(page[:start] + text + page[end:], encoding="utf-8")
    elif not alike(page[start:end], text):
        sys.exit("docs/cuda.md has another table: write it anew, --write")


if __name__ == "__main__":
    main()
