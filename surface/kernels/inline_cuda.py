"""Kernels in CUDA C++ that a program or a package brings, compiled by CuPy for the types they are called with."""

from __future__ import annotations

import numpy

from plugrad import registry

THREADS = 256  # of a block
TYPES = {
    "float32": "float", "float64": "double", "int32": "int", "int64": "long long", "uint8": "unsigned char",
    "bool": "bool",
}  # fmt: skip


class CompilationError(RuntimeError):
    """Source that the compiler refuses, in its own words, or no compiler."""


class Function:
    """A kernel as a function of arrays and numbers; NotImplemented for arrays that it does not serve.

    The arguments are those of `load_inline`.
    """

    def __init__(self, source, name, arrays, numbers, like, flags):
        self.source, self.__name__, self.flags = source, name, flags
        self.arrays, self.numbers, self.like = arrays, numbers, like
        self._kernels: dict = {}  # by type of elements and device

    def __call__(self, *args):
        """Run the kernel; return its result, or None where it writes into arrays that it is given."""
        xp = registry.backend("cuda").xp
        arrays = [one for one in args if isinstance(one, xp.ndarray)]
        numbers = [one for one in args if isinstance(one, (bool, int, float))]
        if len(arrays) < self.arrays or len(numbers) < self.numbers or len(arrays) + len(numbers) < len(args):
            return NotImplemented
        first = arrays[0]
        alike = all([one.dtype == first.dtype and one.flags.c_contiguous for one in arrays])
        if first.dtype.name not in TYPES or not alike:
            return NotImplemented
        result = [] if self.like is None else [xp.empty_like(arrays[self.like])]
        key = first.dtype.name, first.device.id
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._kernels[key] = self._compiled(xp, first.dtype.name)
        if first.size:
            values = numpy.int64(first.size), *arrays, *result, *map(numpy.float64, numbers)
            kernel((-(-first.size // THREADS),), (THREADS,), values)
        return result[0] if result else None

    def _compiled(self, cupy, dtype):
        """Return CuPy's kernel for a type of elements, on the device at hand."""
        expression = f"{self.__name__}<{TYPES[dtype]}>"
        options = ("--std=c++17", *self.flags)
        try:
            module = cupy.RawModule(code=self.source, options=options, name_expressions=(expression,))
            return module.get_function(expression)
        except cupy.cuda.compiler.CompileException as error:
            raise CompilationError(f"{self.__name__} does not compile for {dtype}:\n{error}") from None
