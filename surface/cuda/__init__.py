"""`plugrad.cuda`: is there a CUDA device, how many, wait for it, seed it.

What has a meaning with CuPy is there; streams, graphs and the like raise AttributeError.
"""

from __future__ import annotations

import plugrad
from plugrad import registry
from plugrad.cuda import amp

__all__ = [
    "amp", "current_device", "device_count", "empty_cache", "get_device_name", "is_available", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "memory_allocated", "set_device", "synchronize",
]  # fmt: skip

_current = 0


def _backend():
    return registry.backend("cuda") if "cuda" in registry.backends else None


def is_available() -> bool:
    """Whether tensors can be on CUDA devices here.

    >>> import plugrad as torch
    >>> torch.cuda.is_available() in (True, False)
    True
    """
    return "cuda" in registry.backends and registry.reason("cuda") is None


def is_initialized() -> bool:
    """Whether the device was used already."""
    return is_available() and "cuda" in registry.loaded_backends()


def device_count() -> int:
    """Return the number of CUDA devices, 0 when they can't be used."""
    return _backend().device_count() if is_available() else 0


def is_bf16_supported(including_emulation=True) -> bool:
    """Return False: CuPy has no bfloat16."""
    return False


def _needed():
    """Return the backend, or raise RuntimeError with the reason why there is none."""
    backend = _backend()
    reason = "there is no backend named 'cuda'" if backend is None else backend.available()
    if reason is not None:
        raise RuntimeError(f"CUDA can't be used here: {reason}")
    return backend


def _index(device) -> int:
    if device is None:
        return current_device()
    return device if isinstance(device, int) else plugrad.device(device).index or 0


def current_device() -> int:
    """Return the number of the device that "cuda" means."""
    _needed()
    return _current


def set_device(device) -> None:
    """Accept device 0, which "cuda" means; say "cuda:1" for others."""
    if _index(device) != 0:
        raise NotImplementedError('"cuda" always means device 0 here: name another one where you need it, as "cuda:1"')


def get_device_name(device=None) -> str:
    """Return the name of a device."""
    properties = _needed().xp.cuda.runtime.getDeviceProperties(_index(device))
    return properties["name"].decode()


def synchronize(device=None) -> None:
    """Wait until all work on a device is done."""
    _needed().synchronize(_index(device))


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device; does nothing without one."""
    if is_available():
        plugrad.default_generator("cuda").manual_seed(seed)


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Give memory that is kept for reuse back to the device; does nothing without one."""
    if is_available():
        _needed().xp.get_default_memory_pool().free_all_blocks()


def memory_allocated(device=None) -> int:
    """Return the bytes that arrays hold on the device, 0 without one."""
    return int(_needed().xp.get_default_memory_pool().used_bytes()) if is_available() else 0


def max_memory_allocated(device=None) -> int:
    """Return the most bytes that arrays have held since `empty_cache`."""
    return int(_needed().xp.get_default_memory_pool().total_bytes()) if is_available() else 0
