"""The optional extension `plugrad._native`; all else is in pyproject.toml. Read native/README.md.

PLUGRAD_NATIVE=0 leaves it out; with PLUGRAD_REQUIRE_NATIVE=1 a build that fails is an error. Else plugrad is installed
without it, and computes by NumPy alone.
"""

import concurrent.futures
import glob
import os
import platform

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = ["level_v4.c", "level_v3.c", "level_base.c", "module.c", "pool.c", "crc32.c", "levels.c"]  # the longest first
# Sums may be reordered where a loop says so, nowhere else; denormals, infinities and NaN stay what they are.
FLAGS = ["-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
HEADER = "surface/kernels/plugrad_native.h"  # in the package, since others' kernels are compiled with it


def extensions():
    """Return the extension, or nothing where the user or the compiler's kind says so."""
    if os.environ.get("PLUGRAD_NATIVE") == "0":
        return []
    import numpy

    libraries = [] if platform.system() == "Windows" else ["m", "pthread"]
    return [
        Extension(
            "plugrad._native",
            sources=[f"native/{name}" for name in SOURCES],
            depends=[*glob.glob("native/**/*.inc", recursive=True), *glob.glob("native/*.h"), HEADER],
            include_dirs=["native", "surface/kernels", numpy.get_include()],
            define_macros=[("PG_BUILDING", "1")],
            extra_compile_args=FLAGS,
            libraries=libraries,
            py_limited_api=True,
            optional=os.environ.get("PLUGRAD_REQUIRE_NATIVE") != "1",
        )
    ]


class Build(build_ext):
    """Compiles the sources at the same time."""

    def build_extension(self, ext):
        compile_all = self.compiler.compile

        def compile_each(sources, *args, **options):
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_all([source], *args, **options), sources)
                return [one for part in objects for one in part]

        self.compiler.compile = compile_each
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = compile_all


if __name__ == "__main__":  # not so in native/wheels.py, which reads what to compile, and how
    setup(ext_modules=extensions(), cmdclass={"build_ext": Build}, options={"bdist_wheel": {"py_limited_api": "cp311"}})
