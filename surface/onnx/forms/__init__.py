"""The forms of our own ops in ONNX: functions of a graph and an op's arguments, by the op's name."""

from __future__ import annotations

from plugrad.onnx.forms import elementwise, indexing, layers, products, reductions, shapes

__all__ = ["elementwise", "indexing", "layers", "products", "reductions", "shapes"]
