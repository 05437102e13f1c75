"""`torch.profiler.itt`: ranges for Intel's tools, which need a build of PyTorch that has them; there are none here."""

from __future__ import annotations

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Always False."""
    return False


def range_push(msg: str):
    """Raise RuntimeError, as PyTorch does where the ranges are not available."""
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


def range_pop():
    """Raise RuntimeError, as PyTorch does where the ranges are not available."""
    range_push("")


mark = range = range_push
