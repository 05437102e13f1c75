"""Capturing: the work of a stream is noted as a graph of CUDA's, instead of done; each launch of that does all of it.

What a graph works on must stay where it is: memory that is asked for meanwhile comes from a pool that lives as long as
the graph. What the work of one capture has beside it is in `Capture`; what kernels do otherwise meanwhile, here.
"""

from __future__ import annotations

import contextlib
import threading
import weakref

import numpy

import plugrad
from plugrad.extend import OpHook

from ._captured_library import CapturedLibrary

REFUSED = range(900, 908)  # cudaErrorStreamCapture...
BY_CUPY = "the current stream is capturing", "the stream was capturing", "calling cu"  # cuBLAS, cuSOLVER...
HOW = (
    "it waits for the device or copies from or to the host, which no graph can hold: item(), copies to the CPU, and "
    "ops whose result's size depends on values do so. Do that before the capture, or after replays"
)


class Pool:
    """Memory of graphs, on all devices, and the workspaces of cuBLAS in it."""

    def __init__(self, captures):
        self.captures, self.memory, self.workspaces = captures, captures.cupy.cuda.MemoryPool(), {}

    def __del__(self):
        self.workspaces.clear()
        self.captures.left.append(self.memory)


class Capture:
    """The capture of a stream, and what its graph needs to be launched.

    `alive()` says whether the program is still in it: a `with` block may have been left before anything could end it.
    """

    def __init__(self, pool, alive):
        self.pool, self.alive, self.thread, self.paused = pool, alive, threading.get_ident(), False
        self.regions = contextlib.ExitStack()
        self.checks = {}  # the errors of checks of values, by number
        self.draws = {}  # by generator's source: the place of its seed and offset on the device, and how many it drew
        self.kept = []  # constants that the work reads


class Captures:
    """What one process captures: one stream at a time."""

    def __init__(self, cupy):
        self.cupy, self.capture, self.pools = cupy, None, weakref.WeakSet()
        self.left = []  # memory of graphs that are gone, of which tensors may hold some
        self.library, self.xp, self.hook = CapturedLibrary(cupy), None, _Explaining(self)

    def usual(self, xp):
        """Take note of the array module that kernels get; meanwhile some of its functions are others."""
        self.xp, own = xp, {name: getattr(xp, name) for name in ("array", "asarray", "concatenate")}
        self.usual_dot = self.cupy.ndarray.dot
        dot = self._apart(self._dot, self.usual_dot)
        self.methods = {
            "dot": lambda a, b, out=None: dot(a, b, out),
            "__matmul__": lambda a, b: xp.matmul(a, b),
            "__getitem__": self._apart(self._get, self.cupy.ndarray.__getitem__),
            "__setitem__": self._apart(self._set, self.cupy.ndarray.__setitem__),
        }
        self.items = self.cupy.ndarray.__getitem__, self.cupy.ndarray.__setitem__
        meanwhile = {name: self._apart(self._constant(own[name]), own[name]) for name in ("array", "asarray")}
        meanwhile["concatenate"] = self._apart(self._concatenate, own["concatenate"])
        self.functions = own, meanwhile

    def memories(self) -> list:
        """Return the pools of memory of all graphs, and of those that are gone as far as tensors hold them."""
        return [*[pool.memory for pool in self.pools], *self.left]

    def sweep(self) -> None:
        """Give the memory of graphs that are gone back, once no tensor holds any of it.

        CuPy would lose it: what a pool has cut into pieces it can free as a whole only.
        """
        if self.capture is not None:  # which freeing would disturb
            return
        cuda = self.cupy.cuda
        for memory in self.left[:]:
            held = 0
            for number in range(cuda.runtime.getDeviceCount()):
                with cuda.Device(number):
                    memory.free_all_blocks()
                    held += memory.total_bytes()
            if not held and memory in self.left:
                self.left.remove(memory)

    def _apart(self, function, usual):
        return lambda *args, **options: (function if self.here() else usual)(*args, **options)

    def new_pool(self):
        """Return memory for graphs."""
        pool = Pool(self)
        self.pools.add(pool)
        return pool

    def here(self):
        """Return what this thread captures, None where it does not."""
        capture = self.capture
        if capture is None or capture.paused or capture.thread != threading.get_ident():
            return None
        if not capture.alive():
            with contextlib.suppress(RuntimeError):  # of work that was broken off, nobody gets the graph
                self.end()
            return None
        return capture

    # ---- its begin and end

    def refuse_second(self) -> None:
        """Raise RuntimeError while something is captured."""
        self.here()
        if self.capture is not None:
            raise RuntimeError("a CUDA graph is being captured already; only one capture can be under way in a process")

    def begin(self, pool, alive, stream=None) -> Capture:
        """Begin to capture the current stream, or another one, which is the current one until the end."""
        self.refuse_second()
        self.sweep()
        cuda, own = self.cupy.cuda, stream
        stream = own or cuda.get_current_stream()
        if stream.ptr in (0, 1, 2):
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)"
            )
        capture = Capture(pool, alive)
        capture.stream, capture.device = stream, cuda.runtime.getDevice()
        self.library.ready()
        stream.begin_capture()  # relaxed: memory may be asked for meanwhile
        self.capture = capture
        try:
            if own:
                capture.regions.enter_context(own)
            capture.regions.enter_context(cuda.using_allocator(self._allocate))
            vars(self.xp).update(self.functions[1])
            for name, method in self.methods.items():
                setattr(self.cupy.ndarray, name, method)
            self.hook.install()
            plugrad.optim.batching.captures.add(self)
        except BaseException:
            self.end()
            raise
        return capture

    def end(self):
        """End the capture; return CUDA's graph. RuntimeError where there is none, since something spoilt it."""
        capture, self.capture = self.capture, None
        plugrad.optim.batching.captures.discard(self)
        if self.hook.active:
            self.hook.remove()
        vars(self.xp).update(self.functions[0])
        for name in self.methods.keys() & vars(self.cupy.ndarray).keys():
            delattr(self.cupy.ndarray, name)  # the base class has CuPy's own
        elsewhere = capture.stream.ptr != self.cupy.cuda.get_current_stream().ptr
        capture.regions.close()
        self.library.leave()
        try:
            graph = capture.stream.end_capture()
        except self.cupy.cuda.runtime.CUDARuntimeError as error:
            why = "an error has spoilt it" if error.status == 901 else str(error)
            if error.status == 904:
                why = "another stream has work of it that the stream it began on never waited for"
            raise RuntimeError(f"the CUDA graph could not be captured: {why}") from error
        if elsewhere and capture.alive():
            raise RuntimeError("Capture must end on the same stream it began on.")
        return graph

    def _allocate(self, size):
        capture = self.here()
        return (self.cupy.get_default_memory_pool() if capture is None else capture.pool.memory).malloc(size)

    def lasting(self, shape, dtype):
        """Return an array for what is written before launches, in memory that no work of the graph writes to."""
        with self.cupy.cuda.using_allocator(self.cupy.get_default_memory_pool().malloc):
            return self.cupy.empty(shape, dtype)

    # ---- what is done otherwise meanwhile

    def _constant(self, usual):
        def constant(value, *args, **options):
            if isinstance(value, self.cupy.ndarray):
                return usual(value, *args, **options)
            cuda, capture = self.cupy.cuda, self.capture
            capture.paused = True
            try:  # at once, by another stream, in memory of its own
                usual_memory = cuda.using_allocator(self.cupy.get_default_memory_pool().malloc)
                with cuda.Stream(non_blocking=True) as stream, usual_memory:
                    array = usual(value, *args, **options)
                    stream.synchronize()
            finally:
                capture.paused = False
            capture.kept.append(array)
            return array

        return constant

    def _get(self, array, index):
        return self.items[0](array, self._on_device(index))

    def _set(self, array, index, value):
        self.items[1](array, self._on_device(index), self._on_device(value))

    def _on_device(self, index):
        """Return an index, or what is written there, with constants of the host as arrays of the device."""
        if isinstance(index, tuple):
            return tuple(map(self._on_device, index))
        hosts = isinstance(index, list) or isinstance(index, numpy.ndarray) and index.ndim
        return self.functions[1]["asarray"](index) if hosts else index

    def _concatenate(self, arrays, axis=0, out=None):
        """Join arrays by a copy each: for many CuPy has a table of addresses, which it copies from the host."""
        arrays = list(arrays)
        if len(arrays) <= 8 or axis is None:
            return self.functions[0]["concatenate"](arrays, axis, out)
        shape, start = list(arrays[0].shape), 0
        axis %= len(shape)
        shape[axis] = sum([one.shape[axis] for one in arrays])
        out = self.cupy.empty(shape, self.cupy.result_type(*arrays)) if out is None else out
        for one in arrays:
            out[(slice(None),) * axis + (slice(start, start := start + one.shape[axis]),)] = one
        return out

    def _dot(self, a, b, out=None):
        if not isinstance(b, self.cupy.ndarray) or b.ndim > 2:
            return self.usual_dot(a, b, out)
        return self.xp.matmul(a, b, out)

    def refuse(self, what, why=HOW) -> None:
        """Raise RuntimeError if this thread captures."""
        if self.capture is not None and self.here():
            raise RuntimeError(f"{what} is not permitted while a CUDA graph is captured: {why}")

    def explained(self, error, name):
        """Return the error of an op that can't be captured; None for any other."""
        if isinstance(error, self.cupy.cuda.runtime.CUDARuntimeError):
            known = error.status in REFUSED
        else:
            known = isinstance(error, RuntimeError) and str(error).startswith(BY_CUPY)
        if known or type(error).__name__ in ("CUBLASError", "CUSOLVERError", "CUSPARSEError", "CuFFTError"):
            return RuntimeError(f"{name} can't be captured in a CUDA graph: {HOW} ({error})")
        return None


class _Explaining(OpHook):
    """Says which op it was that can't be captured."""

    def __init__(self, captures):
        super().__init__()
        self.captures = captures

    def around(self, call, run):
        if self.captures.here() is None:
            return run()
        try:
            return run()
        except Exception as error:
            known = self.captures.explained(error, call.name)
            if known is None:
                raise
            raise known from error
