"""`plugrad.fx`: programs as graphs of their ops, which can be looked at, changed, and run as modules.

`symbolic_trace` calls a module or function with a `Proxy` in the place of each argument. Every op, method, operator and
module that a proxy meets becomes a `Node` of a `Graph`, a third party's ops too, since a proxy is a class with
`__torch_function__`. A `GraphModule` is a module whose `forward` is the graph as Python code.
"""

from __future__ import annotations

from plugrad import absent
from plugrad.fx import graph, immutable_collections, interpreter, node, passes, proxy, subgraph_rewriter  # noqa: F401
from plugrad.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, is_fx_tracing, symbolic_trace, wrap
from plugrad.fx.graph import CodeGen, Graph
from plugrad.fx.graph_module import GraphModule
from plugrad.fx.interpreter import Interpreter, Transformer
from plugrad.fx.node import Node, has_side_effect, map_arg
from plugrad.fx.proxy import Proxy
from plugrad.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "PH", "Proxy", "ProxyableClassMeta", "Tracer",
    "Transformer", "has_side_effect", "is_fx_tracing", "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip

__getattr__ = absent.attributes("fx")
