"""Wrong values that only the device knows, such as an index out of range: seen by a kernel, told when somebody waits.

A check costs a kernel, not a wait. It writes its number, and a value, into memory of the host that devices can write
to; whoever waits for results asks `settle`. With PLUGRAD_CUDA_SYNC=1 every check waits, so that the error comes from
the op that made it, with its own type.
"""

from __future__ import annotations

import functools
import pathlib
import threading

import numpy

import plugrad
from plugrad.extend import load_inline

from ._waiting import asked

KEPT = 10_000  # checks that can still say which they were
_load = functools.partial(load_inline, cuda=pathlib.Path(__file__).with_name("faults.cu"), per="block", indices=(1,))
_outside = _load(name="outside", arrays=2, numbers=3, types=("int64", "int32", "uint8"))
_wrong = _load(name="wrong", arrays=2, numbers=1, types=("bool",))


class Faults:
    """The checks that were made since somebody waited."""

    def __init__(self, cupy, captures):
        self.cupy, self.captures, self.number, self.pending, self.lock = cupy, captures, 0, {}, threading.Lock()
        self.of_graphs, self.replayed = {}, False  # checks that graphs make; whether one was launched
        self.memory = None  # two integers in pinned memory: the number of a check that saw a fault, and a value
        self.records: dict = {}  # that memory as an array of each device
        self.at_once = asked()

    def outside(self, index, low, size, error) -> None:
        """Have `error(worst)` raised if an index is outside of [low, size); at once where nothing is inside."""
        if index.size:
            if low >= size:  # as CuPy would divide by it to wrap indices
                raise error(int(index.ravel()[0]))
            if index.dtype.kind != "u" and index.dtype.itemsize < 4:
                index = index.astype("int32")
            elif index.dtype.kind == "u" and index.dtype.itemsize > 1:
                index = index.astype("int64")
            self._look(_outside, index, error, low, size)

    def where(self, wrong, error) -> None:
        """Have `error()` raised if an element of a bool array holds."""
        if wrong.size:
            self._look(_wrong, wrong, lambda place: error())

    def _look(self, kernel, array, error, *numbers):
        record, number = self.watched(error)
        kernel(self.cupy.ascontiguousarray(array), record, *numbers, number, blocks=-(-array.size // 256))
        self.told()

    def watched(self, error):
        """Return what a kernel tells a fault by: an array for its number and a value, and the number.

        Whoever launched the kernel calls `told` then.
        """
        record = self.records.get(device := self.cupy.cuda.runtime.getDevice())
        if record is None:
            record = self.records[device] = self._record(device)
        return record, self._enter(error)

    def _enter(self, error) -> int:
        with self.lock:
            self.number += 1
            if self.captures.capture is not None and (capture := self.captures.here()):
                capture.checks[self.number] = error
                return self.number
            self.pending[self.number] = error
            self.pending.pop(self.number - KEPT, None)
            return self.number

    def _record(self, device):
        """Return the memory of the host that all devices write to as an array of one of them."""
        memory = self.cupy.cuda.memory
        if self.memory is None:
            self.memory = self.cupy.cuda.alloc_pinned_memory(16)
            self._values()[...] = 0
        owned = memory.UnownedMemory(self.memory.ptr, 16, self.memory, device)
        return self.cupy.ndarray(2, "int64", memory.MemoryPointer(owned, 0))

    def _values(self):
        return numpy.frombuffer(self.memory, "int64", 2)

    def told(self) -> None:
        """Have a fault raised now, where errors are to come from the op that made them."""
        if self.at_once and not self.captures.here():
            self.cupy.cuda.get_current_stream().synchronize()
            self.settle()

    def settle(self) -> None:
        """Raise the error of a check that saw a fault; the device's work so far is done."""
        if not (self.pending or self.replayed):
            return
        number, value = self._values().tolist()
        self._values()[...] = 0
        error = self.pending.get(number) or self.of_graphs.get(number)
        self.pending.clear()
        self.replayed = False
        if number == 0:
            return
        fault = IndexError(f"an index or value, {value}, is out of range") if error is None else error(value)
        if self.at_once:
            raise fault
        raise plugrad.AcceleratorError(
            f"CUDA error: device-side assert triggered: {fault} ({type(fault).__name__} of an op before this one; set "
            "PLUGRAD_CUDA_SYNC=1 to have it raised there)"
        )
