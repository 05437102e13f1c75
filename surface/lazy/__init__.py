"""Parameters and buffers without a shape yet, and layers that learn theirs from their first input."""

from __future__ import annotations

from plugrad.nn.lazy.dry_run import materialize, pending
from plugrad.nn.lazy.mixin import LazyModuleMixin
from plugrad.nn.lazy.uninitialized import (
    UninitializedBuffer,
    UninitializedParameter,
    UninitializedTensorMixin,
    is_lazy,
)

__all__ = [
    "LazyModuleMixin", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy",
    "materialize", "pending",
]  # fmt: skip
