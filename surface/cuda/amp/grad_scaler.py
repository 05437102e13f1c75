"""GradScaler for CUDA under its older name, which warns."""

from __future__ import annotations

import warnings

from plugrad.amp import grad_scaler

__all__ = ["GradScaler", "OptState"]

OptState = grad_scaler.OptState


class GradScaler(grad_scaler.GradScaler):
    """Gradient scaling on CUDA: `plugrad.amp.GradScaler("cuda", ...)`."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        warnings.warn(
            "`torch.cuda.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('cuda', args...)` "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
