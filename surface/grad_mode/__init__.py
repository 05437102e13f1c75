"""`plugrad.autograd.grad_mode`: whether ops are recorded, under PyTorch's longer path."""

from __future__ import annotations

from plugrad import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
