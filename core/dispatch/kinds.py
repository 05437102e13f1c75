"""What plugins bring to dispatch, ops, kernels and hooks on ops."""

from __future__ import annotations

from plugrad import registry
from plugrad.dispatch.formulas import forget_ops
from plugrad.dispatch.interception import Hook
from plugrad.dispatch.kernels import Kernel
from plugrad.dispatch.op import Op
from plugrad.registry import events

registry.declare_kind("ops", home="", base=Op, what="records", named_by="name")
registry.declare_kind("kernels", home="kernels", base=Kernel, what="records", named_by=None)
registry.declare_kind("hooks", home="op_hooks", base=Hook)
events.on_forget.append(lambda dotted: forget_ops())
