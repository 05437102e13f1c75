"""What becomes of a gradient that arrives: hooks before and after a node, and the `.grad` of a leaf."""

from __future__ import annotations

import sys

from plugrad.graph.modes import mode
from plugrad.graph.nodes import Outputs, Rare, as_tensor

# Gradients become Tensors, but their module imports this one: it sets the two names.
Tensor = make = None


def finish_leaf(leaf, g, create, targets, captured, holders) -> None:
    """The gradient of a leaf is complete: run its hooks, then accumulate or capture it.

    `holders` is how many references to `g` the caller knows of.
    """
    rare = leaf.__dict__.get("_hooks")
    if rare is not None and g is not None and (rare.before or rare.pre):
        g = run_before(leaf, rare, g, create)
    if targets is not None:
        if leaf in targets:
            captured[leaf] = g
        if not targets.get(leaf):
            return
    if g is None:
        return
    accumulate(leaf, g, create, holders)
    if rare is not None and rare.after:
        for hook in list(rare.after.values()):
            hook((), (as_tensor(g),))
    post = leaf.__dict__.get("_post_accumulate_grad_hooks")
    if post:
        for hook in list(post.values()):
            hook(leaf)


def accumulate(leaf, g, create, holders) -> None:
    """Add a finished gradient to `leaf.grad`. The first one is taken if nobody else holds it, else copied."""
    old = leaf.grad
    if create:
        leaf._grad = g if old is None else old + g
        return
    if old is not None:
        if old._edge is not None or old._data.__class__ is not g.__class__:
            leaf._grad = as_tensor(old._data + g)
        else:
            data = old._data
            data += g
        return
    kind = leaf._type.plain
    if g.__class__ is not kind.array_type:
        g = kind.wrap(g)
    # 3: this frame's `g`, that of `finish_leaf`, and getrefcount's own argument.
    elif g.base is not None or sys.getrefcount(g) > 3 + holders:
        g = g.copy()
    leaf._grad = make(g, kind)


def run_before(owner, rare: Rare, g, create):
    """Run tensor hooks (in order of registration), keep a retained gradient, run node pre-hooks."""
    if isinstance(g, Outputs):
        g = owner.materialize(g)
        tensors = tuple(as_tensor(item) for item in g)
        for hook in list((rare.pre or {}).values()):
            result = hook(tensors)
            if result is not None:
                tensors = tuple(result)
        return Outputs({i: t if create or t is None else t._data for i, t in enumerate(tensors) if t is not None})
    tensor = as_tensor(g)
    for hook in list((rare.before or {}).values()):
        result = hook(tensor)
        if result is not None:
            tensor = _checked(result, tensor, "tensor hook")
    if rare.retained is not None and tensor is not None:
        keeper = rare.retained()
        if keeper is not None:
            keeper._grad = tensor if keeper.grad is None else keeper.grad + tensor
    for hook in list((rare.pre or {}).values()):
        result = hook((tensor,))
        if result is not None:
            tensor = result[0] if isinstance(result, (tuple, list)) else result
    return tensor if create or tensor is None else tensor._data


def _checked(result, grad, what):
    if not isinstance(result, Tensor):
        raise TypeError(f"a {what} must return None or a Tensor, not {type(result).__name__}")
    if grad is not None and result.shape != grad.shape:
        raise RuntimeError(
            f"hook '{what}' has changed the size of value: it got {list(grad.shape)} and returned {list(result.shape)}"
        )
    return result


def run_after(node, rare: Rare, grads, g, create):
    if mode.anomaly and mode.check_nan:
        for number, grad in enumerate(grads):
            if grad is not None and bool(as_tensor(grad).isnan().any()):
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {number}th output.")
    if not rare.after:
        return grads
    outs = g if isinstance(g, Outputs) else (g,)
    if isinstance(g, Outputs):
        outs = node.materialize(g)
    grad_outputs = tuple(as_tensor(item) for item in outs)
    tensors = [None] * max(node.inputs, len(grads))
    positions = node.positions or range(len(grads))
    for position, item in zip(positions, grads):
        tensors[position] = as_tensor(item)
    tensors = tuple(tensors)
    for hook in list(rare.after.values()):
        result = hook(tensors, grad_outputs)
        if result is not None:
            tensors = result if isinstance(result, tuple) else (result,)
    grads = [tensors[position] for position in positions]
    return tuple(t if create or t is None else t._data for t in grads)
