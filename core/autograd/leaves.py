"""What becomes of the complete gradients of leaves: their hooks, and that they accumulate or are captured."""

from __future__ import annotations

from plugrad.autograd.accumulate import accumulate, accumulate_first
from plugrad.autograd.hooks import run_before, run_pre
from plugrad.graph import rare as words
from plugrad.graph.modes import LEAF, NOWHERE
from plugrad.tensor.tensor import ensure_tensor


def finish_leaves(leaves: list, on_tensors=False, targets=None, captured=None) -> None:
    """Accumulate the complete gradients of leaves, [leaf, gradient, leaf, gradient, ...], and empty the list.

    Gradients are raw arrays, or with `on_tensors` Tensors; None where none arrived. With `targets`, which has them all,
    only those leaves accumulate that it maps to True; gradients of the others go to the dict `captured`.
    """
    leaves.reverse()
    if targets is None and not on_tensors:
        accumulate_first(leaves)
    while leaves:
        leaf = leaves.pop()
        if leaf._view is NOWHERE:
            leaves.pop()
            continue
        extras = leaf.__dict__
        rare = extras.get("_hooks") if extras else None
        if rare is not None and leaves[-1] is not None:
            leaves[-1] = run_before(rare, leaves[-1], on_tensors)
        if targets is not None and not targets[leaf]:
            captured[leaf] = leaves.pop()
            continue
        if leaves[-1] is None or (leaf._edge if leaf._view is None else leaf._live_edge()) is not LEAF:
            if leaves.pop() is not None and leaf._edge is not None:
                raise RuntimeError("leaf variable has been moved into the graph interior")
            continue  # it got none, or requires none any more
        if rare is not None:
            leaves[-1] = run_pre(leaf, rare, leaves[-1], on_tensors)
        arrived = (ensure_tensor(leaves[-1]),) if rare is not None and rare.after else None
        accumulate(leaf, leaves, on_tensors)
        if extras:
            for hook in list(extras.get("_post_accumulate_grad_hooks", {}).values()):
                if (answer := hook(leaf)) is not None:
                    raise words.no_answer(answer)
        if arrived is not None:
            for hook in list(rare.after.values()):
                hook((), arrived)
