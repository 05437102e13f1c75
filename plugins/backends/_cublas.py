"""Products of half precision by cuBLAS: sums in single precision, rounded once.

CuPy casts batches of float16 to float32 for its `matmul`, and has none of bfloat16.
"""

from __future__ import annotations

import numpy

from plugrad.extend import broadcast_shapes

ONE, ZERO = numpy.ones(1, "float32"), numpy.zeros(1, "float32")
KINDS = {"float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF"}


def product_of_halves(cupy, input, other):
    """Return `input @ other` of arrays of one type with two dimensions or more.

    NotImplemented for no elements, and for shapes that do not fit.
    """
    (rows, inner), columns = input.shape[-2:], other.shape[-1]
    runtime, library = cupy.cuda.runtime, cupy.cuda.cublas
    if other.shape[-2] != inner or not (input.size and other.size):
        return NotImplemented
    if runtime.is_hip and input.dtype.name == "bfloat16":  # at which that build of CuPy ends the process
        return NotImplemented
    batch = broadcast_shapes(input.shape[:-2], other.shape[:-2])
    left, right = (_steps(cupy, array, batch) for array in (input, other))
    out = cupy.empty((*batch, rows, columns), input.dtype)
    kind = getattr(runtime, KINDS[input.dtype.name])
    single = runtime.CUDA_R_32F if runtime.is_hip else library.CUBLAS_COMPUTE_32F  # hipBLAS names sums by their type
    # Rows of ours are columns of cuBLAS, which so computes the transposed product of the transposed operands.
    library.gemmStridedBatchedEx(
        cupy.cuda.Device().cublas_handle, library.CUBLAS_OP_N, library.CUBLAS_OP_N, columns, rows, inner,
        ONE.ctypes.data, right[0].data.ptr, kind, columns, right[1], left[0].data.ptr, kind, inner, left[1],
        ZERO.ctypes.data, out.data.ptr, kind, columns, rows * columns, out.size // (rows * columns),
        single, library.CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip
    return out


def _steps(cupy, array, batch):
    """Return an array of row-major matrices, and the step from one of the batch to the next."""
    array = cupy.ascontiguousarray(array)
    count = array.size // (array.shape[-2] * array.shape[-1])
    if count == 1:
        return array, 0
    if array.shape[:-2] != batch:
        array = cupy.ascontiguousarray(cupy.broadcast_to(array, (*batch, *array.shape[-2:])))
    return array, array.shape[-2] * array.shape[-1]
