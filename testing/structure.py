"""Nested tuples, lists and dicts of tensors, as calls take and return them."""

from __future__ import annotations

import plugrad


def map_tensors(value, change):
    """Return `value` with every tensor in its tuples, lists and dicts replaced by ``change(tensor)``.

    >>> import plugrad as torch
    >>> map_tensors({"a": [torch.ones(2)], "b": 3}, lambda t: tuple(t.shape))
    {'a': [(2,)], 'b': 3}
    """
    if isinstance(value, plugrad.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [map_tensors(item, change) for item in value]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def tensors_in(value) -> list:
    """Return the tensors in nested tuples, lists and dicts, from left to right."""
    found: list = []
    map_tensors(value, lambda tensor: found.append(tensor) or tensor)
    return found


def is_float(tensor) -> bool:
    """Whether a tensor has a dtype that gradients can have."""
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def wide_dtype(dtype):
    """Return float64 or complex128, whichever holds the values of `dtype`."""
    return plugrad.complex128 if dtype.is_complex else plugrad.float64


def to_numpy(tensor):
    """Return a tensor of any device and dtype as a NumPy array, low precision widened to what NumPy has."""
    tensor = tensor.detach()
    if is_float(tensor):
        tensor = tensor.to(wide_dtype(tensor.dtype))
    return tensor.cpu().numpy()


def reals(tensor):
    """Return the elements as a flat float64 vector, real and imaginary parts in turn."""
    array = to_numpy(tensor)
    return array.reshape(-1).copy().view("float64") if array.size else array.reshape(-1).real


def like(tensor, flat):
    """Return a new wide tensor shaped as `tensor`, on its device, from a flat real vector; see `reals`."""
    wide = flat.copy().view("complex128") if tensor.dtype.is_complex else flat.copy()
    return plugrad.from_numpy(wide.reshape(tuple(tensor.shape))).to(tensor.device)
