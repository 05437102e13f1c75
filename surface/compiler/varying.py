"""A program for all sizes, made when a second size comes: captures with some sizes, and the one that is of all."""

from __future__ import annotations

import numpy

from plugrad import Tensor, nest
from plugrad.compiler.capturing import capture
from plugrad.compiler.logs import Log
from plugrad.compiler.sizes import HIGHEST, LOWEST, CaptureError, Scope
from plugrad.tensor.tensor import make
from plugrad.tensor.views import View

ATTEMPTS = 4  # each finds out nearer which sizes are decided alike
WHOLE = 8  # as many kernels are called as a whole since they can't be looked into for all sizes


def varying_size(one, other) -> tuple | None:
    """Return the size that differs in two calls, for both; None where more than one does, or one means something else.

    `one` and `other` are those of `captured_for_all`.
    """
    differ = [(a, b) for x, y in zip(one, other) for a, b in zip(x[0], y[0]) if a != b]
    if not differ or min(differ[0]) < LOWEST or 2 * max(differ[0]) + 1 > HIGHEST:
        return None
    size, before = differ[0]
    lines = not any((a - b) % (size - before) for a, b in differ)
    return differ[0] if lines and all(len(x[0]) == len(y[0]) for x, y in zip(one, other)) else None


def captured_for_all(function, args, kwargs, grad_mode, one, other, served) -> list:
    """Return programs captured for many sizes: up to that of another call, or to twice this one's if that is larger.

    `args` and `kwargs` are those of a call; `one` and `other` are the (shape, strides) of its tensors, in the order of
    `nest`, in it and in another call. There are two where these calls are not decided alike and the other one is not
    `served` by such a program yet, that for the call first. There may be none for it, where it is decided as no other
    one is. CaptureError is raised where it is not worth another try.
    """
    size, before = varying_size(one, other)
    shapes = [(x[0], y[0]) for x, y in zip(one, other)]
    calls = _Calls(function, args, kwargs, grad_mode, shapes, size, before)
    programs, failed = [], None
    for hint in sorted({size} if served else {size, max(size, before)}, reverse=True):
        try:
            captured = calls.captured_at(hint)
        except CaptureError as error:
            failed = failed or error
            continue
        if captured is not None:
            programs.insert(0, captured)
            if captured.sizes.serves(size):
                break
    if failed is not None and not programs:
        raise failed
    return programs


class _Calls:
    """Calls of a function that differ in one size, and what captures of them told."""

    def __init__(self, function, args, kwargs, grad_mode, shapes, size, before):
        self.function, self.args, self.kwargs, self.grad_mode = function, args, kwargs, grad_mode
        self.shapes, self.size, self.before = shapes, size, before
        self.high, self.logs = before if size < before else 2 * size + 1, {}  # where sizes grow, larger ones may come
        self.whole: set = set()  # kernels that can't be looked into for all sizes, by number

    def captured_at(self, hint):
        """Return the program captured with one size for those that are decided as that is.

        It is None where that size is decided as no other one. Where small sizes are no sizes for the program, it is for
        those from the smaller of the two calls on.
        """
        try:
            return self._captured_from(LOWEST, hint)
        except Exception:
            if min(self.size, self.before) == LOWEST:
                raise
            return self._captured_from(min(self.size, self.before), hint)

    def _captured_from(self, lowest, hint):
        tried = {lowest, self.size, self.before, self.high, (self.size + self.before) // 2}
        for _ in range(ATTEMPTS):
            captured, scope, error = self._attempt(hint, sorted(tried))
            low, high = scope.ends()
            wanted = {one for one in tried if low < one < high} | {low, high, (low + high) // 2}
            if tried.issuperset((low, high) if error is None else wanted):
                break
            tried = wanted
        if error is not None and low < high:
            raise error
        if captured is not None:
            scope.limit(low, high)
        return captured

    def _attempt(self, hint, tried) -> tuple:
        """Return (program or None, its scope, error or None), with the sizes that were tried to hold it against."""
        known = len(self.whole)
        scope = Scope(self.high, hint, {size: self._log(size) for size in tried}, self.whole)
        scope.limit(tried[0], tried[-1])
        try:
            return capture(self.function, *self._given(hint), self.grad_mode, lambda: scope), scope, None
        except CaptureError as error:
            scope.known = {}  # what kept sizes shall not keep all of them
            if len(self.whole) == known or known == WHOLE:
                return None, scope, error
        self.logs = {}
        return self._attempt(hint, tried)

    def _log(self, size):
        if size not in self.logs:
            log = lambda: Log(size, frozenset(self.whole))  # noqa: E731
            self.logs[size] = capture(self.function, *self._given(size), self.grad_mode, log).sizes
        return self.logs[size]

    def _given(self, size) -> tuple:
        """Return arguments of a size: the elements of those of the call, repeated or fewer."""
        if size == self.size:
            return self.args, self.kwargs
        shapes, known = iter(self.shapes), {}

        def resized(leaf):
            if not isinstance(leaf, Tensor):
                return leaf
            if id(leaf) not in known:
                known[id(leaf)] = self._resized(leaf, *next(shapes), size)
            return known[id(leaf)]

        return nest.change(resized, (self.args, self.kwargs))

    def _resized(self, tensor, now, then, size):
        """Return a tensor in the shape that is on the line through those of two calls."""
        slopes = [(a - b) // (self.size - self.before) for a, b in zip(now, then)]
        if not any(slopes):
            return tensor
        array, shape = tensor._raw, [n + slope * (size - self.size) for n, slope in zip(now, slopes)]
        if min(shape) < 0 or not array.size or not array.flags.c_contiguous:
            raise CaptureError("a tensor whose size varies has no elements, or is not in row-major order")
        for dim, n in enumerate(shape):
            array = numpy.take(array, numpy.arange(n) % array.shape[dim], dim)
        new, grad = make(numpy.ascontiguousarray(array), tensor._type), getattr(tensor, "_grad", None)
        new = new[...] if type(tensor._view) is View else new  # which is not captured where it is written
        new = new if tensor._edge is None else new.requires_grad_(True)
        if grad is not None:
            new._grad = self._resized(grad, now, then, size)
        return new
