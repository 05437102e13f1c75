"""Who owns the memory of a gradient, and how it is added to `.grad`.

Formulas return what they like: a new array, the gradient that they were given, a view of it, an array that the forward
call saved. So the memory of a gradient on its way may be another gradient's, a saved value's or the user's, and
nobody may write to it. Two kinds of arrays are *owned*, which means that nobody else can see their memory:

- a sum that a walk made itself, of the gradients that arrived at one edge. `Walk.run` notes these edges in `owned` and
  adds further gradients to such a sum in place; it forgets them when anybody else may have seen the sum.
- the array of a leaf's `.grad`, of a retained gradient, and of what `autograd.grad` returns. The next backward adds to
  `.grad` in place, and optimizers and users write to it.

`own` decides whether an array is owned already or has to be copied; `accumulate_first` does so for plain leaves. `own`
takes the array out of a list that held the walk's only reference; one without others, and without a base, is owned.
That only saves a copy: how many references a local variable makes is measured at import, since interpreters
differ (Python 3.14 borrows references that earlier ones counted), and one that does not count them always copies.
"""

from __future__ import annotations

import sys

import numpy

from plugrad.devices.device import device_of
from plugrad.graph import rare
from plugrad.graph.modes import LEAF, mode
from plugrad.graph.versions import touch
from plugrad.interrupts import process_lock
from plugrad.tensor.tensor import from_raw, make, tensor_of
from plugrad.tensor.views import copies

_count = getattr(sys, "getrefcount", None) or (lambda array: sys.maxsize)


def own(arrays: list):
    """Take the last array out of the list that holds it for the caller; return a copy if anybody else holds it."""
    array = arrays.pop()
    if array.base is None and _count(array) <= _UNSHARED and id(array) not in copies:
        return array
    return device_of(array).backend.copy(array)


def _references(arrays: list) -> int:
    """Return how many references `own` sees, in the same form as there."""
    array = arrays.pop()
    return _count(array)


class _Holder:
    __slots__ = ("_raw",)

    def __init__(self, data):
        self._raw = data


def _references_of_data(holder) -> int:
    """Return how many references `_add` sees to the array of a tensor, in the same form as there."""
    data = holder._raw
    return _count(data)


def _measure() -> tuple[int, int]:
    """Return the counts of an array that nobody else holds, in `own` and in `_add`; 0 where counts don't tell."""
    array = numpy.empty(0)
    unshared, of_data = _references([numpy.empty(0)]), _references_of_data(_Holder(numpy.empty(0)))
    tells = _references([array]) == unshared + 1 and _references_of_data(_Holder(array)) == of_data + 1
    return (unshared, of_data) if tells else (0, 0)


_UNSHARED, _UNSHARED_DATA = _measure()
_UNSHARED_LISTED = _UNSHARED + 1  # while a list holds the array, too

# Walks of several threads may reach one leaf. Reentrant, since a sum of tensors may run hooks on ops.
_accumulating = process_lock()


def accumulate_first(leaves: list) -> None:
    """Make arrays their leaves' first gradients: at the end of [gradient, leaf, ...], as long as all is plain."""
    with _accumulating:
        while leaves:
            leaf, g = leaves[-1], leaves[-2]
            ttype, raw = leaf._type, leaf._raw
            if leaf._edge is not LEAF or leaf._view is not None or leaf.__dict__ or g.__class__ is not ttype.array_type:
                return
            if getattr(leaf, "_grad", None) is not None or g.dtype is not ttype.np:
                return
            if g.base is not None or id(g) in copies or _count(g) > _UNSHARED_LISTED or g.strides != raw.strides:
                if type(raw) is not type(g) or g.shape != raw.shape or not raw.flags.c_contiguous:
                    return
                g = ttype.backend.copy(g)
            leaf._grad = make(g, ttype.plain)
            del leaves[-2:]


def accumulate(tensor, grads: list, on_tensors=False) -> None:
    """Add the last gradient of a list, which it is taken from, to the `.grad` of a tensor."""
    with _accumulating:
        have = getattr(tensor, "_grad", None)
        if on_tensors:
            g = grads.pop()
            if have is not None or mode.grad or g._type.symbolic:
                total = g.clone() if have is None else g + have if have.is_sparse else have + g
                tensor._grad = rare.grad_tensor_for(tensor, total)
            else:  # no op, which somebody might see
                grads.append(g._raw)
                tensor_type, g = g._type.plain, None
                tensor._grad = owned_tensor(grads, tensor_type, tensor)
        elif have is None:
            tensor._grad = owned_tensor(grads, tensor._type.plain, tensor)
        elif tensor._edge is LEAF:
            _add(tensor, have, grads.pop())
        else:  # a retained gradient is another tensor each time
            tensor._grad = from_raw(have._raw + grads.pop())


def writable(g):
    """Return a gradient of a recorded walk, in memory of its own if it is a view or expanded; its history stays."""
    own_memory = g._raw.base is None and id(g._raw) not in copies or g._type.rare or g._edge is LEAF  # its history
    return g if own_memory else make(g._raw.copy(), g._type.plain, g._edge)


def owned_tensor(arrays: list, tensor_type, tensor=None):
    """Return a Tensor with the last array of a list, taken from it, or a copy (see `own`): that of a tensor."""
    if arrays[-1].__class__ is not tensor_type.array_type:
        if arrays[-1].__class__ in tensor_of:
            return from_raw(own(arrays))
        arrays[-1] = tensor_type.wrap(arrays[-1])
    array = own(arrays)
    if tensor is not None and array.strides != tensor._raw.strides:
        array = rare.grad_for(tensor, array, tensor_type)
    return make(array, tensor_type) if array.dtype == tensor_type.np else from_raw(array)


def _add(leaf, tensor, g) -> None:
    """Add to a `.grad` in place. Others that hold its array, such as nodes that saved it, are told by its version."""
    data = tensor._raw
    if data.base is not None or _count(data) > _UNSHARED_DATA:
        touch(tensor)
    try:
        data += g
    except ValueError:
        if g.shape != data.shape:
            raise RuntimeError(f"a gradient of shape {g.shape} can't be added to one of shape {data.shape}") from None
        data = data + g
    if data is not tensor._raw:  # dense, which a sparse `.grad` is not
        leaf._grad = from_raw(data)
