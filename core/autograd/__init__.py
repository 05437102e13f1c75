"""`plugrad.autograd`: gradients, grad modes, hooks on saved tensors, custom Functions and gradient checks."""

from __future__ import annotations

from plugrad.autograd.entrances import backward, grad
from plugrad.autograd.function import Function, FunctionCtx
from plugrad.graph.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from plugrad.graph.nodes import Node
from plugrad.registry.namespaces import lazy_names

__all__ = [
    "Function", "FunctionCtx", "NestedIOFunction", "Node", "Variable", "backward", "detect_anomaly", "enable_grad",
    "enforce_grad_layout_policy", "explain_missing",
    "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_anomaly_enabled", "is_zero_safe_enabled", "no_grad",
    "once_differentiable", "save_on_cpu", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled",
    "set_zero_safe", "trace_breaks", "zero_safe",
]  # fmt: skip


__getattr__, __dir__ = lazy_names(globals(), None, {
    "autograd.forward_ad": "", "autograd.functional": "",
    "autograd.grad_mode": "enforce_grad_layout_policy is_multithreading_enabled set_multithreading_enabled",
    "autograd.graph": "save_on_cpu saved_tensors_hooks",
    "autograd.missing_grads": "explain_missing trace_breaks",
    "autograd.rare.anomaly": "detect_anomaly is_anomaly_enabled set_detect_anomaly",
    "autograd.nan_guard": "is_zero_safe_enabled set_zero_safe zero_safe",
    "testing": "gradcheck gradgradcheck GradcheckError",
    "autograd.once": "once_differentiable",
    "autograd.variable": "", "legacy": "Variable", "torch_modules.profiler": "kineto_available",
    "autograd.rare.old_functions": "NestedIOFunction",
})  # fmt: skip
