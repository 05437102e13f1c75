"""Storages: the memory under tensors, as bytes (`UntypedStorage`) or as elements of one dtype (`FloatStorage`...).

A storage is the array of its backend that owns the memory; all tensors that are views of one array have one storage.
What is written through a storage counts as written in place, for autograd too.
"""

from __future__ import annotations

from plugrad import get_default_dtype
from plugrad.storage.typed import (
    CLASSES,
    TypedStorage,
    _dtype_to_storage_type_map,
    _LegacyStorage,
    _storage_type_to_dtype_map,
    storage_class,
)
from plugrad.storage.untyped import UntypedStorage, memory_of, tensor_over

globals().update(CLASSES)


def __getattr__(name):
    """`Storage` is the class of the default dtype, whichever that is."""
    if name == "Storage":
        return storage_class(get_default_dtype())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Storage", "TypedStorage", "UntypedStorage", "_LegacyStorage", "_dtype_to_storage_type_map",
    "_storage_type_to_dtype_map", "memory_of", "storage_class",
    "tensor_over", *CLASSES,
]  # fmt: skip
