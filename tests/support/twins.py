"""The public ops that PyTorch has too, with their samples: each call in both libraries, on equal tensors.

A tensor keeps its strides on the way from one library to the other.
"""

from __future__ import annotations

import functools

import numpy
import torch

import plugrad
from plugrad import registry
from plugrad.testing import samples_of


def lookup(library, dotted: str):
    """Return what stands under a dotted name in plugrad or PyTorch; None where there is nothing."""
    try:
        return functools.reduce(getattr, dotted.split("."), library)
    except (AttributeError, RuntimeError):
        return None


def public_ops() -> dict:
    """Return the dotted name, for all of our ops that are public under one and the same name in both libraries."""
    found = {}
    for name, op in sorted(registry.ops.items()):
        if not op.provider.builtin:
            continue
        names = sorted(op.names, key=lambda one: (not one.startswith("nn."), one.startswith("Tensor."), one))
        dotted = next((one for one in names if callable(lookup(torch, one)) and callable(lookup(plugrad, one))), None)
        if dotted is not None:
            found[name] = dotted
    return found


def samples(name: str, dtype=None) -> list:
    """Return the samples of an op that PyTorch can be given as well."""
    return [sample for sample in samples_of(registry.ops[name], dtype) if sample.through is None]


def array_of(tensor) -> numpy.ndarray:
    """Return a NumPy array of the values of a plugrad tensor, in memory of its own with the same strides."""
    array = tensor.detach().numpy()
    if array.size == 0 or array.flags.c_contiguous:
        return array.copy()
    steps = [stride // array.itemsize for stride in array.strides]
    if min(steps) < 0:
        return array.copy()
    memory = numpy.zeros(1 + sum((n - 1) * step for n, step in zip(array.shape, steps)), array.dtype)
    copy = numpy.lib.stride_tricks.as_strided(memory, array.shape, array.strides)
    copy[...] = array
    return copy


def _plain(library, value):
    """Return a dtype, device, layout or generator as that of the library; any other value as it is."""
    if isinstance(value, (plugrad.dtype, plugrad.memory_format, plugrad.layout)):
        return getattr(library, str(value).removeprefix("torch."))
    if isinstance(value, plugrad.device):
        return library.device(str(value))
    if isinstance(value, plugrad.Generator):
        return library.Generator().manual_seed(0)
    if isinstance(value, plugrad.Size):
        return library.Size(value)
    return value


def convert(library, value, change):
    """Return nested arguments for a library, with ``change(array, requires_grad)`` in place of each tensor."""
    if isinstance(value, plugrad.Tensor):
        return change(array_of(value), value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(convert(library, item, change) for item in value)
    if isinstance(value, dict):
        return {key: convert(library, item, change) for key, item in value.items()}
    if isinstance(value, slice):
        parts = (convert(library, part, change) for part in (value.start, value.stop, value.step))
        return slice(*parts)
    return _plain(library, value)


def tensors_in(library, value) -> list:
    """Return the tensors of a library in nested tuples, lists and dicts, from left to right."""
    if isinstance(value, library.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(library, item)]
    return tensors_in(library, list(value.values())) if isinstance(value, dict) else []


def values_of(tensor) -> numpy.ndarray:
    """Return the values of a tensor of either library."""
    tensor = tensor.detach()
    return tensor.numpy(force=True) if isinstance(tensor, torch.Tensor) else tensor.numpy()
