"""Products of matrices by cuBLAS itself: a call of CuPy's `dot` or `matmul` takes three times as long on the host.

Single and double precision as CuPy has them; half precision with sums in single precision, rounded once. CuPy casts
batches of float16 to float32 for its `matmul`, and has none of bfloat16. While a graph is captured, in which CuPy has
no products at all, these are also of complex numbers, of operands of two types, and of vectors.
"""

from __future__ import annotations

import threading

import numpy

from plugrad.extend import broadcast_shapes

_FACTORS = {char: numpy.array([1, 0], char) for char in "fdFD"}  # what products, and what is there before, count
_ONE, _ZERO = ({char: two.ctypes.data + n * two.itemsize for char, two in _FACTORS.items()} for n in (0, 1))
# By type: cuBLAS's name, what sums are computed in, the type of factors.
_TYPES = {
    "float16": ("R_16F", "32F", "f"), "bfloat16": ("R_16BF", "32F", "f"), "float32": ("R_32F", "32F", "f"),
    "float64": ("R_64F", "64F", "d"), "complex64": ("C_32F", "32F", "F"), "complex128": ("C_64F", "64F", "D"),
}  # fmt: skip
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
        if not options and self.captures.here():
            return self._captured(input, other, out)
        if not options and getattr(input, "ndim", 0) > 1 < getattr(other, "ndim", 0):
            result = self.gemm(input, other, out)
            if result is not NotImplemented:
                return result
        given = options if out is None else {"out": out, **options}
        return self.cupy.matmul(input, other, **given)

    def _captured(self, input, other, out):
        """The same in a capture; what is not of floats, or does not fit, is left to CuPy, which says so."""
        dtype = self.cupy.result_type(input, other)
        left, right = (one.astype(dtype, copy=False) for one in (input, other))
        left, right = left[None] if left.ndim == 1 else left, right[:, None] if right.ndim == 1 else right
        result = self.gemm(left, right) if min(left.ndim, right.ndim) > 1 else NotImplemented
        if result is NotImplemented:
            return self.cupy.matmul(input, other, out=out)
        result = result[..., 0] if other.ndim == 1 else result
        if input.ndim == 1:
            result = result[0] if other.ndim == 1 else result[..., 0, :]
        if out is None:
            return result
        out[...] = result
        return out

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
        place, char, capture = input.data.device_id, dtype.char, self.captures.here()
        if char not in "fd" and not self._serves(dtype, capture):
            return NotImplemented
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
        library, handle = self._called(place, capture)
        what = handle, op_right, op_left, columns, rows, inner
        a, b, c = right.data.ptr, left.data.ptr, out.data.ptr
        count = count or out.size // (rows * columns)
        if count == 1 and char in "fd" and not capture:
            factors = _ONE[char], (_ONE if added else _ZERO)[char]
            self.single[char](*what, factors[0], a, ld_right, b, ld_left, factors[1], c, columns)
        else:
            kind, computed, factor = self._kinds(dtype)
            one, before = _ONE[factor], (_ONE if added else _ZERO)[factor]
            library.gemmStridedBatchedEx(
                *what, one, a, kind, ld_right, step_right, b, kind, ld_left, step_left, before, c, kind, columns,
                rows * columns, count, computed, self.library.CUBLAS_GEMM_DEFAULT,
            )  # fmt: skip
        return out

    def in_place(self, sizes, left, right, out, more=False, short=False):
        """Set, or with `more` increase, matrices in memory by products of others: parts of arrays, many at once.

        `sizes` are rows, columns, terms of a sum, and how many products. Each matrix is (array, first element, elements
        from row to row, whether it is transposed, elements from one product's to the next); `out` is not. `short`
        allows single precision to be rounded to ten bits (TF32) before it is multiplied. False where there are none.
        """
        (rows, columns, inner, count), (c, c_at, c_row, _, c_step) = sizes, out
        (a, a_at, a_row, a_turned, a_step), (b, b_at, b_row, b_turned, b_step) = left, right
        capture, hip, size = self.captures.here(), self.cupy.cuda.runtime.is_hip, a.itemsize
        if not self._serves(a.dtype, capture) or hip and c.dtype != a.dtype:
            return False
        kind, computed, factor = self._kinds(a.dtype)
        if short and a.dtype.char == "f" and not hip:
            computed = self.library.CUBLAS_COMPUTE_32F_FAST_TF32
        library, handle = self._called(a.data.device_id, capture)
        library.gemmStridedBatchedEx(  # of the transposed matrices, in the other order: theirs are by columns
            handle, int(b_turned), int(a_turned), columns, rows, inner, _ONE[factor], b.data.ptr + b_at * size, kind,
            b_row, b_step, a.data.ptr + a_at * size, kind, a_row, a_step, (_ONE if more else _ZERO)[factor],
            c.data.ptr + c_at * c.itemsize, self._kinds(c.dtype)[0], c_row, c_step, count, computed,
            self.library.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip
        return True

    def _called(self, place, capture):
        """Return what has cuBLAS's functions, and the handle for them: this thread's, or a capture's."""
        if capture:
            return self.captures.library, self.captures.library.handle(capture)
        return self.library, self.local.__dict__.get(place) or self._handle(place)

    def _serves(self, dtype, capture) -> bool:
        """Whether there are products of a type; at bfloat16 the build of CuPy for HIP ends the process."""
        if dtype.kind == "c":
            return capture is not None
        return dtype.name in _TYPES and not (dtype.name == "bfloat16" and self.cupy.cuda.runtime.is_hip and not capture)

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
        """Return cuBLAS's names of a type, and of what its products are computed in, and the type of factors."""
        kinds = self.kinds.get(dtype)
        if kinds is None:
            runtime, (name, sums, factor) = self.cupy.cuda.runtime, _TYPES[dtype.name]
            if runtime.is_hip:  # hipBLAS calls what it computes in by its type
                computed = getattr(runtime, f"CUDA_{name[0]}_{sums}")
            else:
                computed = getattr(self.library, f"CUBLAS_COMPUTE_{sums}")
            kinds = self.kinds[dtype] = getattr(runtime, f"CUDA_{name}"), computed, factor
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
