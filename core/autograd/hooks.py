"""Hooks that run during a walk: those of tensors and nodes before a node runs, of nodes after it, and anomaly mode."""

from __future__ import annotations

from plugrad.autograd.accumulate import accumulate
from plugrad.graph import rare as rooms
from plugrad.graph.hooks import Rare
from plugrad.graph.modes import mode
from plugrad.graph.nodes import Outputs
from plugrad.tensor.tensor import Tensor, ensure_tensor


def run_before(rare: Rare, g, on_tensors: bool):
    """Run tensor hooks (in order of registration), keep a retained gradient; return the gradient.

    `g` is a Tensor if `on_tensors`, else a raw array. These hooks run where a walk ends at a tensor, too.
    """
    if not (rare.before or rare.retained) or isinstance(g, Outputs):
        return g
    tensor = ensure_tensor(g)
    for hook in list((rare.before or {}).values()):
        result = hook(tensor)
        if result is not None:
            tensor = _checked(hook, result, tensor)
    keeper = None if rare.retained is None else rare.retained()
    if keeper is not None and tensor is not None:
        accumulate(keeper, [tensor if on_tensors else tensor._raw], on_tensors)
    return tensor if on_tensors or tensor is None else tensor._raw


def run_pre(node, rare: Rare, g, on_tensors: bool):
    """Run the pre-hooks of a node or leaf that the walk goes through; return its gradient, or gradients."""
    if not rare.pre:
        return g
    several = isinstance(g, Outputs)
    tensors = _of_outputs(node, g)
    for hook in list(rare.pre.values()):
        result = hook(tensors)
        if result is not None:
            tensors = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    arrays = [t if on_tensors or t is None else t._raw for t in tensors]
    return Outputs({i: item for i, item in enumerate(arrays) if item is not None}) if several else arrays[0]


def _of_outputs(node, g) -> tuple:
    """Return the gradients of all outputs of a node as Tensors, None where none arrived; none for last indices."""
    grads = [g.grads.get(i) for i in range(len(node.outputs))] if isinstance(g, Outputs) else [g]
    while len(grads) > 1 and node.op is not None and not node.outputs[len(grads) - 1][1].is_differentiable:
        grads.pop()
    return tuple([ensure_tensor(grad) for grad in grads])


def _checked(hook, result, grad):
    if not isinstance(result, Tensor):
        raise TypeError(f"a tensor hook must return None or a Tensor, not {type(result).__name__}")
    if grad is not None:
        types = result._type.plain, grad._type.plain
        for what, have, wanted in (("size", result.shape, grad.shape), ("type", *types)):
            if have != wanted:
                name = getattr(hook, "__name__", "tensor hook")
                raise RuntimeError(f"hook '{name}' has changed the {what} of value: was {wanted}, got {have}")
    return result


def run_after(node, rare: Rare, grads, g, on_tensors: bool):
    """Stop at NaN in anomaly mode, run node hooks; return the gradients of the node's edges."""
    if mode.anomaly and mode.check_nan:
        rooms.check_nan(node, grads)
    if not rare.after:
        return grads
    grad_outputs = _of_outputs(node, g)
    tensors = [None] * max(node.inputs, len(grads))
    positions = node.positions or range(len(grads))
    for position, grad in zip(positions, grads):
        tensors[position] = ensure_tensor(grad)
    tensors = tuple(tensors)
    for hook in list(rare.after.values()):
        tensors = rooms.gradients_of_hook(hook, hook(tensors, grad_outputs), tensors)
    grads = [tensors[position] for position in positions]
    return tuple(t if on_tensors or t is None else t._raw for t in grads)
