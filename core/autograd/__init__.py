"""`plugrad.autograd`: gradients, grad modes, hooks on saved tensors, custom Functions and gradient checks."""

from __future__ import annotations

import importlib
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
from plugrad.tensor.creation import Variable

__all__ = [
    "Function", "FunctionCtx", "Node", "Variable", "backward", "detect_anomaly", "enable_grad", "explain_missing",
    "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_anomaly_enabled", "is_zero_safe_enabled", "no_grad",
    "once_differentiable", "save_on_cpu", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled",
    "set_zero_safe", "trace_breaks", "zero_safe",
]  # fmt: skip


def _no_dual_tensors(*args, **kwargs):
    raise NotImplementedError(
        "there are no dual tensors in plugrad: derivatives along a direction are those of plugrad.func.jvp(f, (x,), "
        "(tangent,)), and plugrad.func.linearize for many directions"
    )


def _module(name: str, *members, **named):
    """Return a part of this module under PyTorch's name, which `from plugrad.autograd.NAME import ...` finds, too."""
    module = sys.modules[f"plugrad.autograd.{name}"] = types.ModuleType(f"plugrad.autograd.{name}")
    module.__dict__.update({member.__name__: member for member in members}, **named)
    return module


graph = _module("graph", Node, saved_tensors_hooks, save_on_cpu)
grad_mode = _module("grad_mode", no_grad, enable_grad, set_grad_enabled, inference_mode)
forward_ad = _module(
    "forward_ad",
    **dict.fromkeys(
        ("dual_level", "make_dual", "unpack_dual", "enter_dual_level", "exit_dual_level"), _no_dual_tensors
    ),
)


_IN_ROOMS = {
    **dict.fromkeys(("explain_missing", "trace_breaks"), "missing_grads"),
    **dict.fromkeys(("is_zero_safe_enabled", "set_zero_safe", "zero_safe"), "nan_guard"),
}
_ROOMS = {"functional", *_IN_ROOMS.values()}


def __getattr__(name):
    # Doors to what stands above the core, imported when first used: a program that trains checks no gradients.
    if name in ("gradcheck", "gradgradcheck", "GradcheckError"):
        from plugrad import testing

        return getattr(testing, name)
    if name in _ROOMS:
        return importlib.import_module(f"plugrad.autograd.{name}")
    if name in _IN_ROOMS:
        value = globals()[name] = getattr(importlib.import_module(f"plugrad.autograd.{_IN_ROOMS[name]}"), name)
        return value
    raise AttributeError(f"module 'plugrad.autograd' has no attribute {name!r}")
