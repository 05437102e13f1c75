"""The same inputs laid out otherwise in memory: a gradient must not depend on that."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.testing.gradients.flat import FlatFunction
from plugrad.testing.tensors import is_float, map_tensors, strided_copy, to_numpy


def in_other_layout(flat) -> FlatFunction | None:
    """Return the function with its contiguous inputs transposed and strided in memory; None where there are none.

    Parameters of a Module stay as they are.
    """
    copies: dict = {}

    def lay(tensor):
        if id(tensor) not in copies and tensor.requires_grad and is_float(tensor):
            if tensor.ndim and tensor.numel() > 1 and tensor.is_contiguous():
                copies[id(tensor)] = strided_copy(tensor).requires_grad_()
        return copies.get(id(tensor), tensor)

    inputs = map_tensors(flat.inputs, lay)
    return FlatFunction(flat.func, inputs) if copies else None


def differs(flat, other) -> bool:
    """Whether gradients of two subjects with equal values differ; not where func refuses the other's layout.

    Where values differ func is about memory itself, as `as_strided` is.
    """
    values, grads = _run(flat)
    try:
        their_values, their_grads = _run(other)
    except Exception:  # func is the user's: it may insist on a layout, and refuse others in any way
        return False
    tolerance = max(1e-9, 64 * flat.epsilon)
    same = len(values) == len(their_values) and all(map(_close, values, their_values, [tolerance] * len(values)))
    return same and not all(map(_close, grads, their_grads, [tolerance] * len(grads)))


def _close(ours, theirs, tolerance) -> bool:
    if ours is None or theirs is None:  # func uses the input through its closure
        return True
    ours, theirs = to_numpy(ours), to_numpy(theirs)
    if ours.shape != theirs.shape:
        return False
    known = numpy.isfinite(ours)
    sizes = numpy.where(known, abs(ours), 0.0)
    allowed = tolerance * (sizes + 1e-3 * sizes.max(initial=0.0))
    return bool((abs(ours - theirs)[known] <= allowed[known]).all())


def _run(flat) -> tuple:
    """Return the outputs, and the gradients for random numbers in the outputs: in regular ones parts may cancel."""
    outputs, random = flat.forward(), numpy.random.default_rng(0)
    weighed = [(y, _weights(y, random)) for y in outputs if y.requires_grad]
    leaves = [leaf.tensor for leaf in flat.leaves]
    if not weighed:
        return outputs, []
    return outputs, plugrad.autograd.grad([y for y, _ in weighed], leaves, [g for _, g in weighed], allow_unused=True)


def _weights(output, random):
    weights = random.uniform(0.5, 1.5, tuple(output.shape))
    weights = weights + 1j * random.uniform(0.5, 1.5, weights.shape) if output.dtype.is_complex else weights
    return plugrad.from_numpy(numpy.asarray(weights)).to(output.device, output.dtype)
