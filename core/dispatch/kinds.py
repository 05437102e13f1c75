"""What plugins bring to dispatch, ops, kernels and hooks on ops, and when a record is complete."""

from __future__ import annotations

from plugrad import registry
from plugrad.dispatch.interception import Hook
from plugrad.dispatch.kernels import Kernel
from plugrad.dispatch.namespaces import forget_namespaces
from plugrad.dispatch.op import Op
from plugrad.registry import events
from plugrad.registry.kinds import PLACES, is_name, no_place

_PROMOTIONS = (None, "same", "float", "int", "int64", "bool", "index")
_WITHOUT_GRADIENT = ("bool", "int", "index")  # what results that have none are promoted to


def _check_op(op) -> None:
    for dotted in op.names:
        if not all(map(is_name, dotted.split("."))):
            raise TypeError(f"op {op.name!r} can't be public as {dotted!r}: that is no dotted Python name")
        if dotted.rpartition(".")[0] not in PLACES:
            raise TypeError(f"op {op.name!r} can't be public as {dotted!r}: {no_place(dotted)}")
    if not op.parameters and op.runs_on != "nothing":
        raise TypeError(f"op {op.name!r} takes no tensor: its kernel must be `def {op.name}(xp, input, ...)`")
    if op.promote not in _PROMOTIONS:
        known = ", ".join(repr(one) for one in _PROMOTIONS if one)
        raise TypeError(f"op {op.name!r} has promote={op.promote!r}, it must be one of {known}")
    if op.runs_on != "arrays" or op.promote in _WITHOUT_GRADIENT:
        return
    if not op.formulas and not op.undifferentiable:
        raise TypeError(f"op {op.name!r} has no gradient: declare it with @{op.name}.vjp, or say vjp=None")
    missing = set(op.tensors) - set(op.inputs) if op.arity == 2 and op.formulas else ()
    if missing:
        (name,) = missing
        raise TypeError(
            f"op {op.name!r} has no gradient for {name!r}: declare it with @{op.name}.vjp({name!r}); if there is none "
            "the formula returns None"
        )


registry.declare_kind("ops", home="", base=Op, what="records", named_by="name", check=_check_op)
registry.declare_kind("kernels", home="kernels", base=Kernel, what="records", named_by=None)
registry.declare_kind("hooks", home="op_hooks", base=Hook)
events.on_forget.append(lambda dotted: forget_namespaces())
