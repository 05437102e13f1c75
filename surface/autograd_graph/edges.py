"""`GradientEdge`: a place in the graph where a gradient arrives, named without the tensor whose gradient it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from plugrad import Tensor, device, enable_grad
from plugrad.autograd import Node
from plugrad.autograd.rare.unrecorded_views import leads_nowhere
from plugrad.graph.modes import LEAF
from plugrad.graph.nodes import AccumulateGrad, OutputSlot, accumulate_node
from plugrad.tensor.tensor import make


class GradientEdge(NamedTuple):
    """An edge of the graph: output number `output_nr` of `node`.

    `autograd.grad` and `backward` take it wherever they take a tensor. `ownership_token` is what was kept of the
    tensor that it was made from; None for one that was made by hand, as of the pairs in `Node.next_functions`.
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


class _Token:
    """What is known of the tensor that an edge was made from: its edge, shape and type, not its data."""

    __slots__ = ("edge", "shape", "ttype")

    def __init__(self, tensor):
        self.edge, self.shape, self.ttype = tensor._live_edge(), tuple(tensor.shape), tensor._type.plain


def get_gradient_edge(tensor) -> GradientEdge:
    """Return the edge at which the gradient of a tensor is computed.

    `autograd.grad(loss, edge)` is `autograd.grad(loss, tensor)`, but the edge keeps no data alive. Raises
    RuntimeError for a tensor that requires none, AssertionError for a view without history: no gradient arrives there.

    >>> import plugrad as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> y = x * x
    >>> edge = torch.autograd.graph.get_gradient_edge(y)
    >>> torch.autograd.grad(y.exp().log(), edge)
    (tensor(1.),)
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients: call "
            "requires_grad_() on it before the computation"
        )
    with enable_grad():  # else a view without history has nothing that stands for it
        is_leaf = tensor.is_leaf
    if is_leaf and leads_nowhere(tensor._edge):
        raise AssertionError(
            "no gradient is computed for a view that was made under no_grad() or before its base required grad: call "
            "requires_grad_() on it first, or take the edge of its base"
        )
    if is_leaf:
        return GradientEdge(accumulate_node(tensor), 0)
    return GradientEdge(tensor.grad_fn, tensor.output_nr, _Token(tensor))


def stand_in(edge, given):
    """Return a tensor whose history is an edge; TypeError for what is no edge.

    `given` is the gradient that comes with it, or a tuple of tensors that depend on it: they tell of an edge that was
    made by hand what it does not know.
    """
    if isinstance(edge, Tensor):
        return edge
    if not isinstance(edge, GradientEdge):
        if isinstance(given, tuple):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(edge).__name__}")
        raise TypeError(f"expected Tensors or GradientEdges, got {type(edge).__name__}")
    if isinstance(edge.node, AccumulateGrad):
        return edge.node.variable
    token = edge.ownership_token
    if isinstance(token, _Token):
        history, shape, ttype = token.edge, token.shape, token.ttype
    elif getattr(edge.node, "outputs", None):
        history = _slot(edge.node, edge.output_nr, given) or OutputSlot(edge.node, edge.output_nr)
        shape, ttype = edge.node.outputs[edge.output_nr]
    elif isinstance(given, Tensor):
        history, shape, ttype = edge.node, tuple(given.shape), given._type.plain
    elif given is None:
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs: pass a gradient of its shape, or make the edge by "
            "get_gradient_edge(tensor), which knows the shape"
        )
    else:
        history, shape, ttype = edge.node, (), _any_type(given)
    if ttype.symbolic:
        return make(ttype.backend.empty(shape, ttype.np), ttype, history)
    nothing = ttype.zeros(())  # of the right shape, but of one element's memory
    return make(ttype.xp.broadcast_to(nothing, shape) if shape else nothing, ttype, history)


def _edges_below(tensors):
    """Yield all edges that tensors depend on."""
    seen, waiting = set(), [tensor._live_edge() for tensor in tensors if isinstance(tensor, Tensor)]
    while waiting:
        edge = waiting.pop()
        if edge is None or edge is LEAF or id(edge) in seen:
            continue
        seen.add(id(edge))
        yield edge
        waiting += edge.edges


def _slot(node, number: int, tensors):
    """Return the edge that leads from what some tensors depend on to one output of a node."""
    tensors = tensors if isinstance(tensors, tuple) else ()
    slots = (one for one in _edges_below(tensors) if type(one) is OutputSlot)
    return next((one for one in slots if one.edges[0] is node and one.index == number), None)


def _any_type(tensors):
    """Return the type of a leaf that tensors depend on."""
    leaf = next((edge for edge in _edges_below(tensors) if isinstance(edge, Tensor)), None)
    return leaf._type.plain if leaf is not None else device("cpu").tensor_type(numpy.dtype("float32"))
