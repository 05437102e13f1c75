"""`torch.types`: names for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any

import plugrad

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number = int | float | bool
FileLike = str | os.PathLike[str] | IO[bytes]
Device = plugrad.device | str | int | None
Storage = Any
_int, _float, _bool, _str, _complex = builtins.int, builtins.float, builtins.bool, builtins.str, builtins.complex
_dtype, _device, _layout, _size = plugrad.dtype, plugrad.device, plugrad.layout, plugrad.Size | Sequence[int]
_TensorOrTensors = plugrad.Tensor | Sequence[plugrad.Tensor]
_TensorOrTensorsOrGradEdge = _TensorOrTensors
_Number = (builtins.int, builtins.float, builtins.bool)
PyNumber = int | float | complex
IntLikeType, FloatLikeType, BoolLikeType = builtins.int, builtins.float, builtins.bool
