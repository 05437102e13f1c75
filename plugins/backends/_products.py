"""Products of matrices in memory by cuBLAS, many at once: parts of arrays, transposed or not, set or added to."""

from __future__ import annotations

import numpy

KINDS = {"float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF", "float32": "CUDA_R_32F", "float64": "CUDA_R_64F"}
ONES, ZEROS = ({size: numpy.full(1, value, f"f{size}") for size in (4, 8)} for value in (1, 0))


def products_in_place(cupy, captures, sizes, left, right, out, more=False, short=False):
    """Set, or with `more` increase, matrices in memory by products of others.

    `sizes` are rows, columns, terms of a sum, and how many products. Each matrix is (array, first element, elements
    from row to row, whether it is transposed, elements from one product's to the next); `out` is not. `short`
    allows single precision to be rounded to ten bits (TF32) before it is multiplied. False where there are none.
    """
    rows, columns, inner, count = sizes
    name, library, runtime = left[0].dtype.name, cupy.cuda.cublas, cupy.cuda.runtime
    kind, to, double = getattr(runtime, KINDS[name]), getattr(runtime, KINDS[out[0].dtype.name]), name == "float64"
    if runtime.is_hip:
        if name == "bfloat16" or to != kind:  # at which that build of CuPy ends the process
            return False
        compute = kind if double else runtime.CUDA_R_32F
    elif double:
        compute = library.CUBLAS_COMPUTE_64F
    else:
        compute = library.CUBLAS_COMPUTE_32F_FAST_TF32 if short and name == "float32" else library.CUBLAS_COMPUTE_32F
    one, before = ONES[8 if double else 4], (ONES if more else ZEROS)[8 if double else 4]
    (a, a_at, a_row, a_turned, a_step), (b, b_at, b_row, b_turned, b_step) = left, right
    (c, c_at, c_row, _, c_step), size = out, left[0].itemsize
    if captures.capture is not None and (capture := captures.here()):
        called, handle = captures.products, captures.products.handle(capture)
    else:
        called, handle = library, cupy.cuda.Device().cublas_handle
    called.gemmStridedBatchedEx(  # of the transposed matrices, in the other order: theirs are by columns
        handle, int(b_turned), int(a_turned), columns, rows, inner,
        one.ctypes.data, b.data.ptr + b_at * size, kind, b_row, b_step, a.data.ptr + a_at * size, kind, a_row, a_step,
        before.ctypes.data, c.data.ptr + c_at * c.itemsize, to, c_row, c_step, count,
        compute, library.CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip
    return True
