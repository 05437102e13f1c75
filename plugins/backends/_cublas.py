"""Products of matrices by cuBLAS itself: a call of CuPy's `dot` or `matmul` takes three times as long on the host.

Single and double precision as CuPy has them; half precision with sums in single precision, rounded once. CuPy casts
batches of float16 to float32 for its `matmul`, and has none of bfloat16.
"""

from __future__ import annotations

import threading

import numpy

from plugrad.extend import broadcast_shapes

_FACTORS = {char: numpy.array([1, 0], char) for char in "fd"}  # what products, and what is there before, count
_ONE, _ZERO = ({char: two.ctypes.data + n * two.itemsize for char, two in _FACTORS.items()} for n in (0, 1))
_TYPES = {"float16": "16F", "bfloat16": "16BF", "float32": "32F", "float64": "64F"}
_MOST = 2**31  # sizes are int


class Products:
    """The products of an array module."""

    def __init__(self, cupy, captures):
        self.cupy, self.captures, self.local = cupy, captures, threading.local()
        if cupy is not None:
            library = self.library = cupy.cuda.cublas
            self.ndarray, self.device = cupy.ndarray, cupy.cuda.runtime.getDevice
            self.plain, self.turned = library.CUBLAS_OP_N, library.CUBLAS_OP_T
            self.single = {"f": library.sgemm, "d": library.dgemm}
            self.kinds: dict = {}

    def matmul(self, input, other, out=None, **options):
        """Return `cupy.matmul(input, other, out=out, **options)`."""
        if not options and getattr(input, "ndim", 0) > 1 < getattr(other, "ndim", 0):
            result = self.gemm(input, other, out)
            if result is not NotImplemented:
                return result
        given = options if out is None else {"out": out, **options}
        return self.cupy.matmul(input, other, **given)

    def gemm(self, input, other, out=None, turned=False, added=False):
        """Return `input @ other` of arrays of one floating type with two dimensions or more, in `out`.

        With `turned` the last two dimensions of `other` are exchanged first; with `added` the product is added to what
        `out` holds, before it is rounded. NotImplemented for other types, for no elements, and for shapes that do not
        fit.
        """
        dtype, shape = input.dtype, input.shape
        rows, inner = shape[-2:]
        depth, columns = other.shape[:-3:-1] if turned else other.shape[-2:]
        total = input.size
        if (other.dtype is not dtype and other.dtype != dtype) or depth != inner or not (total and columns):
            return NotImplemented
        place, char = input.data.device_id, dtype.char
        if char not in "fd" and (dtype.name not in _TYPES or self.cupy.cuda.runtime.is_hip and char != "e"):
            return NotImplemented  # at bfloat16 the build of CuPy for HIP ends the process
        if place != self.device() or total >= _MOST or other.size >= _MOST:
            return NotImplemented
        single = other.ndim == 2 and (input.ndim == 2 or input._c_contiguous)  # rows of a batch are rows
        if single:
            batch, count, rows = shape[:-2], 1, total // inner
        else:
            batch = broadcast_shapes(shape[:-2], other.shape[:-2])
            count = 0
        if out is None:
            out = self.ndarray((*batch, shape[-2], columns), dtype)
        elif not (out._c_contiguous and out.dtype is dtype and out.shape == (*batch, shape[-2], columns)):
            return NotImplemented
        if single and input._c_contiguous:  # as mostly
            left, ld_left, op_left, step_left = input, inner, self.plain, 0
        else:
            left, ld_left, op_left, step_left = self._form(input, batch, rows, inner, single)
        if single and other._c_contiguous:
            right, ld_right, op_right, step_right = other, depth if turned else columns, self.plain, 0
        else:
            right, ld_right, op_right, step_right = self._form(other, batch, *other.shape[-2:], single)
        if turned:
            op_right = self.plain if op_right == self.turned else self.turned
        # Rows of ours are columns of cuBLAS, which so computes the transposed product of the transposed operands.
        library = self.library
        if self.captures.capture is not None and (capture := self.captures.here()):
            library = self.captures.products
            handle = library.handle(capture)
        else:
            handle = self.local.__dict__.get(place) or self._handle(place)
        what = handle, op_right, op_left, columns, rows, inner
        a, b, c = right.data.ptr, left.data.ptr, out.data.ptr
        real = char if char in "fd" else "f"
        one, before = _ONE[real], (_ONE if added else _ZERO)[real]
        count = count or out.size // (rows * columns)
        if count == 1 and char in "fd" and library is self.library:
            self.single[char](*what, one, a, ld_right, b, ld_left, before, c, columns)
        else:
            kind, computed = self._kinds(dtype)
            library.gemmStridedBatchedEx(
                *what, one, a, kind, ld_right, step_right, b, kind, ld_left, step_left, before, c, kind, columns,
                rows * columns, count, computed, self.library.CUBLAS_GEMM_DEFAULT,
            )  # fmt: skip
        return out

    def _form(self, array, batch, rows, columns, single):
        """Return an array of matrices, from one row to the next, how they lie, and from one matrix to the next."""
        if array._c_contiguous and (single or array.shape[:-2] == batch):
            return array, columns, self.plain, rows * columns
        if array._f_contiguous and single:
            return array, rows, self.turned, 0
        shape, strides, size = array.shape, array.strides, array.itemsize
        step, (down, along) = _step(shape[:-2], strides[:-2], batch), strides[-2:]
        if step is not None and step >= 0 and max(down, along) < _MOST:
            if along == size and down >= columns * size:
                return array, down // size, self.plain, step // size
            if down == size and along >= rows * size:
                return array, along // size, self.turned, step // size
        if shape[:-2] != batch and array.size != rows * columns:
            array = self.cupy.broadcast_to(array, (*batch, rows, columns))
        array = self.cupy.ascontiguousarray(array)
        return array, columns, self.plain, 0 if array.size == rows * columns else rows * columns

    def _handle(self, place):
        """Return cuBLAS's handle of this thread for a device, and keep it."""
        handle = self.local.__dict__[place] = self.cupy.cuda.Device(place).cublas_handle
        return handle

    def _kinds(self, dtype):
        """Return cuBLAS's names of a type, and of what its products are computed in."""
        kinds = self.kinds.get(dtype)
        if kinds is None:
            runtime, name = self.cupy.cuda.runtime, "32F" if dtype.itemsize < 8 else "64F"
            kind = getattr(runtime, f"CUDA_R_{_TYPES[dtype.name]}")
            if runtime.is_hip:  # hipBLAS calls what it computes in by its type
                kinds = self.kinds[dtype] = kind, getattr(runtime, f"CUDA_R_{name}")
            else:
                kinds = self.kinds[dtype] = kind, getattr(self.library, f"CUBLAS_COMPUTE_{name}")
        return kinds


def _step(shape, strides, batch):
    """Return the bytes from one matrix of a batch to the next, None where that differs."""
    if not any([n > 1 for n in shape]):
        return 0
    if shape != batch:
        return None
    along = [(n, stride) for n, stride in zip(shape, strides) if n > 1]
    if any([stride != n * step for (_, stride), (n, step) in zip(along, along[1:])]):
        return None
    return along[-1][1]
