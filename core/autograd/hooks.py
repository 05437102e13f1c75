"""Hooks that run during a walk: those of tensors and nodes before a node runs, of nodes after it, and anomaly mode."""

from __future__ import annotations

import warnings

from plugrad.autograd.accumulate import accumulate
from plugrad.graph.hooks import Rare
from plugrad.graph.modes import mode
from plugrad.graph.nodes import Outputs
from plugrad.tensor.tensor import Tensor, ensure_tensor


def run_before(owner, rare: Rare, g, on_tensors: bool):
    """Run tensor hooks (in order of registration), keep a retained gradient, run node pre-hooks; return the gradient.

    `owner` is a node or a leaf; its gradient `g` is a Tensor if `on_tensors`, else a raw array.
    """
    if not (rare.before or rare.retained or rare.pre):
        return g
    if isinstance(g, Outputs):
        return _run_before_outputs(owner, rare, g, on_tensors)
    tensor = ensure_tensor(g)
    for hook in list((rare.before or {}).values()):
        result = hook(tensor)
        if result is not None:
            tensor = _checked(result, tensor)
    keeper = None if rare.retained is None else rare.retained()
    if keeper is not None and tensor is not None:
        accumulate(keeper, [tensor if on_tensors else tensor._data], on_tensors)
    for hook in list((rare.pre or {}).values()):
        result = hook((tensor,))
        if result is not None:
            tensor = result[0] if isinstance(result, (tuple, list)) else result
    return tensor if on_tensors or tensor is None else tensor._data


def _run_before_outputs(node, rare: Rare, g: Outputs, on_tensors: bool) -> Outputs:
    tensors = tuple(ensure_tensor(item) for item in node.materialize(g))
    for hook in list((rare.pre or {}).values()):
        result = hook(tensors)
        if result is not None:
            tensors = tuple(result)
    return Outputs({i: t if on_tensors else t._data for i, t in enumerate(tensors) if t is not None})


def _checked(result, grad):
    if not isinstance(result, Tensor):
        raise TypeError(f"a tensor hook must return None or a Tensor, not {type(result).__name__}")
    if grad is not None and result.shape != grad.shape:
        raise RuntimeError(
            f"hook 'tensor hook' has changed the size of value: it got {list(grad.shape)} and returned "
            f"{list(result.shape)}"
        )
    return result


def run_after(node, rare: Rare, grads, g, on_tensors: bool):
    """Stop at NaN in anomaly mode, run node hooks; return the gradients of the node's edges."""
    if mode.anomaly and mode.check_nan:
        for number, grad in enumerate(grads):
            if grad is not None and bool(ensure_tensor(grad).isnan().any()):
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {number}th output.")
    if not rare.after:
        return grads
    outputs = node.materialize(g) if isinstance(g, Outputs) else (g,)
    grad_outputs = tuple(ensure_tensor(item) for item in outputs)
    tensors = [None] * max(node.inputs, len(grads))
    positions = node.positions or range(len(grads))
    for position, grad in zip(positions, grads):
        tensors[position] = ensure_tensor(grad)
    tensors = tuple(tensors)
    for hook in list(rare.after.values()):
        result = hook(tensors, grad_outputs)
        if result is not None:
            tensors = result if isinstance(result, tuple) else (result,)
    grads = [tensors[position] for position in positions]
    return tuple(t if on_tensors or t is None else t._data for t in grads)


def explain(error: Exception, node) -> None:
    """Add to an error in a node's backward the stack of the forward call that made the node, if there is one."""
    stack = node.rare.stack
    if stack is not None and not getattr(error, "_explained", False):
        error._explained = True
        warnings.warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{''.join(stack)}",
            stacklevel=5,
        )
        error.add_note(f"The forward call of {node.name()} was:\n{''.join(stack)}")
