"""`nested`: batches of tensors of different sizes, without padding.

They are Tensors of a subclass. In the jagged layout one dimension varies along the batch, and ops run on one tensor of
all components; in the strided layout any dimension may, and ops run on each component. Ops that have a rule pass
gradients on; all others refuse.
"""

from __future__ import annotations

from plugrad.nested import lists as _lists
from plugrad.nested import products as _products
from plugrad.nested import ragged as _ragged
from plugrad.nested import reductions as _reductions
from plugrad.nested.creation import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)  # fmt: skip
from plugrad.nested.tensors import jagged, rebuild

__all__ = [
    "as_nested_tensor", "jagged", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "rebuild", "to_padded_tensor",
]  # fmt: skip
_RULES = (_lists, _products, _ragged, _reductions)  # modules whose rules are known once they are imported
