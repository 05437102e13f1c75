"""`plugrad.cpu.amp`: the older names of `plugrad.amp` for the CPU."""

from __future__ import annotations

from plugrad.cpu.amp.autocast_mode import autocast
from plugrad.cpu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
