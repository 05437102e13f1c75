"""Options of losses."""

from __future__ import annotations

from dataclasses import dataclass

import plugrad


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch divides the work of `linear_cross_entropy`.

    They are checked, and have no effect here on numbers or memory: all logits are made at once.

    Args:
        allow_retain_graph: whether backward may run twice; it always may.
        batch_chunk_size: rows of the batch that are worked on at a time, or None.
        chunking_method: "auto", "aspect_ratio" or "aspect_ratio:N", which choose that number, or None.
        acc_policy: "auto", "accurate", "balanced" or "compact".
        acc_dtype: the float dtype in which sums are kept, or None.

    Raises ValueError for other values.

    >>> import plugrad as torch
    >>> torch.nn.LinearCrossEntropyOptions(batch_chunk_size=64).batch_chunk_size
    64
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: plugrad.dtype | None = None

    def __post_init__(self):
        method, colon, factor = (self.chunking_method or "auto").partition(":")
        size, counts = self.batch_chunk_size, factor.isdigit() and int(factor) > 0
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            known = "'auto', 'accurate', 'balanced' or 'compact'"
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}; write {known}")
        if self.chunking_method not in (None, "auto") and not (method == "aspect_ratio" and (counts or not colon)):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}; write 'auto' or 'aspect_ratio:2'")
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and not self.acc_dtype.is_floating_point:
            raise ValueError(f"acc_dtype must be a float dtype or None, got {self.acc_dtype!r}")
