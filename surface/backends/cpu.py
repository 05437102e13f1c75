"""`torch.backends.cpu`: what the processor can do."""

from __future__ import annotations

from plugrad import kernels

__all__ = ["get_cpu_capability"]

_NAMES = {"avx2": "AVX2", "avx512": "AVX512"}


def get_cpu_capability() -> str:
    """Return the level of instructions that kernels in C use, by PyTorch's name: "AVX2", "AVX512" or "DEFAULT".

    >>> import plugrad as torch
    >>> torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    True
    """
    return _NAMES.get(kernels.level(), "DEFAULT")
