"""Batches in pinned memory, from which a device copies while the CPU goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plugrad


def pin_memory(data, device=None):
    """Return a batch whose tensors are pinned, and whatever has a method `pin_memory`; containers keep their type.

    >>> import plugrad as torch
    >>> from plugrad.utils.data._utils.pin_memory import pin_memory
    >>> pin_memory({"x": torch.ones(1), "name": "a"})
    {'x': tensor([1.]), 'name': 'a'}
    """
    if isinstance(data, plugrad.Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _like(data, {key: pin_memory(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(pin_memory, data))
    if isinstance(data, Sequence):
        return _like(data, [pin_memory(value) for value in data])
    return data


def _like(container, values):
    try:
        return type(container)(values)
    except TypeError:  # a class that is not made from its items
        return values
