"""With PLUGRAD_CUDA_SYNC=1 every op waits for what it launched: an error of CUDA then comes from the op that made it.

Else it comes from whichever call asks next, since nobody waits.
"""

from __future__ import annotations

import os

import plugrad
from plugrad.extend import OpHook


def asked() -> bool:
    """Whether the environment asks for it."""
    return os.environ.get("PLUGRAD_CUDA_SYNC", "0") not in ("", "0")


class Waiting(OpHook):
    """Waits after each op, and after the gradient of each."""

    def __init__(self, cupy, captures):
        super().__init__()
        self.captures, cuda = captures, cupy.cuda
        self.synchronize = cuda.runtime.deviceSynchronize
        self.errors = cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError, cuda.cublas.CUBLASError

    def wait(self):
        if not self.captures.here():  # where nothing is launched
            self.synchronize()

    def around(self, call, run):
        try:
            result = super().around(call, run)
            self.wait()
        except self.errors as error:
            raise plugrad.AcceleratorError(f"CUDA error: {error} (in the op {call.name})") from error
        return result

    def after_backward(self, node, grad_inputs, grad_outputs):
        try:
            self.wait()
        except self.errors as error:
            raise plugrad.AcceleratorError(f"CUDA error: {error} (in the backward of {node.name()})") from error
