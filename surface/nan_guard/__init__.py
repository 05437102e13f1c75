"""`zero_safe`: backward in which zero times infinity is zero, so that no NaN comes from the branch not taken.

`where(x > 0, log(x), 0)` hands the logarithm a gradient of exactly 0 where it was not taken; times its derivative,
infinity at 0, that is NaN by IEEE 754. Under `zero_safe` the product is 0 in the gradients of elementwise ops. Only
elements that came out NaN are looked at, so what is finite stays bit for bit what it was, in every order.

Formulas are linear in the gradient. So a NaN that arises in a walk is still there in the leaves, or it was selected
away and does not matter. Therefore a walk is a *trial*: it runs as if the mode were off, and what it ends with is
checked before it is accumulated. If there is NaN, the walk is repeated with a check of every elementwise node. The
classes of nodes that needed a repair then are suspects: from then on trials check these.
"""

from __future__ import annotations

import numpy

from plugrad import dtypes
from plugrad.autograd.engine import CarefulWalk, Outputs, array_ops, check_saved, finish_leaves, fit, versions
from plugrad.extend import from_raw
from plugrad.graph.modes import ModeContext, mode

__all__ = ["is_zero_safe_enabled", "set_zero_safe", "zero_safe"]

_TINY = 32  # elements up to which Python adds quicker than NumPy
_FEW = 1024  # elements up to which NumPy's assignment by mask is quick, and an array is worth gathering with others
_SEVERAL = 8  # arrays from which on gathering pays
HELD = 1 << 22  # elements of gradients that a trial passes on before it frees what it saved for a repetition
_CREDIT = 256  # checks of a suspect without a repair until it is trusted again; twice as many the next time
_PATIENCE = 1000  # gradients under way that pauses for hooks check, beyond eight each


class zero_safe(ModeContext):
    """Let 0 * inf and 0 * nan be 0 in elementwise gradients: a context or decorator.

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

    def __init__(self, enabled=True):
        self._value = bool(enabled)

    def changes(self):
        return {"walk": run if self._value else None}

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
    mode.walk = run if enabled else None


def is_zero_safe_enabled() -> bool:
    """Whether backward treats 0 * inf as 0 in this thread."""
    return mode.walk is run


# ---------------------------------------------------------------------------------------------------- in the walk


def run(roots, retain: bool, on_tensors: bool, targets) -> dict:
    """Walk backward from `roots` as a trial, and again with repairs if that ends in NaN; return what was captured.

    There is no trial where somebody sees what the walk does: the ops of a walk on Tensors must run once then.
    """
    once = _is_observed(roots, on_tensors)
    if not once:
        trial = Trial(retain, on_tensors, targets)
        trial.run(roots)
        if not trial.failed and trial.commit():
            return trial.results
        for node, saved in zip(trial.log[::2], trial.log[1::2]):
            node.saved = saved
        roots = trial.roots
    repairing = RepairingWalk(retain, on_tensors, targets)
    repairing.run(roots)
    return repairing.captured if once else {**trial.results, **repairing.captured}


def _is_observed(roots, on_tensors: bool) -> bool:
    """Whether somebody sees the ops of a walk."""
    watched = mode.dispatch_modes or mode.function_modes or mode.op_hooks
    return on_tensors and (bool(watched) or any(g._type.symbolic for _, g in roots))


class RepairingWalk(CarefulWalk):
    """A walk that checks the gradients of every elementwise node for NaN, and repairs them."""

    def formulas(self, F, node, g, saved):
        if not node.scales or self.on_tensors and g._type.symbolic:
            return super().formulas(F, node, g, saved)
        raw_F, arrays = (array_ops(g._raw), node.values()) if self.on_tensors else (F, saved)
        return repaired(F, raw_F, node, g, arrays, super().formulas(F, node, g, saved))


class _Ended(Exception):
    """Ends a trial whose gradients have to be computed again."""


class Trial(RepairingWalk):
    """A walk that may have to be repeated: where it started, and what it did since.

    Hooks and custom Functions must run once and see what is right. So before one of them the trial pauses: gradients
    under way are checked for NaN, and what is complete is accumulated. After it the trial starts anew. It also pauses
    when it holds much memory.
    """

    patience = _PATIENCE

    def __init__(self, retain, on_tensors, targets):
        super().__init__(retain, on_tensors, targets)
        self.failed, self.accumulates = False, not on_tensors and targets is None
        self.F = self.array_type = None
        self.roots = None  # pairs (edge, gradient) to start from again; None while there is no going back
        self.log = []  # the nodes that ran since then, each followed by what it had saved
        self.held = 0  # elements of the gradients that were passed on since then
        self.leaves = []  # the leaves that are complete since then, each followed by its gradient
        self.small_arrays, self.to_check = [], []  # what to check for NaN for these: small raw arrays, and the rest
        self.results = {}  # gradients of targets from before; `captured` has those since then
        self.last_g, self.last_grads = None, ()  # what the last node was given, and the gradients that it returned

    def run(self, roots, uses=None):
        self.roots = roots
        try:
            super().run(roots, uses)
        except Exception:
            if self.roots is None:
                raise
            self.failed = True  # with NaN on its way or not: the repetition will tell

    def pull_hooked(self, node, g):
        self.pause(node, g)
        return super().pull_hooked(node, g)

    def pull(self, node, g):
        if node.rare is None:
            if not node.pure or self.held > HELD:
                self.pause(node, g)
            elif self.accumulates and g is not None:  # most nodes: the same without calls of methods
                saved = node.saved
                if saved is None or versions.last_write > node.seq:
                    check_saved(node)
                self.log += node, saved
                self.held += g.size
                if type(g) is not self.array_type:
                    self.F, self.array_type = array_ops(g), type(g) if type(g) is not Outputs else None
                grads = node.pull(self.F, g, saved, self.retain)
                if node.fit is not None:
                    grads = fit(self.F, node, grads)
                self.last_g, self.last_grads = g, grads
                return grads
        grads = super().pull(node, g)
        self.last_g, self.last_grads = g, grads
        return grads

    def formulas(self, F, node, g, saved):
        self.log += node, node.saved
        if not self.on_tensors:
            self.held += g.size
        if node.rare is None and node.pure:
            return CarefulWalk.formulas(self, F, node, g, saved)
        return super().formulas(F, node, g, saved)

    def finish(self, leaves):
        """Keep the complete gradients of leaves until they have been checked for NaN."""
        for g in leaves[1::2]:
            if g is None:
                continue
            if self.on_tensors:
                self.to_check.append(g)
            elif g.size <= _FEW:
                self.small_arrays.append(g)
            else:
                self.held += g.size
                if any([g is grad for grad in self.last_grads]):  # it is not a sum, but straight from the last node
                    given, node = self.last_g, self.log[-2]
                    if not node.scales and type(given) is type(g) and 4 * given.size < g.size:
                        g = given  # of a matrix product check the smaller gradient, that it was given
                self.to_check.append(g)
        self.leaves += leaves
        self.last_grads = ()
        leaves.clear()

    def pause(self, node, g):
        """Check what must be right before this node runs, and accumulate what is complete; or end the trial."""
        self.last_g, self.last_grads = None, ()
        hooked = node.rare is not None or node.op is None and not node.pure
        if not hooked and self.held <= HELD:
            if node.op.trusted:
                _trust_later(type(node))
            elif _has_nan(g):  # formulas of others may make anything of a NaN
                raise _Ended
            return
        given = {id(grad) for _, grad in self.roots or ()}  # NaN in those is not of this walk's making
        if not self.commit([grad for grad in (g, *self.pending.values()) if id(grad) not in given]):
            raise _Ended
        self.owned.clear()  # sums that are under way are what a repetition starts from: they may not change
        if hooked:
            self.patience -= len(self.pending) - 8
            if self.patience > 0:
                self.held = HELD + 1  # so that the next node, after the hooks, starts anew
                return
        waiting = [(edge, None) for _, edge in self.ready if edge not in self.pending]
        self.roots, self.held = [(node, g), *self.pending.items(), *waiting], 0
        if hooked:
            raise _Ended

    def commit(self, under_way=()) -> bool:
        """Accumulate what is complete and forget how it came about; False, and nothing done, if anything holds NaN."""
        captured = self.captured
        if self.roots is not None:
            if self.small_arrays and _joint_nan(self.small_arrays):
                return False
            if any([_has_nan(grad) for grad in (*self.to_check, *captured.values(), *under_way)]):
                return False
            self.roots = None
        self.small_arrays.clear()
        self.to_check.clear()
        self.log.clear()
        self.last_g, self.last_grads = None, ()
        self.results.update(captured)
        captured.clear()
        finish_leaves(self.leaves, self.on_tensors, self.targets, self.results)
        return True


def _joint_nan(arrays) -> bool:
    """Whether any of some small raw arrays holds NaN."""
    if len(arrays) > _SEVERAL and {type(array) for array in arrays} == {numpy.ndarray}:
        try:
            flat = numpy.concatenate(arrays, None)
        except TypeError:  # dtypes that have none in common
            flat = None
        if flat is not None and dtypes.is_single_or_double(flat.dtype):
            total = flat.dot(flat)
            return bool(total != total)
    for array in arrays:
        if _has_nan(array):
            return True
    return False


def _has_nan(grad) -> bool:
    if type(grad) is not numpy.ndarray:
        if grad is None:
            return False
        if type(grad) is Outputs:
            return any([_has_nan(part) for part in grad.grads.values()])
        grad = getattr(grad, "_raw", grad)
    elif grad.size <= _TINY:
        total = sum(grad.ravel().tolist())
        if total == total:
            return False
    elif dtypes.is_single_or_double(grad.dtype):
        # Squares never cancel: their sum is NaN only if an element is. `dot` takes a third of the time of `isnan`.
        flat = grad if grad.ndim == 1 else grad.ravel("K")
        total = flat.dot(flat)
        return bool(total != total)
    return bool((grad != grad).any())


# ---------------------------------------------------------------------------------------------------- repair

_suspects: dict = {}  # class of nodes -> [checks left, credit]


def _suspect(cls) -> None:
    """Gradients of such a node were repaired: have trials check them."""
    record = _suspects.setdefault(cls, [0, _CREDIT])
    if cls.pure and cls.op.trusted:
        cls.pure = False
    record[0] = record[1]


def _trust_later(cls) -> None:
    """A trial checks a suspect; one that has needed no repair for long is trusted again."""
    record = _suspects[cls]
    record[0] -= 1
    if record[0] <= 0:
        cls.pure, record[1] = True, 2 * record[1]


def repaired(F, raw_F, node, g, saved, grads):
    """Return the gradients of an elementwise node with 0 where they are NaN as the product of 0 and inf or NaN.

    `saved` and `raw_F` are the raw arrays and their ops, also where `F`, `g` and `grads` are those of a walk on
    Tensors. Elements that are not NaN keep their history: where the gradient is 0 and the derivative finite, a second
    derivative comes through them.
    """
    on_tensors = type(g) is not numpy.ndarray
    incoming = getattr(g, "_raw", g) if on_tensors else g
    is_zero = is_infinite = slopes = results = None
    for position, grad in enumerate(grads):
        raw = getattr(grad, "_raw", grad) if on_tensors else grad
        if raw is None or raw is incoming or raw.shape != incoming.shape:
            continue
        is_nan = raw != raw
        number = _count(is_nan)
        if not number:
            continue
        if is_zero is None:
            is_zero = incoming == 0
        repair = is_nan & is_zero
        if _count(repair) != number:
            if is_infinite is None:
                is_infinite = abs(incoming) == numpy.inf
                if _count(is_infinite):  # formulas are linear in g, and here element by element
                    slopes = node.pull(raw_F, is_infinite.astype(incoming.dtype), saved, True)
            if slopes is not None:
                repair |= is_nan & is_infinite & (slopes[position] == 0)
        if not _count(repair):
            continue
        _suspect(type(node))
        if results is None:
            results = list(grads)
        if grad is raw:
            results[position] = _cleared(F, raw, repair, (incoming, *saved))
        else:
            results[position] = F.where(from_raw(repair), 0.0, grad)
    return grads if results is None else tuple(results)


def _count(mask) -> int:
    return numpy.count_nonzero(mask) if type(mask) is numpy.ndarray else int(mask.sum())


def _cleared(F, array, mask, others):
    """Return an array with 0 where the mask is set; it is the same one if it is none of the others, nor a view."""
    size = array.itemsize
    if type(array) is not numpy.ndarray or size > 8:
        return F.where(mask, 0.0, array)
    if array.base is not None or not array.flags.writeable or any([array is other for other in others]):
        array = array.copy()
    if array.size <= _FEW:
        array[mask] = 0
    else:  # the bits times 0 or 1: NumPy's assignments by mask go element by element
        bits = array.view(f"i{size}")
        bits *= ~mask
    return array
