"""`plugrad.cuda.amp`: the older names of `plugrad.amp` for CUDA."""

from __future__ import annotations

from plugrad.cuda.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from plugrad.cuda.amp.common import amp_definitely_not_available
from plugrad.cuda.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]
