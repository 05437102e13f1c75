"""`torch.utils.swap_tensors`: two tensors exchange what they are."""

from __future__ import annotations

import weakref

from plugrad import Tensor
from plugrad.extend import held_back

_SLOTS = ("_data", "_type", "_edge", "_view", "_grad", "_source")


def swap_tensors(t1, t2) -> None:
    """Exchange two tensors: whoever holds the one has the other from then on.

    Raises RuntimeError for tensors that weak references lead to, and for those that were computed in a graph.

    >>> import plugrad as torch
    >>> a, b = torch.ones(2), torch.zeros(3)
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([0., 0., 0.]), tensor([1., 1.]))
    """
    for tensor in (t1, t2):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"swap_tensors() takes two Tensors, not {type(tensor).__name__}")
        if weakref.getweakrefs(tensor):
            raise RuntimeError("Cannot swap t1 or t2 because it has weakref associated with it")
        if not tensor.is_leaf:
            raise RuntimeError("Cannot swap t1 or t2, which was computed in a graph: detach() it")
    with held_back():
        _exchange(t1, t2)


def _exchange(t1, t2) -> None:
    for name in _SLOTS:
        values = [getattr(one, name, _Nothing) for one in (t2, t1)]
        for one, value in zip((t1, t2), values):
            if value is not _Nothing:
                setattr(one, name, value)
            elif name in ("_grad", "_source") and hasattr(one, name):
                delattr(one, name)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    own, others = dict(vars(t1)), dict(vars(t2))
    for one, attributes in ((t1, others), (t2, own)):
        vars(one).clear()
        vars(one).update(attributes)


class _Nothing:
    """Stands for a slot without value."""
