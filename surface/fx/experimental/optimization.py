"""Graphs for inference: normalization put into the convolutions before it, dropout taken out."""

from __future__ import annotations

import copy

from plugrad import nn
from plugrad.fx._symbolic_trace import symbolic_trace
from plugrad.fx.graph_module import GraphModule
from plugrad.nn.utils import fusion

__all__ = ["fuse", "remove_dropout"]

_FUSED = {
    nn.Conv1d: (nn.BatchNorm1d, fusion.fuse_conv_bn_eval), nn.Conv2d: (nn.BatchNorm2d, fusion.fuse_conv_bn_eval),
    nn.Conv3d: (nn.BatchNorm3d, fusion.fuse_conv_bn_eval), nn.Linear: (nn.BatchNorm1d, fusion.fuse_linear_bn_eval),
}  # fmt: skip


def _put(module, path, value) -> None:
    home, _, name = path.rpartition(".")
    setattr(module.get_submodule(home), name, value)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Return the graph of a model in which batch normalization is part of the layer before it.

    Args:
        model: module in evaluation mode that can be traced, or a GraphModule.
        inplace: whether the model itself, and not a copy, is changed.
        no_trace: whether the model is a GraphModule already.

    Raises RuntimeError for a model in training mode.
    """
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    for node in list(traced.graph.nodes):
        before = node.args[0] if node.op == "call_module" and node.args else None
        if before is None or getattr(before, "op", None) != "call_module" or len(before.users) > 1:
            continue
        layer, norm = traced.get_submodule(before.target), traced.get_submodule(node.target)
        wanted, fused = _FUSED.get(type(layer), (None, None))
        if wanted is None or type(norm) is not wanted or not norm.track_running_stats:
            continue
        if layer.training or norm.training:
            raise RuntimeError("layers are fused for inference: call model.eval() first")
        _put(traced, before.target, fused(layer, norm))
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def remove_dropout(model: nn.Module) -> GraphModule:
    """Return the graph of a model without its dropout layers."""
    traced = symbolic_trace(model)
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), nn.modules.dropout._DropoutNd):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.recompile()
    return traced
