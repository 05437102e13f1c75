"""`plugrad.onnx`: models as ONNX files, written from the ops that they call, and files as Modules that train.

Nothing else need be installed. How an op is written is its form: `@op.onnx` on a record, or `form("name")`.
"""

from __future__ import annotations

import enum

from plugrad import absent
from plugrad.onnx import forms, operators
from plugrad.onnx.builder import Graph, Output
from plugrad.onnx.declaring import form, form_of, operator
from plugrad.onnx.exporting import ONNXProgram, export
from plugrad.onnx.running import ONNXModule, load
from plugrad.onnx.tracing import Size

__all__ = [
    "Graph", "ONNXModule", "ONNXProgram", "Output", "Size", "TrainingMode", "export", "form", "form_of", "forms",
    "is_in_onnx_export", "load", "operator", "operators", "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]  # fmt: skip

__getattr__ = absent.attributes("onnx")

_symbolic: dict = {}  # (name of an op, version of the operator set) -> function


class TrainingMode(enum.Enum):
    """In which mode `export` runs a Module."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


def is_in_onnx_export() -> bool:
    """Return False: a program is exported as it runs, never run for that."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version, custom_opsets=None) -> None:
    """Note what PyTorch's exporter would call for an op; this one takes `form(name)`.

    Raises ValueError for a name without a namespace.
    """
    if "::" not in symbolic_name:
        raise ValueError(f"Failed to register operator {symbolic_name}. The symbolic name must match 'domain::name'")
    _symbolic[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version) -> None:
    """Forget what `register_custom_op_symbolic` noted."""
    _symbolic.pop((symbolic_name, opset_version), None)
