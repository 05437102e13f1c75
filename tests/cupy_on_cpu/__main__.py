"""Run the tests of the CUDA backend on the stand-in: `python tests/cupy_on_cpu [--install] [--all] [for pytest...]`.

With `--install` the wheel is brought first, some 75 MB. Without `--all` it is a part that takes minutes, for every
change; with it all ops with all their samples, types and second gradients. By default in two processes, tests/cuda.
"""

import os
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]


def main(arguments) -> int:
    import pytest

    import cupy_on_cpu
    from cupy_on_cpu import kernels

    if "--install" in arguments:
        cupy_on_cpu.install()
    if (why := cupy_on_cpu.reason()) is not None:
        print(f"CuPy can't run on the CPU here: {why}", file=sys.stderr)
        return 2
    everything = "--all" in arguments
    rest = [argument for argument in arguments if argument not in ("--all", "--install")]
    os.environ["CUPY_ON_CPU"] = "all" if everything else "part"
    where = [] if any("tests/cuda" in argument for argument in rest) else [str(TESTS / "cuda")]
    status = pytest.main(["-q", "-n", "2", *where, *rest])
    print(f"{kernels.count()} kernels are in {cupy_on_cpu.libraries.cache_folder(kernels=True)}")
    return int(status)


if __name__ == "__main__":
    sys.path[0] = str(TESTS)
    sys.exit(main(sys.argv[1:]))
