"""`torch.utils.swap_tensors`: two tensors exchange what they are."""

from __future__ import annotations

import copyreg
import gc
import sys
import weakref

from plugrad import Tensor
from plugrad.extend import held_back

_HELD_HERE = 3  # references to a weak reference that a loop over a list of them has: list, variable, argument


def swap_tensors(t1, t2) -> None:
    """Exchange two tensors: whoever holds the one has the other from then on.

    Raises RuntimeError for tensors that weak references lead to, for those that were computed in a graph, and for
    instances of classes with different `__slots__`.

    >>> import plugrad as torch
    >>> a, b = torch.ones(2), torch.zeros(3)
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([0., 0., 0.]), tensor([1., 1.]))
    """
    for tensor in (t1, t2):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"swap_tensors() takes two Tensors, not {type(tensor).__name__}")
        if _is_watched(tensor):
            raise RuntimeError("Cannot swap t1 or t2 because it has weakref associated with it")
    exchange(t1, t2)


def _is_watched(tensor) -> bool:
    """Whether somebody holds a weak reference, besides tensors detached from this one, which have one each."""
    return any(
        sys.getrefcount(reference) - sum(isinstance(one, Tensor) for one in gc.get_referrers(reference)) > _HELD_HERE
        for reference in weakref.getweakrefs(tensor)
    )


def exchange(t1, t2) -> None:
    """Exchange two tensors as swap_tensors does, without looking for weak references to them."""
    if not (t1.is_leaf and t2.is_leaf):
        raise RuntimeError("Cannot swap t1 or t2, which was computed in a graph: detach() it")
    slots = copyreg._slotnames(type(t1))
    if set(slots) != set(copyreg._slotnames(type(t2))):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    with held_back():
        for name in slots:
            values = [getattr(one, name, _Nothing) for one in (t2, t1)]
            for one, value in zip((t1, t2), values):
                if value is not _Nothing:
                    setattr(one, name, value)
                elif hasattr(one, name):
                    delattr(one, name)
        t1.__class__, t2.__class__ = t2.__class__, t1.__class__
        own, others = dict(vars(t1)), dict(vars(t2))
        for one, attributes in ((t1, others), (t2, own)):
            vars(one).clear()
            vars(one).update(attributes)


class _Nothing:
    """Stands for a slot without value."""
