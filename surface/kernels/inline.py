"""`load_inline`: kernels in C and in CUDA C++ that a program or a package brings."""

from __future__ import annotations

from plugrad.kernels import loading
from plugrad.kernels.cuda import THREADS, CudaFunction
from plugrad.kernels.loading import CompilationError
from plugrad.registry.namespaces import lazy_names

# What runs compilers is imported for that alone.
_later, _ = lazy_names({"__name__": __name__}, None, {"kernels.building": "build_library load_library"})


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
    wide: tuple = (),
    masks: tuple = (),
    sizes: bool = True,
    threads: int = THREADS,
    struct: int = 0,
    types: tuple | str = ("float32", "float64"),
):
    """Compile a kernel in C or CUDA C++; return a function of arrays and numbers.

    Args:
        c: source that defines ``int NAME(const pg_array *arrays, const double *numbers)``, which returns 0, or another
            number for what it does not serve. `plugrad_native.h` and <math.h> are included already. A `pathlib.Path`
            is that of a file with it.
        cuda: in its place source, or a path, with ``template <typename T> __global__ void NAME(long long size,
            const T *array, ..., T *result, double number, ...)``. It is compiled by CuPy at the first call with each
            type, after `plugrad_cuda.h`. Arrays have one type and C order, and per element one size, and there they may
            all lie in another order.
        name: of that function.
        arrays, numbers: how many of each it needs; calls with fewer are declined.
        like: which array the result has the shape and dtype of; None: the kernel writes into arrays that it is given.
        strided: whether arrays may have any strides; else only those in C order are served.
        flags: more options for the compiler.
        per: of CUDA: "element", a thread for each of `size` elements of the first array; "pack", one for each 16 bytes
            of them, as `pg_map` wants it; "row", a block of PG_THREADS threads, a warp or 256, for each row of `size`
            elements; "rows": the same, or where many rows are short several of them, each for a warp, whose number
            is PG_ROW; "block": calls say how many, as `blocks=`, one number or (x, y); or "list": calls give lists of
            arrays, which the kernel gets as `pg_lists<T, arrays>` in the place of size and pointers.
        indices: of CUDA: the numbers of the arrays that hold indices or labels, `const long long *`, whatever T is.
        wide: of CUDA: the numbers of the arrays of type `pg_real<T>`, float where T is half precision.
        masks: of CUDA: the numbers of the arrays of bool, `const bool *`.
        sizes: of CUDA per element, pack or list: whether all arrays have the size of the first; else the kernel looks.
        threads: of CUDA per block: how many threads a block has, PG_THREADS.
        struct: of CUDA: how many bytes, a multiple of 8, calls give as `bytes` between arrays and numbers: the kernel
            gets them by value, as a struct.
        types: of CUDA: the types that T may be; float16, bfloat16, int32, int64, uint8 and bool, too, where the kernel
            is for them; "floating" for the four of floats. Half precision is `pg_half` and `pg_bfloat16` there, which
            convert to float and from it.

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
        more = threads, struct, types
        return CudaFunction(cuda, name, arrays, numbers, like, flags, per, indices, wide, masks, sizes, *more)
    if loading.why_none() is not None:
        raise CompilationError(f"kernels in C can't be used: {loading.why_none()}")
    library = _later("build_library")(c, name, flags)
    return _later("load_library")(library, name, arrays=arrays, numbers=numbers, like=like, strided=strided)
