"""cuBLAS while a graph is captured, where CuPy refuses to call it: by ctypes, with handles of our own."""

from __future__ import annotations

import ctypes

WORKSPACE = 32 << 20  # bytes: what cuBLAS takes by itself on Hopper; on older devices a quarter of that


class CapturedLibrary:
    """The library that CuPy loaded, with a handle for each device.

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
