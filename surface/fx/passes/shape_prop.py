"""Shapes and dtypes of all values of a graph, by running it."""

from __future__ import annotations

from typing import Any, NamedTuple

import plugrad
from plugrad import Size, Tensor, dtype, memory_format
from plugrad.fx.interpreter import Interpreter
from plugrad.fx.node import map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    layout = None
    if include_contiguity:
        formats = (plugrad.contiguous_format, *((plugrad.channels_last,) if result.ndim == 4 else ()),
                   *((plugrad.channels_last_3d,) if result.ndim == 5 else ()))  # fmt: skip
        layout = next((one for one in formats if result.is_contiguous(memory_format=one)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), layout, False, {})


class ShapeProp(Interpreter):
    """Runs a graph and notes each node's `meta["tensor_meta"]` and `meta["type"]`.

    The former has shape, dtype, strides...

    Args:
        gm: the GraphModule.

    >>> import plugrad as torch
    >>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 2)))
    >>> result = torch.fx.passes.shape_prop.ShapeProp(traced).propagate(torch.ones(5, 3))
    >>> for node in traced.graph.nodes:
    ...     print(node.name, node.meta["tensor_meta"].dtype, node.meta["tensor_meta"].shape)
    input_1 torch.float32 torch.Size([5, 3])
    _0 torch.float32 torch.Size([5, 2])
    output torch.float32 torch.Size([5, 2])
    """

    def __init__(self, gm, fake_mode=None):
        if fake_mode is not None:
            raise NotImplementedError("plugrad has no fake tensors: run the graph on tensors of the device meta")
        super().__init__(gm)

    def run_node(self, n):
        """Return the value of a node, and note what it is."""
        result = super().run_node(n)
        tensors = []

        def note(value):
            if not isinstance(value, Tensor):
                return value
            tensors.append(value)
            return _extract_tensor_metadata(value)

        described = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Run the graph on some arguments; return its result."""
        return super().run(*args)
