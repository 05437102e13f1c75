"""How items become a batch."""

from __future__ import annotations

import collections.abc

import numpy

import plugrad
from plugrad import dtypes


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
    first = batch[0]
    cls = type(first)
    if isinstance(first, plugrad.Tensor):
        if isinstance(batch, plugrad.Tensor):
            raise TypeError("default_collate(): the batch must be a tuple or list of Tensors, not Tensor")
        return plugrad.stack(list(batch))
    if isinstance(first, numpy.ndarray):
        if not dtypes.is_native(first.dtype):
            raise TypeError(_REFUSED.format(first.dtype))
        return plugrad.stack([plugrad.as_tensor(item) for item in batch])
    if isinstance(first, numpy.generic) and dtypes.is_native(first.dtype):
        return plugrad.as_tensor(numpy.asarray(batch))
    if isinstance(first, float):
        return plugrad.tensor(batch, dtype=plugrad.float64)
    if isinstance(first, int):
        return plugrad.tensor(batch)
    if isinstance(first, (str, bytes)):
        return list(batch) if type(batch) is not tuple else batch
    if isinstance(first, collections.abc.Mapping):
        batches = {key: default_collate([item[key] for item in batch]) for key in first}
        return batches if cls is dict else _like(cls, batches)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return cls(*(default_collate(parts) for parts in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError(
                "each element in list of batch should be of equal size: items have "
                f"{', '.join(map(str, sorted({len(item) for item in batch})))} elements; pass a collate_fn"
            )
        parts = [default_collate(parts) for parts in zip(*batch)]
        return _like(cls, parts)
    if hasattr(cls, "__dlpack__"):  # a tensor of another library
        return default_collate([_from_dlpack(item) for item in batch])
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
