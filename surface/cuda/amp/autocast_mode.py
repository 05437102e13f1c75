"""Autocast for CUDA under its older names, which warn."""

from __future__ import annotations

import warnings

import plugrad
from plugrad import amp
from plugrad.amp import autocast_mode

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


def _warn(name, instead) -> None:
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{instead}` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(autocast_mode.autocast):
    """Autocast on CUDA: `plugrad.autocast("cuda", ...)`."""

    def __init__(self, enabled=True, dtype=plugrad.float16, cache_enabled=True):
        _warn("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    """Decorate forward for CUDA: `plugrad.amp.custom_fwd`."""
    _warn("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """Decorate backward for CUDA: `plugrad.amp.custom_bwd`."""
    _warn("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
