"""How items become a batch."""

from __future__ import annotations

import collections.abc
import re

import numpy

import plugrad
from plugrad import dtypes

np_str_obj_array_pattern = re.compile("[SaUO]")  # of the dtypes of arrays that hold no numbers


def default_convert(data):
    """Return NumPy arrays in nested containers as tensors, other things as they are."""
    return _rebuild(data, lambda value: value)


def _rebuild(data, otherwise):
    if isinstance(data, (numpy.ndarray, numpy.generic)) and dtypes.is_native(data.dtype):
        return plugrad.as_tensor(numpy.asarray(data))
    if isinstance(data, dict):
        return {key: _rebuild(item, otherwise) for key, item in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_rebuild(item, otherwise) for item in data))
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _like(type(data), [_rebuild(item, otherwise) for item in data])
    return otherwise(data)


def default_collate(batch):
    """Return a batch of items.

    Tensors are stacked, those of other libraries as DLPack hands them over; numbers become one tensor, containers are
    taken item by item, strings listed. Raises TypeError for items of other types, and RuntimeError for tensors or
    lists of different sizes.

    >>> from plugrad.utils.data import default_collate
    >>> default_collate([{"x": 1.5, "y": "a"}, {"x": 2.5, "y": "b"}])
    {'x': tensor([1.5000, 2.5000], dtype=torch.float64), 'y': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Return a batch of tensors."""
    if isinstance(batch, plugrad.Tensor):
        raise TypeError("default_collate(): the batch must be a tuple or list of Tensors, not Tensor")
    if any(getattr(item, "requires_grad", False) for item in batch):
        return plugrad.stack(list(batch))
    with plugrad.no_grad():  # where nothing is recorded, nobody looks whether NumPy writes into its arrays later
        return plugrad.stack(list(batch))


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """Return a batch of NumPy arrays as a tensor."""
    if not dtypes.is_native(batch[0].dtype):
        raise TypeError(_REFUSED.format(batch[0].dtype))
    return collate_tensor_fn([plugrad.as_tensor(item) for item in batch])


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """Return a batch of NumPy numbers as a tensor."""
    if not dtypes.is_native(batch[0].dtype):
        raise TypeError(_REFUSED.format(batch[0].dtype))
    return plugrad.as_tensor(numpy.asarray(batch))


def collate_float_fn(batch, *, collate_fn_map=None):
    """Return a batch of floats as a tensor of float64."""
    return plugrad.tensor(batch, dtype=plugrad.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Return a batch of ints, or of bools, as a tensor."""
    return plugrad.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """Return a batch of strings as it is, in a list if it is no sequence of Python's."""
    return batch if isinstance(batch, (tuple, list, str, bytes)) else list(batch)


# What makes a batch of items of a type; programs add types of their own.
default_collate_fn_map = {
    plugrad.Tensor: collate_tensor_fn, numpy.ndarray: collate_numpy_array_fn,
    (numpy.bool_, numpy.number): collate_numpy_scalar_fn, float: collate_float_fn, int: collate_int_fn,
    str: collate_str_fn, bytes: collate_str_fn,
}  # fmt: skip


def collate(batch, *, collate_fn_map=None):
    """Return a batch of items, with the function that `collate_fn_map` has for their type; containers item by item.

    Args:
        batch: the items.
        collate_fn_map: {type, or tuple of types: function of `batch` and `collate_fn_map=`}, an exact type first.

    >>> from plugrad.utils.data._utils.collate import collate
    >>> collate([(1, 5), (2, 6)], collate_fn_map={int: lambda batch, *, collate_fn_map: sum(batch)})
    [3, 11]
    """
    first = batch[0]
    cls = type(first)
    functions = collate_fn_map or {}
    if cls in functions:
        return functions[cls](batch, collate_fn_map=functions)
    for kind, function in functions.items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=functions)
    if isinstance(first, collections.abc.Mapping):
        batches = {key: collate([item[key] for item in batch], collate_fn_map=functions) for key in first}
        return batches if cls is dict else _like(cls, batches)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return cls(*(collate(parts, collate_fn_map=functions) for parts in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError(
                "each element in list of batch should be of equal size: items have "
                f"{', '.join(map(str, sorted({len(item) for item in batch})))} elements; pass a collate_fn"
            )
        return _like(cls, [collate(parts, collate_fn_map=functions) for parts in zip(*batch)])
    if hasattr(cls, "__dlpack__"):  # a tensor of another library
        return collate([_from_dlpack(item) for item in batch], collate_fn_map=functions)
    raise TypeError(_REFUSED.format(cls))


def _from_dlpack(item):
    try:
        return plugrad.from_dlpack(item)
    except (BufferError, RuntimeError, ValueError) as error:
        raise TypeError(f"default_collate: a {type(item).__name__} can't be taken as a tensor: {error}") from error


_REFUSED = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _like(cls, parts):
    """Return parts in a container of a class; as they are if it is a tuple's, or is made in another way."""
    try:
        return parts if issubclass(cls, tuple) else cls(parts)
    except TypeError:
        return parts
