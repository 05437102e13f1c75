"""`zero_safe`: backward in which zero times infinity is zero, so that no NaN comes from the branch not taken.

`where(x > 0, log(x), 0)` hands the logarithm a gradient of exactly 0 where it was not taken; times its derivative,
infinity at 0, that is NaN by IEEE 754. Under `zero_safe` the product is 0 in the gradients of elementwise ops. Only
elements that came out NaN are looked at, so what is finite stays bit for bit what it was, in every order.
"""

from __future__ import annotations

import numpy

from plugrad import graph
from plugrad.modes import _ModeContext, mode

__all__ = ["is_zero_safe_enabled", "set_zero_safe", "zero_safe"]

_TINY = 32
_LONGEST = 64  # small nodes of a chain whose gradients are looked at together


class zero_safe(_ModeContext):
    """Let 0 * inf and 0 * nan be 0 in the gradients of elementwise ops; a context manager or a decorator.

    It acts on every backward that *runs* inside of it, in its thread, whether the graph was recorded inside or not. In
    the gradient of an elementwise op (families unary, binary and elementwise) an element that comes out NaN becomes 0
    where the incoming gradient is exactly 0, whatever the derivative is there, and where the incoming gradient
    is infinite and the derivative exactly 0. All other NaNs propagate: those of an incoming gradient that is NaN
    itself, and of a NaN derivative times a gradient that is not 0. For second derivatives, run both walks inside.

    Args:
        enabled: False switches the mode off inside.

    >>> import plugrad as torch
    >>> x = torch.tensor([0.0, 2.0], requires_grad=True)
    >>> y = torch.where(x > 0, torch.log(x), 0.0).sum()
    >>> torch.autograd.grad(y, x, retain_graph=True)
    (tensor([   nan, 0.5000]),)
    >>> with torch.autograd.zero_safe():
    ...     torch.autograd.grad(y, x)
    (tensor([0.0000, 0.5000]),)
    """

    __slots__ = ("_value",)

    def __new__(cls, enabled=True):
        if callable(enabled):  # written as `@zero_safe` without parentheses
            return cls()(enabled)
        return object.__new__(cls)

    def __init__(self, enabled=True):
        self._value, self._previous = bool(enabled), []

    def __enter__(self):
        self._previous.append(mode.zero_safe)
        mode.zero_safe = self._value

    def __exit__(self, *exc):
        mode.zero_safe = self._previous.pop()

    def clone(self):
        return zero_safe(self._value)


def set_zero_safe(enabled: bool) -> None:
    """Switch `zero_safe` on or off for this thread, until it is switched again.

    >>> import plugrad as torch
    >>> torch.autograd.set_zero_safe(True)
    >>> torch.autograd.is_zero_safe_enabled()
    True
    >>> torch.autograd.set_zero_safe(False)
    """
    mode.zero_safe = bool(enabled)


def is_zero_safe_enabled() -> bool:
    """Whether backward treats 0 * inf as 0 in this thread."""
    return mode.zero_safe


# ---------------------------------------------------------------------------------------------------- in the walk


def has_nan(array) -> bool:
    """Whether a raw array may hold NaN; surely so where it does."""
    if type(array) is numpy.ndarray and array.dtype.char in "fd":
        # Squares never cancel, so their sum is NaN only if an element is; `dot` needs a third of the time of `isnan`.
        flat = array if array.ndim == 1 else array.ravel("K")
        total = flat.dot(flat)
        return total != total
    return bool((array != array).any())


def pull_chain(node, g, F, fit, check, retain, uses):
    """Pull a gradient through a node, and on through those that nothing else leads to, up to `_LONGEST` of them.

    A NaN that comes up on the way is still there at the end, or does not matter. So the end is all that is looked at;
    if there is one, the way is gone again from its start, with a look at every elementwise node. Returns the last
    node's edges and their gradients.
    """
    saved = node.saved
    if saved is None or graph.last_touch > node.seq:
        check(node, saved)
    grads = node.pull(F, g, saved, retain)
    if node.fit is not None:
        grads = fit(F, node, grads)
    edges, scales = node.edges, node.scales
    way = None
    while len(edges) == 1:
        edge, arrived = edges[0], grads[0]
        if arrived is None or not edge.edges or edge.op is None or edge.rare is not None:
            break
        if uses is not None and uses[edge] != 1:
            break
        if way is None:
            way, longest = [(node, g, saved)], _LONGEST if arrived.size < 4096 else _LONGEST // 8
        elif len(way) == longest:
            break
        saved = edge.saved
        if saved is None or graph.last_touch > edge.seq:
            check(edge, saved)
        way.append((edge, arrived, saved))
        grads = edge.pull(F, arrived, saved, retain)
        if edge.fit is not None:
            grads = fit(F, edge, grads)
        edges = edge.edges
        if edge.scales:
            scales = True
    if scales and _any_nan(grads):
        for step, _, values in way or ((node, g, saved),):
            grads = step.pull(F, g, values, True)
            if step.scales:
                grads = zeroed(F, F, step, g, values, grads)
            if step.fit is not None:
                grads = fit(F, step, grads)
            g = grads[0]
    return edges, grads


def _any_nan(grads) -> bool:
    for grad in grads:
        if type(grad) is numpy.ndarray and grad.size <= _TINY:  # Python adds few numbers faster than NumPy
            total = sum(grad.ravel().tolist())
            if total != total:
                return True
        elif grad is not None and has_nan(grad):
            return True
    return False


def zeroed(F, raw_F, node, g, saved, grads):
    """Return the gradients of an elementwise node with 0 where they are NaN as the product of 0 and inf or NaN.

    `saved` and `raw_F` are the raw arrays and their namespace, also where `F`, `g` and `grads` are those of a recorded
    walk. Elements that are not NaN keep their history: where the gradient is 0 and the derivative finite, a second
    derivative comes through them.
    """
    incoming, slopes, found = getattr(g, "_data", g), None, []
    for position, grad in enumerate(grads):
        raw = getattr(grad, "_data", grad)
        if raw is not None and raw.shape == incoming.shape and has_nan(raw):
            bad = raw != raw
            safe = bad & (incoming == 0)
            infinite = bad & (abs(incoming) == numpy.inf)
            if infinite.any():
                if slopes is None:  # formulas are linear in g, and here element by element
                    slopes = node.pull(raw_F, infinite.astype(incoming.dtype), saved, True)
                safe = safe | infinite & (slopes[position] == 0)
            if safe.any():
                grad = F.where(safe if grad is raw else graph.as_tensor(safe), 0.0, grad)
        found.append(grad)
    return tuple(found)
