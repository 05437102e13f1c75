"""Autocast for the CPU under its older name, which warns."""

from __future__ import annotations

import warnings

import plugrad
from plugrad.amp import autocast_mode

__all__ = ["autocast"]


class autocast(autocast_mode.autocast):
    """Autocast on the CPU: `plugrad.autocast("cpu", ...)`."""

    def __init__(self, enabled=True, dtype=plugrad.bfloat16, cache_enabled=True):
        warnings.warn(
            "`torch.cpu.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", dtype, enabled, cache_enabled)
