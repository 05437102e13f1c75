"""Products by cuBLAS while a graph is captured, where CuPy refuses to call it: by ctypes, with handles of our own."""

from __future__ import annotations

import ctypes
import math

import numpy

from plugrad.extend import broadcast_shapes

# By type of elements: cudaDataType, cublasComputeType_t, the type of the factors.
TYPES = {
    "float32": (0, 68, "float32"), "float64": (1, 70, "float64"), "float16": (2, 68, "float32"),
    "bfloat16": (14, 68, "float32"), "complex64": (4, 68, "complex64"), "complex128": (5, 70, "complex128"),
}  # fmt: skip
FACTORS = {name: (numpy.ones(1, name), numpy.zeros(1, name)) for *_, name in TYPES.values()}
WORKSPACE = 32 << 20  # bytes: what cuBLAS takes by itself on Hopper; on older devices a quarter of that


class CapturedProducts:
    """cuBLAS as captures call it: the library that CuPy loaded, by handles of our own, one for each device.

    A graph must not use the memory that cuBLAS takes by itself, so each pool of graphs has a workspace.
    """

    def __init__(self, cupy):
        self.cupy, self.handles, self.streams = cupy, {}, {}

    def ready(self):
        """Have the handle of the current device; making one is nothing that can be captured."""
        device = self.cupy.cuda.runtime.getDevice()
        if device not in self.handles:
            self.hip = self.cupy.cuda.runtime.is_hip
            self.library = ctypes.CDLL(self.cupy.cuda.cublas.__file__)  # its names are found through CuPy's module
            handle = ctypes.c_void_p()
            self._call("Create", "_v2", ctypes.byref(handle))
            self.handles[device] = handle

    def leave(self):
        """Forget for which streams the handles were made ready."""
        self.streams.clear()

    def _call(self, name, version, *arguments):
        function = getattr(self.library, "hipblas" + name if self.hip else "cublas" + name + version)
        status = function(*arguments)
        if status:
            raise RuntimeError(f"cuBLAS: {name} returned the status {status}")

    def handle(self, capture):
        """Return the handle of the current device, for its current stream, with the workspace of the capture's pool."""
        cuda = self.cupy.cuda
        device, stream = cuda.runtime.getDevice(), cuda.get_current_stream().ptr
        handle = self.handles[device]
        if self.streams.get(device) != stream:
            memory = capture.pool.workspaces.get((device, stream))
            if memory is None:
                size = WORKSPACE if int(cuda.Device().compute_capability) >= 90 else WORKSPACE // 4
                memory = capture.pool.workspaces[device, stream] = capture.pool.memory.malloc(size)
            self._call("SetStream", "_v2", handle, ctypes.c_void_p(stream))
            self._call("SetWorkspace", "_v2", handle, ctypes.c_void_p(memory.ptr), ctypes.c_size_t(memory.mem.size))
            self.streams[device] = stream
        return handle

    def gemmStridedBatchedEx(
        self, handle, op_a, op_b, m, n, k, one, a, kind_a, ld_a, step_a, b, kind_b, ld_b, step_b, before, c, kind_c,
        ld_c, step_c, count, computed, algorithm,
    ):  # fmt: skip
        """Call cuBLAS's function with the arguments that CuPy's takes."""
        pointer, long = ctypes.c_void_p, ctypes.c_longlong
        op_a, op_b = (111 + op_a, 111 + op_b) if self.hip else (op_a, op_b)
        self._call(
            "GemmStridedBatchedEx", "", handle, op_a, op_b, m, n, k, pointer(one), pointer(a), kind_a, ld_a,
            long(step_a), pointer(b), kind_b, ld_b, long(step_b), pointer(before), pointer(c), kind_c, ld_c,
            long(step_c), count, computed, algorithm,
        )  # fmt: skip

    def matmul(self, capture, a, b, out=None):
        """Return `a @ b`, as `cupy.matmul` does; what is not of floats, or has no elements, is left to that."""
        dtype = self.cupy.result_type(a, b)
        if dtype.name not in TYPES or not (a.ndim and b.ndim and a.size and b.size):
            return self.cupy.matmul(a, b, out=out)
        left, right = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
        if left.shape[-1] != right.shape[-2]:
            return self.cupy.matmul(a, b, out=out)  # which says so
        batch = broadcast_shapes(left.shape[:-2], right.shape[:-2])
        result = self.cupy.empty((*batch, left.shape[-2], right.shape[-1]), dtype)
        self._product(capture, left.astype(dtype, copy=False), right.astype(dtype, copy=False), result, batch)
        result = result[..., 0] if b.ndim == 1 else result
        result = result[..., 0, :] if a.ndim == 1 and b.ndim > 1 else result[..., 0] if a.ndim == 1 else result
        if out is None:
            return result
        out[...] = result
        return out

    def _product(self, capture, left, right, result, batch):
        (rows, inner), columns, count = left.shape[-2:], right.shape[-1], math.prod(batch)
        kind, sums, factor = TYPES[result.dtype.name]
        one, zero = FACTORS[factor]
        # Rows of ours are columns of cuBLAS, which so computes the transposed product of the transposed operands.
        operands = []
        for array in (right, left):
            array, turned, across, step = self._laid_out(array, batch)
            how = (112 if turned else 111) if self.hip else int(turned)
            operands.append((array, how, ctypes.c_int(across), ctypes.c_longlong(step)))
        (b, how_b, by_b, step_b), (a, how_a, by_a, step_a) = operands
        pointer = ctypes.c_void_p
        head = (self.handle(capture), how_b, how_a, columns, rows, inner, pointer(one.ctypes.data))
        sums = kind if self.hip else sums  # hipBLAS names sums by their type
        if count == 1:
            self._call(
                "GemmEx", "", *head, pointer(b.data.ptr), kind, by_b, pointer(a.data.ptr), kind, by_a,
                pointer(zero.ctypes.data), pointer(result.data.ptr), kind, columns, sums, -1,
            )  # fmt: skip
        else:
            self._call(
                "GemmStridedBatchedEx", "", *head, pointer(b.data.ptr), kind, by_b, step_b, pointer(a.data.ptr), kind,
                by_a, step_a, pointer(zero.ctypes.data), pointer(result.data.ptr), kind, columns,
                ctypes.c_longlong(rows * columns), count, sums, -1,
            )  # fmt: skip

    def _laid_out(self, array, batch):
        """Return matrices that cuBLAS can read, whether they are transposed, and the steps over a row and a matrix."""
        if array.ndim > 2 and array.shape[:-2] != batch:
            array = self.cupy.broadcast_to(array, (*batch, *array.shape[-2:]))
        item, steps = array.itemsize, array.strides
        rows, columns = array.shape[-2:]
        step = steps[-3] if array.ndim > 2 else 0
        even = all([size == 1 or by == steps[-3] * math.prod(array.shape[place + 1 : -2])
                    for place, (size, by) in enumerate(zip(array.shape[:-3], steps[:-3]))])  # fmt: skip
        down, across = steps[-2:]
        if even and step % item == 0 and step >= 0:
            if (across == item or columns == 1) and down % item == 0 and (down >= columns * item or rows == 1):
                return array, False, max(down // item, columns), step // item
            if (down == item or rows == 1) and across % item == 0 and (across >= rows * item or columns == 1):
                return array, True, max(across // item, rows), step // item
        array = self.cupy.ascontiguousarray(array)
        return array, False, columns, rows * columns if array.ndim > 2 else 0
