"""ONNX's operators, run by plugrad's ops. Each is `f(module, node, *inputs)`; an input left out is None."""

from __future__ import annotations

from plugrad.onnx.operators import elementwise, layers, recurrent, reductions, shapes

__all__ = ["elementwise", "layers", "recurrent", "reductions", "shapes"]
