"""Inference tensors: what is made in `inference_mode`, and can neither enter a graph nor be written outside of it.

They carry a variant of their tensor type, so that the fast paths leave them to the general path, which asks here.
"""

from __future__ import annotations

from plugrad.graph.modes import LEAF, mode
from plugrad.tensor.layouts import lay_out

exist = False  # whether there ever was one


def mark(tensor, is_fixed=True):
    """Make a new tensor an inference tensor; if not `is_fixed`, it may be written where the mode is off; return it."""
    global exist
    exist = True
    tensor._type = lay_out(tensor)._type.variant()
    tensor.__dict__["_inference"] = is_fixed
    # A view of one follows nothing: neither writes to its base nor whether that requires grad.
    tensor._view, tensor._edge = None, LEAF if tensor._edge is LEAF else None
    return tensor


def marked(tensor) -> bool:
    """Whether a tensor is an inference tensor."""
    return tensor._type.plain is not tensor._type and "_inference" in tensor.__dict__


def settle(op, values, results) -> None:
    """Mark the results of a call: views are what they are views of, all else is what the mode says."""
    for tensor in results if isinstance(results, tuple) else (results,):
        if tensor is not values[0] and (marked(values[0]) if op.is_view and tensor._view else mode.inference):
            mark(tensor)


def check_saved(op, cls, values) -> None:
    """Raise RuntimeError if the node class of a call saves an inference tensor."""
    for name, (position, what) in zip(cls.saves, cls.savers):
        if what is None and position >= 0:
            value = values[position]
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if hasattr(item, "_type") and marked(item):
                    raise RuntimeError(not_saved(f"the gradient of {op.name}() needs {name!r}"))


def not_saved(what: str) -> str:
    """Return the error message for an inference tensor that was to be saved, where `what` says for what."""
    return (
        f"Inference tensors cannot be saved for backward: {what}, which was made in inference_mode. Use its clone(), "
        "which is a normal tensor, or make it under no_grad()"
    )


def check_writable(tensor) -> None:
    """Raise RuntimeError if a tensor is an inference tensor that is fixed, and the mode is off."""
    if not mode.inference and tensor.__dict__.get("_inference"):
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed: clone() it to get a normal "
            "tensor, and write to that"
        )


def check_requires_grad(tensor) -> None:
    """Raise RuntimeError if a tensor is an inference tensor, and so can't require grad while the mode is off."""
    if not mode.inference and marked(tensor):
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed: clone() it first"
        )
