"""Tracing a module or function to a module that runs its graph."""

from __future__ import annotations

from plugrad import nn
from plugrad.fx._patching import wrap
from plugrad.fx._tracer import (
    PH,
    PHBase,
    PHWithMeta,
    ProxyableClassMeta,
    Tracer,
    _assert_is_none,
    is_fx_symbolic_tracing,
    is_fx_tracing,
)
from plugrad.fx.graph_module import GraphModule

__all__ = [
    "PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "_assert_is_none", "is_fx_symbolic_tracing",
    "is_fx_tracing", "symbolic_trace", "wrap",
]  # fmt: skip


def symbolic_trace(root, concrete_args=None) -> GraphModule:
    """Return a module that computes a module or function from its graph.

    Args:
        root: an nn.Module, or a function.
        concrete_args: {name: value} of arguments that the program may branch on; `PH` inside of nested values stands
            for what stays an argument.

    Raises TraceError where the program branches on values that are not known while tracing.

    >>> import plugrad as torch
    >>> traced = torch.fx.symbolic_trace(lambda x, y: torch.relu(x + y).sum(dim=1))
    >>> print(traced.code.strip())
    def forward(self, x, y):
        add = x + y;  x = y = None
        relu = torch.relu(add);  add = None
        sum_1 = relu.sum(dim = 1);  relu = None
        return sum_1
    >>> traced(torch.ones(2, 3), torch.ones(2, 3))
    tensor([6., 6.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
