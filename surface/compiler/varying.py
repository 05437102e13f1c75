"""A program for all sizes, made when a second size comes: captures with some sizes, and the one that is of all."""

from __future__ import annotations

import numpy

from plugrad import Tensor, nest
from plugrad.compiler.capturing import capture
from plugrad.compiler.logs import Log
from plugrad.compiler.sizes import HIGHEST, LOWEST, CaptureError, Scope
from plugrad.tensor.tensor import make

ATTEMPTS = 4  # each finds out nearer which sizes are decided alike


def captured_for_all(function, args, kwargs, grad_mode, one, other, served) -> list:
    """Return programs captured for many sizes, to twice the larger of two of which calls are known at most.

    `args` and `kwargs` are those of a call; `one` and `other` are the (shape, strides) of its tensors, in the order of
    `nest`, in it and in another call. There are two where these calls are not decided alike and the other one is not
    `served` by such a program yet, that for the call first. There may be none for it, as where more than one size
    differs, or one is less than two. CaptureError is raised where it is not worth another try.
    """
    shapes = [(x[0], y[0]) for x, y in zip(one, other)]
    differ = [(a, b) for x, y in shapes for a, b in zip(x, y) if a != b]
    if not differ or min(differ[0]) < LOWEST or 2 * max(differ[0]) + 1 > HIGHEST:
        return []
    size, before = differ[0]
    if any((a - b) % (size - before) for a, b in differ) or any(len(x) != len(y) for x, y in shapes):
        return []
    high, logs = 2 * max(differ[0]) + 1, {}

    def given(each):
        return _resized(args, kwargs, _shapes_at(shapes, size, before, each))

    def logged(each):
        if each not in logs:
            logs[each] = capture(function, *given(each), grad_mode, lambda: Log(each)).sizes

    found, failed = [], None
    for hint in sorted({size} if served else {size, max(size, before)}, reverse=True):
        tried = {LOWEST, size, before, high}
        for _ in range(ATTEMPTS):
            for each in sorted(tried):
                logged(each)
            scope = Scope(high, hint, {each: logs[each] for each in sorted(tried)})
            scope.limit(min(tried), max(tried))
            captured = error = None
            try:
                captured = capture(function, *(given(hint) if hint != size else (args, kwargs)), grad_mode, lambda: scope)
            except CaptureError as reason:
                error, scope.known = reason, {}  # what kept sizes shall not keep all of them
            ends = scope.ends()
            wanted = {one for one in tried if ends[0] < one < ends[1]}.union((*ends, sum(ends) // 2))
            if tried.issuperset(ends if captured is not None else wanted):
                break
            tried = wanted
        if captured is not None:
            scope.limit(*ends)
            found.insert(0, captured)
        if captured is not None and scope.serves(size):
            return found
        if captured is None and ends[0] < ends[1]:
            failed = failed or error
    if failed is not None and not found:
        raise failed
    return found


def _shapes_at(shapes, size, before, each) -> list:
    """Return the shapes that tensors have for a size: all are on the lines through those of two calls."""
    found = []
    for now, then in shapes:
        found.append([a + (a - b) // (size - before) * (each - size) for a, b in zip(now, then)])
        if min(found[-1], default=0) < 0:
            raise CaptureError("a size would be less than none")
    return found


def _resized(args, kwargs, shapes) -> tuple:
    """Return arguments whose tensors have these shapes: their elements, repeated or fewer."""
    rest, made = iter(shapes), {}

    def resized(leaf):
        if not isinstance(leaf, Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = _tensor(leaf, next(rest))
        return made[id(leaf)]

    return nest.change(resized, (args, kwargs))


def _tensor(tensor, shape):
    array = tensor._data
    if list(array.shape) == shape:
        return tensor
    if not array.flags.c_contiguous or not array.size or tensor._view is not None or hasattr(tensor, "_grad") and tensor._grad is not None:
        raise CaptureError("a tensor whose size varies is a view, has a gradient, or is not in row-major order")
    for dim, n in enumerate(shape):
        if n != array.shape[dim]:
            array = numpy.take(array, numpy.arange(n) % array.shape[dim], dim)
    new = make(numpy.ascontiguousarray(array), tensor._type)
    return new if tensor._edge is None else new.requires_grad_(True)
