"""`plugrad.autograd`: gradients, grad modes, hooks on saved tensors, custom Functions and gradient checks."""

from __future__ import annotations

import sys
import types

from plugrad.autograd import functional
from plugrad.autograd.engine import (
    Node,
    backward,
    detect_anomaly,
    enable_grad,
    grad,
    inference_mode,
    is_anomaly_enabled,
    no_grad,
    save_on_cpu,
    saved_tensors_hooks,
    set_detect_anomaly,
    set_grad_enabled,
)
from plugrad.autograd.function import Function, FunctionCtx, once_differentiable
from plugrad.autograd.nan_guard import is_zero_safe_enabled, set_zero_safe, zero_safe
from plugrad.tensor.creation import Variable


def _module(name, **members):
    """Return a module of this one, which `from plugrad.autograd.NAME import` finds as well."""
    made = sys.modules[f"plugrad.autograd.{name}"] = types.ModuleType(f"plugrad.autograd.{name}")
    made.__dict__.update(members)
    return made


graph = _module("graph", Node=Node, saved_tensors_hooks=saved_tensors_hooks, save_on_cpu=save_on_cpu)
function = _module("function", Function=Function, FunctionCtx=FunctionCtx, once_differentiable=once_differentiable)
grad_mode = _module(
    "grad_mode", no_grad=no_grad, enable_grad=enable_grad, set_grad_enabled=set_grad_enabled,
    inference_mode=inference_mode,
)  # fmt: skip


def _no_dual_tensors(*args, **kwargs):
    raise NotImplementedError(
        "there are no dual tensors in plugrad: derivatives along a direction are those of plugrad.func.jvp(f, (x,), "
        "(tangent,)), and plugrad.func.linearize for many directions"
    )


forward_ad = _module(
    "forward_ad", dual_level=_no_dual_tensors, make_dual=_no_dual_tensors, unpack_dual=_no_dual_tensors,
    enter_dual_level=_no_dual_tensors, exit_dual_level=_no_dual_tensors,
)  # fmt: skip

sys.modules["plugrad.autograd.functional"] = functional

__all__ = [
    "Function", "FunctionCtx", "Node", "Variable", "backward", "detect_anomaly", "enable_grad", "explain_missing",
    "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_anomaly_enabled", "is_zero_safe_enabled", "no_grad",
    "once_differentiable", "save_on_cpu", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled",
    "set_zero_safe", "trace_breaks", "zero_safe",
]  # fmt: skip


def __getattr__(name):
    # The checks are imported at first use: a program that trains has no need of them.
    if name in ("gradcheck", "gradgradcheck", "GradcheckError"):
        from plugrad import testing

        return getattr(testing, name)
    if name in ("explain_missing", "trace_breaks"):
        from plugrad.autograd import missing_grads

        return getattr(missing_grads, name)
    raise AttributeError(f"module 'plugrad.autograd' has no attribute {name!r}")
