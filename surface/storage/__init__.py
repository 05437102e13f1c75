"""Storages: the memory under tensors, as bytes (`UntypedStorage`) or as elements of one dtype (`FloatStorage`...).

A storage is the array of its backend that owns the memory; all tensors that are views of one array have one storage.
What is written through a storage counts as written in place, for autograd too.
"""

from __future__ import annotations

from plugrad.storage.typed import CLASSES, TypedStorage, _LegacyStorage, storage_class
from plugrad.storage.untyped import UntypedStorage, memory_of, tensor_over

globals().update(CLASSES)
Storage = CLASSES["FloatStorage"]

__all__ = [
    "Storage", "TypedStorage", "UntypedStorage", "_LegacyStorage", "memory_of", "storage_class",
    "tensor_over", *CLASSES,
]  # fmt: skip
