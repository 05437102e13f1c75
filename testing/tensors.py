"""Nested tuples, lists and dicts of tensors, as calls take and return them."""

from __future__ import annotations

import contextlib

import numpy

import plugrad
from plugrad import nest


def map_tensors(value, change):
    """Return `value` with every tensor in its tuples, lists and dicts replaced by ``change(tensor)``.

    >>> import plugrad as torch
    >>> map_tensors({"a": [torch.ones(2)], "b": 3}, lambda t: tuple(t.shape))
    {'a': [(2,)], 'b': 3}
    """
    return nest.change(lambda leaf: change(leaf) if isinstance(leaf, plugrad.Tensor) else leaf, value)


def tensors_in(value) -> list:
    """Return the tensors in nested tuples, lists and dicts, from left to right."""
    if type(value) is plugrad.Tensor:  # what calls return most often
        return [value]
    if type(value) is tuple and all([type(item) is plugrad.Tensor for item in value]):
        return list(value)
    return [leaf for leaf in nest.leaves(value) if isinstance(leaf, plugrad.Tensor)]


def is_float_dtype(dtype) -> bool:
    """Whether a dtype is one that gradients can have: of floats or complex numbers."""
    return dtype.is_floating_point or dtype.is_complex


def is_float(tensor) -> bool:
    """Whether a tensor has a dtype that gradients can have."""
    return is_float_dtype(tensor.dtype)


def differentiable(value) -> list:
    """Return the tensors in nested tuples, lists and dicts that are recorded: floats that require grad."""
    return [t for t in tensors_in(value) if is_float(t) and t.requires_grad]


def recording():
    """Return a context in which calls are recorded; entering a mode that is on would make each of them slower."""
    return contextlib.nullcontext() if plugrad.is_grad_enabled() else plugrad.enable_grad()


def gradients_of_sum(outputs, inputs) -> tuple:
    """Return the gradients of the sum of all elements of some outputs; None where there is no dependence."""
    return plugrad.autograd.grad(outputs, inputs, [plugrad.ones_like(y) for y in outputs], allow_unused=True)


def wide_dtype(dtype):
    """Return float64 or complex128, whichever holds the values of `dtype`."""
    return plugrad.complex128 if dtype.is_complex else plugrad.float64


def is_wrapper(tensor) -> bool:
    """Whether a tensor has no memory of its own, and its class computes by `__torch_dispatch__`."""
    return type(tensor._raw).__name__ == "WrapperArray"


def to_numpy(tensor):
    """Return a tensor of any device and dtype as a NumPy array, low precision widened to what NumPy has."""
    tensor = tensor.detach().to_dense()
    if is_float(tensor):
        tensor = tensor.to(wide_dtype(tensor.dtype))
    if is_wrapper(tensor):
        flat = tensor.reshape(-1)
        elements = [flat[i].item() for i in range(flat.shape[0])]
        return numpy.array(elements, tensor.dtype.name).reshape(tuple(tensor.shape))
    return tensor.numpy(force=True)


def reals(tensor):
    """Return the elements as a flat float64 vector, real and imaginary parts in turn."""
    array = tensor._raw
    if type(array) is not numpy.ndarray or array.dtype.char not in "dD" or tensor._view is not None:
        array = to_numpy(tensor)
    return array.reshape(-1).copy().view("float64") if array.size else array.reshape(-1).real


def like(tensor, flat):
    """Return a new wide tensor shaped as `tensor`, on its device, from a flat real vector; see `reals`."""
    wide = flat.copy().view("complex128") if tensor.dtype.is_complex else flat.copy()
    return plugrad.from_numpy(wide.reshape(tuple(tensor.shape))).to(tensor.device)


def strided_copy(tensor):
    """Return a copy whose elements lie two apart in memory, rows and columns exchanged."""
    memory = tensor.detach().new_empty((*tensor.shape[::-1], 2))[..., 0]
    copy = memory.permute(tuple(range(memory.ndim - 1, -1, -1)))
    copy.copy_(tensor.detach())
    return copy
