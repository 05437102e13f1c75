"""`plugrad.array_api`: the Python array API standard, version 2024.12, over plugrad's ops.

The functions have the standard's names, signatures and rules of types (a 0-d array counts like any other, integers sum
to the default integer); what computes are the ops of the same or nearly the same name. Arrays are Tensors, whose
methods and operators stay PyTorch's. Gradients flow as through any op.
"""

from __future__ import annotations

from math import e, inf, nan, pi

import plugrad as _torch
from plugrad.array_api import fft, linalg
from plugrad.array_api.creation import *
from plugrad.array_api.creation import __all__ as _creation
from plugrad.array_api.dtypes import *
from plugrad.array_api.dtypes import __all__ as _dtypes
from plugrad.array_api.elementwise import *
from plugrad.array_api.elementwise import __all__ as _elementwise
from plugrad.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot
from plugrad.array_api.reductions import *
from plugrad.array_api.reductions import __all__ as _reductions
from plugrad.array_api.shapes import *
from plugrad.array_api.shapes import __all__ as _shapes

newaxis = None
bool = _torch.bool
int8, int16, int32, int64 = _torch.int8, _torch.int16, _torch.int32, _torch.int64
uint8, uint16, uint32, uint64 = _torch.uint8, _torch.uint16, _torch.uint32, _torch.uint64
float32, float64, complex64, complex128 = _torch.float32, _torch.float64, _torch.complex64, _torch.complex128
__array_api_version__ = "2024.12"

__all__ = [
    "__array_api_version__", "bool", "complex128", "complex64", "e", "fft", "float32", "float64", "inf", "int16",
    "int32", "int64", "int8", "linalg", "matmul", "matrix_transpose", "nan", "newaxis", "pi", "tensordot", "uint16",
    "uint32", "uint64", "uint8", "vecdot", *_creation, *_dtypes, *_elementwise, *_reductions, *_shapes,
]  # fmt: skip


def __array_namespace__(self, *, api_version=None):
    """Return the namespace of the array API standard.

    Raises ValueError for a version of the standard that it does not follow.
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"plugrad follows version 2024.12 of the array API standard, not {api_version!r}")
    return _torch.array_api


def to_device(self, device, /, *, stream=None):
    """Return the tensor on a device: `Tensor.to` by the standard's name."""
    if stream is not None:
        raise ValueError(f"to_device() takes no stream here, got {stream!r}: leave it out")
    return self.to(device)
