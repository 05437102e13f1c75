"""`plugrad.autograd`: gradients, grad modes, hooks on saved tensors, custom Functions and gradient checks."""

from __future__ import annotations

import sys
import types

from plugrad.autograd.entrances import backward, grad
from plugrad.autograd.function import Function, FunctionCtx, once_differentiable
from plugrad.graph.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    no_grad,
    save_on_cpu,
    saved_tensors_hooks,
    set_detect_anomaly,
    set_grad_enabled,
)
from plugrad.graph.nodes import Node
from plugrad.registry.namespaces import lazy_names

__all__ = [
    "Function", "FunctionCtx", "Node", "Variable", "backward", "detect_anomaly", "enable_grad", "explain_missing",
    "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_anomaly_enabled", "is_zero_safe_enabled", "no_grad",
    "once_differentiable", "save_on_cpu", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled",
    "set_zero_safe", "trace_breaks", "zero_safe",
]  # fmt: skip


def _module(name: str, *members, **named):
    """Return a part of this module under PyTorch's name, which `from plugrad.autograd.NAME import ...` finds, too."""
    module = sys.modules[f"plugrad.autograd.{name}"] = types.ModuleType(f"plugrad.autograd.{name}")
    module.__dict__.update({member.__name__: member for member in members}, **named)
    return module


graph = _module("graph", Node, saved_tensors_hooks, save_on_cpu)
grad_mode = _module("grad_mode", no_grad, enable_grad, set_grad_enabled, inference_mode)

__getattr__, __dir__ = lazy_names(globals(), None, {
    "autograd.forward_ad": "", "autograd.functional": "",
    "autograd.missing_grads": "explain_missing trace_breaks",
    "autograd.nan_guard": "is_zero_safe_enabled set_zero_safe zero_safe",
    "testing": "gradcheck gradgradcheck GradcheckError",
    "legacy": "Variable",
})  # fmt: skip
