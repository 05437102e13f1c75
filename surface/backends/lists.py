"""Lists of tensors whose backend does something with all their arrays at once."""

from __future__ import annotations

import plugrad
from plugrad import Tensor
from plugrad.graph.modes import special
from plugrad.graph.versions import touch

_PLAIN = Tensor, plugrad.nn.Parameter


def many_of(tensors):
    """Return the functions of lists of arrays that the backend of all the tensors has; None where there are none.

    So it is for tensors of different types, views, classes of others, and where somebody watches calls.
    """
    first = tensors[0]._type
    many = first.backend.many
    if many is None or special or plugrad.is_grad_enabled() or first is not first.device.tensor_type(first.np):
        return None
    plain = [type(t) in _PLAIN and t._type is first and t._view is None for t in tensors]
    return many if all(plain) else None


def touched(tensors) -> None:
    """Note that the tensors' arrays were written to."""
    for tensor in tensors:
        touch(tensor)
