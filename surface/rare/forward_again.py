"""Forward of a custom Function, run again with recording on, where what it kept has a second derivative."""

from __future__ import annotations

import numpy

from plugrad import Tensor, enable_grad, nest


def run_forward_again(node):
    """Run forward again, recorded, and return a context whose intermediates are connected to the inputs."""
    args, kwargs = node.arguments
    copy = type(node)()
    copy.attributes, copy.outputs, copy.seq = dict(node.attributes), node.outputs, node.seq
    context = copy.context()
    with enable_grad():
        copy._call_forward(context, args, kwargs)
    before = [*node.saved_tensors, *_tensors_in(node.attributes)]
    after = [*copy.attributes.get("_to_save", ()), *_tensors_in(copy.attributes)]
    for old, new in zip(before, after):
        if old is None or not new.requires_grad or old is new:
            continue
        if not numpy.array_equal(old.detach()._host(), new.detach()._host(), equal_nan=True):
            raise RuntimeError(
                f"double backward through {node.user.__name__}: forward kept an intermediate tensor of shape "
                f"{list(new.shape)} that depends on the inputs and is not the same when forward is run again (does "
                "forward draw random numbers?): save inputs or outputs with ctx.save_for_backward, or decorate "
                "backward with once_differentiable"
            )
    return context


def _tensors_in(attributes: dict) -> list:
    kept = [value for name, value in attributes.items() if not name.startswith("_")]
    return [leaf for leaf in nest.leaves(kept) if isinstance(leaf, Tensor)]
