"""CUDA devices, on CuPy. Imported at the first use of device="cuda"."""

from __future__ import annotations

import importlib

from plugrad.extend import Backend, collect, hookimpl

from ._captures import Captures
from ._cupy import kernels_module
from ._faults import Faults
from ._functions import Functions
from ._lists import Many
from ._philox import Source
from ._usage import Usage
from ._waiting import Waiting, asked

try:
    import cupy
except ImportError as error:
    cupy, _missing = None, str(error.__cause__ or error)  # CuPy wraps the reason in a page of advice


class CUDA(Backend):
    """NVIDIA GPUs through CuPy."""

    name = "cuda"
    captures = Captures(cupy)
    faults = Faults(cupy, captures)
    xp = None if cupy is None else kernels_module(cupy, faults, captures)
    functions = None if cupy is None else Functions(cupy)
    many = None if cupy is None else Many(cupy)
    usage = None if cupy is None else Usage(cupy, captures)
    array_type = cupy.ndarray if cupy is not None else type(None)

    def available(self):
        if cupy is None:
            return f"CuPy can't be imported ({_missing}); `pip install 'plugrad[cuda]'` brings it"
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            return f"CuPy finds no usable GPU: {error}"
        return None if count else "CuPy finds no GPU on this machine"

    def device_count(self):
        return cupy.cuda.runtime.getDeviceCount() if self.available() is None else 0

    def current_device(self):
        return cupy.cuda.runtime.getDevice()

    def on(self, index):
        return cupy.cuda.Device(index)

    def owns_index(self, array):
        return array.device.id

    def from_numpy(self, array, index):
        self.captures.refuse("a copy from the host")
        with cupy.cuda.Device(index):
            return cupy.asarray(array)

    def to_numpy(self, array):
        self.captures.refuse("a copy to the host, as by item()")
        result = cupy.asnumpy(array)
        self.faults.settle()
        return result

    def synchronize(self, index):
        self.captures.refuse("synchronize()")
        cupy.cuda.Device(index).synchronize()
        self.faults.settle()

    def generator(self, seed):
        self.captures.refuse("seeding a generator", "each launch goes on where the generator is; seed it before one")
        return Source(cupy, self.captures, seed)

    def scipy(self, name):
        return importlib.import_module(f"cupyx.scipy.{name}")


if cupy is not None and asked():
    Waiting(cupy, CUDA.captures).install()


@hookimpl
def plugrad_backends():
    return collect(Backend, globals())
