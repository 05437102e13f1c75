"""`torch.accelerator`: the CUDA device by a name that fits any; without one, the answers of a machine that has none."""

from __future__ import annotations

import plugrad
from plugrad import cuda

_IN_CUDA = {
    "current_device_index": "current_device", "current_device_idx": "current_device", "set_device_index": "set_device",
    "set_device_idx": "set_device", "device_index": "device", "get_memory_info": "mem_get_info",
}  # fmt: skip
_OWN = ("current_accelerator", "device_count", "is_available")
_NAMES = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
    "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip
__all__ = [name for name in _NAMES if name in _OWN or hasattr(cuda, _IN_CUDA.get(name, name))]


def is_available() -> bool:
    """Whether there is an accelerator.

    >>> import plugrad as torch
    >>> torch.accelerator.is_available() == torch.cuda.is_available()
    True
    """
    return cuda.is_available()


def current_accelerator(check_available=False):
    """Return the device of the accelerator, None without one."""
    return plugrad.device("cuda") if is_available() else None


def device_count() -> int:
    """Return the number of its devices, 0 without one."""
    return cuda.device_count()


def __getattr__(name):
    # All others are those of `cuda` by the same name, or by the shorter one that is usual there.
    if name in _NAMES and name not in _OWN:
        return getattr(cuda, _IN_CUDA.get(name, name))
    raise AttributeError(f"module 'plugrad.accelerator' has no attribute {name!r}")
