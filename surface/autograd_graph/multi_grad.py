"""`register_multi_grad_hook`: a hook that waits for the gradients of several tensors."""

from __future__ import annotations

import functools
import threading
from weakref import WeakKeyDictionary, ref

from plugrad.autograd.engine import CarefulWalk, Walk, count_uses
from plugrad.autograd.rare.unrecorded_views import leads_nowhere
from plugrad.backends import following
from plugrad.graph import rare
from plugrad.graph.hooks import RemovableHandle
from plugrad.graph.modes import LEAF, mode, other_walks, region
from plugrad.regions import declare

declare("walking", None)  # the `_Walking` of this thread's innermost walk, while multi-grad hooks are registered


class _Walking:
    """One walk backward, as hooks see it."""

    def __init__(self, roots, targets):
        self.edges, self.targets = [edge for edge, _ in roots], targets

    @functools.cached_property
    def reached(self):
        """The edges that will get a gradient."""
        if self.targets is None:
            return count_uses(self.edges)
        careful = CarefulWalk(True, False, self.targets)
        careful._count_uses(self.edges)
        return careful.leads


def other_walk(roots, retain, on_tensors, targets) -> dict:
    """Walk backward as the mode of this thread says, and let hooks see which walk it is; return what was captured."""
    with region(walking=_Walking(roots, targets)):
        if mode.walk is not None:
            return mode.walk(roots, retain, on_tensors, targets)
        plain, careful = rare.watching_walks() if mode.anomaly else (Walk, CarefulWalk)
        if following.started():
            plain, careful = following.walk(plain), following.walk(careful)
        if targets is None and not on_tensors:
            plain(retain).run(roots)
            return {}
        careful = careful(retain, on_tensors, targets)
        careful.run(roots)
        return careful.captured


class _Handle(RemovableHandle):
    """The handles of all tensors in one."""

    __slots__ = ("handles",)

    def __init__(self, handles):
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self):
        return self.handles

    def __setstate__(self, state) -> None:
        self.handles = state


class _All:
    """Collects the gradients of several tensors, of each walk apart, and calls the hook with the last of them."""

    def __init__(self, tensors, hook):
        self.edges = [ref(tensor if tensor._live_edge() is LEAF else tensor._edge) for tensor in tensors]
        self.hook, self.lock = hook, threading.Lock()
        self.grads: WeakKeyDictionary = WeakKeyDictionary()  # walk -> [gradients, how many are still to come]

    def arrived(self, number: int, grad) -> None:
        walk = mode.walking
        with self.lock:
            if walk not in self.grads:
                reached = sum(edge() in walk.reached for edge in self.edges if edge() is not None)
                self.grads[walk] = [[None] * len(self.edges), reached]
            state = self.grads[walk]
            state[0][number] = grad
            state[1] -= 1
            complete = not state[1]
            if complete:
                del self.grads[walk]
        if complete:
            self.hook(state[0])


class _Any:
    """Calls the hook with the first gradient in each walk."""

    def __init__(self, tensors, hook):
        self.hook, self.lock = hook, threading.Lock()
        self.walks: WeakKeyDictionary = WeakKeyDictionary()

    def arrived(self, number: int, grad) -> None:
        with self.lock:
            is_first = mode.walking not in self.walks
            self.walks[mode.walking] = True
        if is_first:
            self.hook(grad)


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Call a hook when several tensors' gradients were computed; return its handle.

    Args:
        tensors: a sequence of tensors that require grad.
        fn: with mode "all" `fn(grads)` is called once in each backward, with the list of the gradients of all
            tensors, None for those that get none in this walk. With mode "any" `fn(grad)` is called with the first.
        mode: "all" or "any".

    Raises ValueError for another mode, and AssertionError for a tensor that does not require grad.

    >>> import plugrad as torch
    >>> a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    >>> handle = torch.autograd.graph.register_multi_grad_hook((a, b), print)
    >>> (a * b).backward()
    [tensor(3.), tensor(2.)]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        tensors = [tensor for tensor in tensors if tensor.requires_grad]
    elif not all(one.requires_grad and not (one.is_leaf and leads_nowhere(one._edge)) for one in tensors):
        raise AssertionError("Expected gradient function to be set: all tensors must require grad")
    collector = (_All if mode == "all" else _Any)(tensors, fn)
    other_walks.add(ref(collector, other_walks.discard))
    return _Handle([
        tensor.register_hook(functools.partial(collector.arrived, number)) for number, tensor in enumerate(tensors)
    ])  # fmt: skip
