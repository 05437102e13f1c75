"""Nodes of the graph are functions: called with the gradients of what they made they return those of their inputs."""

from __future__ import annotations

from plugrad.autograd.engine import CarefulWalk
from plugrad.graph.nodes import AccumulateGrad, Outputs


def call_node(node, grads, options):
    """Return the gradients of a node's inputs for those of its outputs: `node(*grads)`.

    What the node saved is kept, and its hooks do not run. With grad mode on the gradients are recorded. The node of a
    leaf accumulates. Raises TypeError for another number of gradients than the node has outputs, and RuntimeError
    where what was saved is gone.
    """
    if options:
        raise TypeError("keyword arguments are not supported")
    outputs = getattr(node, "outputs", None)
    count = len(outputs) if outputs else 1
    if len(grads) != count:
        raise TypeError(f"expected {count} arguments, got {len(grads)} instead")
    if isinstance(node, AccumulateGrad):
        node.variable.backward(grads[0])
        return ()
    g = Outputs({i: g for i, g in enumerate(grads) if g is not None}) if outputs else grads[0]
    pulled = CarefulWalk(True, True, None).pull(node, g)
    gradients = [None] * len(node.next_functions)
    for position, gradient in zip(node.positions or range(len(node.edges)), pulled):
        gradients[position] = gradient
    return gradients[0] if len(gradients) == 1 else tuple(gradients)
