"""`masked.masked_tensor`: tensors of which some elements are masked out, and what ops make of them.

A MaskedTensor holds a tensor and a mask of its shape, in which True means seen. Ops compute with the elements and keep
the mask; reductions leave out what is masked out. They are a prototype in PyTorch, and said to be one here, too.
"""

from __future__ import annotations

from plugrad.masked_tensors import rules
from plugrad.masked_tensors.tensors import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor", "rules"]
