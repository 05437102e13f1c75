"""Pinned host memory: pages that stay where they are, so that a device copies from them while the CPU goes on."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.extend import from_raw


def is_pinned(tensor) -> bool:
    """Whether a tensor is in memory that was pinned by CuPy; never without a CUDA device."""
    if tensor.device.type != "cpu" or not plugrad.cuda.is_initialized():
        return False
    owner = tensor._raw
    while isinstance(owner, numpy.ndarray):
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    return isinstance(owner, plugrad.cuda._runtime().PinnedMemoryPointer)


def pin(tensor):
    """Return a copy of a tensor on the CPU in pinned memory; RuntimeError for one that is elsewhere."""
    if not plugrad.cuda.is_available() or is_pinned(tensor):
        return tensor
    if tensor.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{tensor.type()}': only dense CPU tensors can be pinned")
    array = tensor.detach()._raw
    memory = plugrad.cuda._runtime().alloc_pinned_memory(max(array.nbytes, 1))
    copied = numpy.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
    copied[...] = array
    return from_raw(copied)
