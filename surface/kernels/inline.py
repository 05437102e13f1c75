"""`load_inline`: kernels in C and in CUDA C++ that a program or a package brings."""

from __future__ import annotations

import pathlib

import numpy

from plugrad import registry
from plugrad.kernels import loading
from plugrad.kernels.loading import CompilationError, text_of
from plugrad.registry.namespaces import lazy_names

HEADER = pathlib.Path(__file__).with_name("plugrad_cuda.h")
# What runs compilers is imported for that alone.
_later, _ = lazy_names({"__name__": __name__}, None, {"kernels.building": "build_library load_library"})
THREADS, WARP = 256, 32  # of a block: PG_THREADS
SHORT = 512  # elements of a row for which the threads of one warp are enough
_INT64 = numpy.dtype("int64")
TYPES = {
    "float32": "float", "float64": "double", "int32": "int", "int64": "long long", "uint8": "unsigned char",
    "bool": "bool",
}  # fmt: skip


def load_inline(
    *,
    c=None,
    cuda=None,
    name: str,
    arrays: int,
    numbers: int = 0,
    like: int | None = None,
    strided: bool = False,
    flags: tuple = (),
    per: str = "element",
    indices: tuple = (),
    types: tuple = ("float32", "float64"),
):
    """Compile a kernel in C or CUDA C++; return a function of arrays and numbers.

    Args:
        c: source that defines ``int NAME(const pg_array *arrays, const double *numbers)``, which returns 0, or another
            number for what it does not serve. `plugrad_native.h` and <math.h> are included already. A `pathlib.Path`
            is that of a file with it.
        cuda: in its place source, or a path, with ``template <typename T> __global__ void NAME(long long size,
            const T *array, ..., T *result, double number, ...)``. It is compiled by CuPy at the first call with each
            type, after `plugrad_cuda.h`. Arrays have one type and C order, and per element one size.
        name: of that function.
        arrays, numbers: how many of each it needs; calls with fewer are declined.
        like: which array the result has the shape and dtype of; None: the kernel writes into arrays that it is given.
        strided: whether arrays may have any strides; else only those in C order are served.
        flags: more options for the compiler.
        per: of CUDA: "element", a thread for each of `size` elements of the first array; "pack", one for each 16 bytes
            of them, as `pg_map` wants it; "row", a block of PG_THREADS threads, a warp or 256, for each row of `size`
            elements; or "block": calls say how many, as `blocks=`, one number or (x, y).
        indices: of CUDA: the numbers of the arrays that hold indices or labels, `const long long *`, whatever T is.
        types: of CUDA: the types that T may be; int32, int64, uint8 and bool, too, where the kernel is for them.

    The library is kept in PLUGRAD_CACHE, or the user's cache folder, by source, options, compiler and processor.
    Raises CompilationError, with the lines of `c`, where it can't be compiled, there is no compiler, or
    PLUGRAD_NATIVE=0 switches kernels in C off; for CUDA that is at the first call. TypeError for both sources, or none.

    >>> from plugrad.extend import load_inline
    >>> twice = load_inline(name="twice", arrays=1, like=0, c='''
    ... int twice(const pg_array *a, const double *s) {
    ...     if (a[0].type != PG_FLOAT64) return 1;
    ...     const double *x = a[0].data;
    ...     double *y = a[1].data;
    ...     for (int64_t i = 0; i < a[0].size; i++) y[i] = 2 * x[i];
    ...     return 0;
    ... }''')  # doctest: +SKIP
    >>> twice(numpy.ones(3))  # doctest: +SKIP
    array([2., 2., 2.])
    """
    if (c is None) == (cuda is None):
        raise TypeError("load_inline() takes c= or cuda=: the source of one kernel")
    if cuda is not None:
        return CudaFunction(cuda, name, arrays, numbers, like, flags, per, indices, types)
    if loading.why_none() is not None:
        raise CompilationError(f"kernels in C can't be used: {loading.why_none()}")
    library = _later("build_library")(c, name, flags)
    return _later("load_library")(library, name, arrays=arrays, numbers=numbers, like=like, strided=strided)


class CudaFunction:
    """A kernel in CUDA C++ as a function of arrays and numbers, compiled by CuPy for each type it is called with.

    It returns NotImplemented for arrays that it does not serve. The arguments are those of `load_inline`.
    """

    def __init__(self, source, name, arrays, numbers, like, flags, per, indices, types):
        if per not in ("element", "pack", "row", "block"):
            raise ValueError(f"load_inline(): per is 'element', 'pack', 'row' or 'block', not {per!r}")
        if unknown := {*types} - {*TYPES}:
            raise ValueError(f"load_inline(): types are among {', '.join(TYPES)}, not {unknown}")
        self.source, self.__name__, self.flags, self.per, self.types = source, name, flags, per, frozenset(types)
        self.arrays, self.numbers, self.like, self.indices = arrays, numbers, like, frozenset(indices)
        self._typed = next((n for n in range(arrays) if n not in self.indices), 0)  # the array that tells the type
        self._kernels: dict = {}  # by type of elements, device and threads of a block

    def __call__(self, *args, blocks=None):
        """Run the kernel; return its result, or None where it writes into arrays that it is given."""
        backend = registry.backend("cuda")
        if backend.xp is None:
            raise RuntimeError(f"{self.__name__} is a kernel for CUDA, which can't be used here: {backend.available()}")
        xp = backend.xp
        arrays = [one for one in args if isinstance(one, xp.ndarray)]
        numbers = [one for one in args if isinstance(one, (bool, int, float))]
        if len(arrays) < self.arrays or len(numbers) < self.numbers or len(arrays) + len(numbers) < len(args):
            return NotImplemented
        first, dtype = arrays[0], arrays[self._typed].dtype
        if first.device.id != backend.current_device():  # CuPy does not look where the arrays of such a kernel are
            with first.device:
                return self(*args, blocks=blocks)
        if dtype.name not in self.types or not all([self._fits(n, one, dtype) for n, one in enumerate(arrays)]):
            return NotImplemented
        if self.per in ("element", "pack") and any([one.size != first.size for one in arrays]):  # read beyond its end
            return NotImplemented
        result = [] if self.like is None else [xp.empty_like(arrays[self.like])]
        if first.size:
            size, grid, threads = self._launch(first, blocks)
            key = dtype.name, first.device.id, threads
            kernel = self._kernels.get(key)
            if kernel is None:
                kernel = self._kernels[key] = self._compiled(xp, dtype.name, threads)
            kernel(grid, (threads,), (numpy.int64(size), *arrays, *result, *map(numpy.float64, numbers)))
        return result[0] if result else None

    def _fits(self, number, array, dtype):
        wanted = array.dtype == (_INT64 if number in self.indices else dtype)
        return wanted and array.flags.c_contiguous

    def _launch(self, first, blocks):
        """Return `size`, the grid, and the threads of a block."""
        if self.per == "block":
            return first.size, blocks if isinstance(blocks, tuple) else (blocks,), THREADS
        if self.per != "row":
            elements = THREADS if self.per == "element" else THREADS * 16 // first.itemsize
            return first.size, (-(-first.size // elements),), THREADS
        size = (first.shape or (1,))[-1]
        return size, (first.size // size,), WARP if size <= SHORT else THREADS

    def _compiled(self, cupy, dtype, threads):
        """Return CuPy's kernel for a type of elements, on the device at hand."""
        expression = f"{self.__name__}<{TYPES[dtype]}>"
        options = ("--std=c++17", f"-DPG_THREADS={threads}", *self.flags)
        try:
            module = cupy.RawModule(code=cuda_text(self.source), options=options, name_expressions=(expression,))
            return module.get_function(expression)
        except cupy.cuda.compiler.CompileException as error:
            raise CompilationError(f"{self.__name__} does not compile for {dtype}:\n{error}") from None


def cuda_text(source) -> str:
    """Return what CuPy compiles: the header, and the source."""
    return f"{HEADER.read_text(encoding='utf-8')}\n#line 1\n{text_of(source)}"
