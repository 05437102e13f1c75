"""`torch.onnx`: nothing is exported here, which `is_in_onnx_export()` says; libraries may say how theirs would be."""

from __future__ import annotations

from plugrad import absent

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]
__path__ = []  # below it are modules that are not there
__getattr__ = absent.attributes("onnx")

_symbolic: dict = {}  # (name of an op, version of the operator set) -> function


def is_in_onnx_export() -> bool:
    """Always False."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version, custom_opsets=None) -> None:
    """Note which nodes an op would be exported as. Raises ValueError for a name without a namespace."""
    if "::" not in symbolic_name:
        raise ValueError(f"Failed to register operator {symbolic_name}. The symbolic name must match 'domain::name'")
    _symbolic[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version) -> None:
    """Forget what `register_custom_op_symbolic` noted."""
    _symbolic.pop((symbolic_name, opset_version), None)
