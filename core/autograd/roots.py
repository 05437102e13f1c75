"""Where a walk starts: the tensors that `backward` or `grad` was called on, checked; and which walk it is."""

from __future__ import annotations

from io import BytesIO

import numpy

from plugrad.autograd.engine import CarefulWalk, Walk
from plugrad.graph import numpy_writes, rare
from plugrad.graph.modes import LEAF, levels, mode, other_walks, queued, special
from plugrad.regions import Changes
from plugrad.tensor.tensor import Tensor, make
from plugrad.tensor.views import follows_base

_WALKS = {(c, to): Changes({"pausing": not c, "in_function": True}) for c in (0, 1) for to in (0, 1)}  # told by id
_DEEP = 30  # blocks of modes, of which each walk is one, that may be open in a thread: frames are not endless


def walk(tensors, gradients, *, retain, create, targets=None) -> dict:
    """Walk backward from some tensors with their gradients, and return the gradients captured on the way, by edge.

    `retain` keeps saved values, `create` records the walk itself. `targets` returns those of `CarefulWalk`, once the
    tensors are checked.
    """
    thread = mode.thread
    if len(thread.stack) > _DEEP:
        return rare.in_fresh_thread(walk, tensors, gradients, retain=retain, create=create, targets=targets)
    on_tensors = bool(create or levels or special and mode.dispatch_modes)
    try:  # symbolic arrays know no operators: formulas run on Tensors then, recorded or not
        for tensor in tensors:
            on_tensors = tensor._type.symbolic or on_tensors
    except AttributeError:  # no Tensors: GradientEdges, or a mistake
        tensors = [rare.stand_in(*pair) for pair in zip(tensors, gradients)]
        return walk(tensors, gradients, retain=retain, create=create, targets=targets)
    roots = []
    for tensor, gradient in zip(tensors, gradients):
        edge = tensor._live_edge()
        if edge is None or edge is LEAF and follows_base(tensor):
            rare.refuse_root(len(roots))
        gradient = _gradient(tensor, gradient, len(roots))
        roots.append((tensor if edge is LEAF else edge, gradient if on_tensors else gradient._raw))
    if targets is not None:
        targets = targets()
    if numpy_writes.uses:
        numpy_writes.before_backward()
    with BytesIO() as flag, numpy.errstate(all="ignore"):
        thread.begin(flag, _WALKS[create, targets is not None])
        if other_walks:
            captured = rare.other_walk(roots, retain, on_tensors, targets)
        elif targets is None and not on_tensors:
            captured = Walk(retain).run(roots)
        else:
            careful = CarefulWalk(retain, on_tensors, targets)
            careful.run(roots)
            captured = careful.captured
    if queued:
        rare.run_queued(flag)
    thread.states()  # so that the calls that follow need not ask whether they are in that block
    return captured


def _gradient(tensor, gradient, position: int) -> Tensor:
    """Return the gradient of a root, ones for a scalar without any; an error if it does not fit the root."""
    if gradient is None and tensor._raw.size == 1 and tensor.dtype.is_floating_point:
        tensor_type = tensor._type.plain
        if tensor._type.symbolic is not tensor_type.symbolic:
            return rare.ones_like(tensor)
        return make(rare.filled("ones", tensor) if other_walks else tensor_type.ones(tensor._raw.shape), tensor_type)
    if type(gradient) is Tensor and gradient.shape == tensor.shape and gradient._type.plain is tensor._type.plain:
        return gradient
    return rare.fitting_gradient(tensor, gradient, position)
