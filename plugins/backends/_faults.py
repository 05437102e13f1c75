"""Wrong values that only the device knows, such as an index out of range: seen by a kernel, told when somebody waits.

A check costs a kernel, not a wait. It writes its number, and a value, into memory of the host that devices can write
to; whoever waits for results asks `settle`. With PLUGRAD_CUDA_SYNC=1 every check waits, so that the error comes from
the op that made it, with its own type.
"""

from __future__ import annotations

import os
import threading

import numpy

import plugrad

OUTSIDE = "if (index < low || index >= high) { fault[1] = (long long)index; fault[0] = number; }"
WHERE = "if (wrong) { fault[1] = i; fault[0] = number; }"
KEPT = 10_000  # checks that can still say which they were


class Faults:
    """The checks that were made since somebody waited."""

    def __init__(self, cupy):
        self.cupy, self.number, self.pending, self.lock = cupy, 0, {}, threading.Lock()
        self.record = None  # two integers in pinned memory: the number of a check that saw a fault, and a value
        self.at_once = os.environ.get("PLUGRAD_CUDA_SYNC", "0") not in ("", "0")

    def outside(self, index, low, size, error) -> None:
        """Have `error(worst)` raised if an index is outside of [low, size)."""
        if index.size:
            kernel = self._kernel("T index, int64 low, int64 high, int64 number", OUTSIDE, "plugrad_outside")
            kernel(index, low, size, self._enter(error), self._record())
            self._settle_at_once()

    def where(self, wrong, error) -> None:
        """Have `error()` raised if an element of a bool array holds."""
        if wrong.size:
            kernel = self._kernel("bool wrong, int64 number", WHERE, "plugrad_wrong")
            kernel(wrong, self._enter(lambda place: error()), self._record())
            self._settle_at_once()

    def _kernel(self, given, code, name):
        return self.cupy.ElementwiseKernel(given, "raw int64 fault", code, name)

    def _enter(self, error) -> int:
        with self.lock:
            self.number += 1
            self.pending[self.number] = error
            self.pending.pop(self.number - KEPT, None)
            return self.number

    def _record(self):
        """Return the record as an array of the current device, which all devices write to."""
        memory = self.cupy.cuda.memory
        if self.record is None:
            self.record = self.cupy.cuda.alloc_pinned_memory(16)
            self._values()[...] = 0
        owned = memory.UnownedMemory(self.record.ptr, 16, self.record, self.cupy.cuda.runtime.getDevice())
        return self.cupy.ndarray(2, "int64", memory.MemoryPointer(owned, 0))

    def _values(self):
        return numpy.frombuffer(self.record, "int64", 2)

    def _settle_at_once(self):
        if self.at_once:
            self.cupy.cuda.get_current_stream().synchronize()
            self.settle()

    def settle(self) -> None:
        """Raise the error of a check that saw a fault; the device's work so far is done."""
        if not self.pending:
            return
        number, value = self._values().tolist()
        self._values()[...] = 0
        error = self.pending.get(number)
        self.pending.clear()
        if number == 0:
            return
        fault = IndexError(f"an index or value, {value}, is out of range") if error is None else error(value)
        if self.at_once:
            raise fault
        raise plugrad.AcceleratorError(
            f"CUDA error: device-side assert triggered: {fault} ({type(fault).__name__} of an op before this one; set "
            "PLUGRAD_CUDA_SYNC=1 to have it raised there)"
        )
