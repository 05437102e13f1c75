"""Kernels in C: those of plugrad's own extension, those of others, and how ops use them.

The extension is optional. Without it, or with PLUGRAD_NATIVE=0 in the environment, ops run by NumPy alone;
PLUGRAD_NATIVE=base, avx2 or avx512 asks for one level of instructions. See docs/native.md.
"""

from plugrad.kernels.joining import in_single, is_native, native, native_function
from plugrad.kernels.loading import CompilationError, function, level, levels, module, why_none
from plugrad.registry.namespaces import lazy_names

__all__ = [
    "CompilationError", "build_library", "cache_folder", "cache_place", "function", "in_single", "is_native", "level",
    "levels", "load_inline", "load_library", "module", "native", "native_function", "why_none", "why_not_compiled",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(globals(), None, {
    "kernels.inline": "load_inline",
    "kernels.building": "build_library cache_folder cache_place load_library why_not_compiled",
})  # fmt: skip
