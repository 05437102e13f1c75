"""`torch.utils.deterministic`: whether new memory is filled."""

from __future__ import annotations

# PyTorch fills the memory of `empty` with NaN where ops have to be deterministic and this is True. The attribute is
# here for programs that set it: what `empty` returns is never read by an op of plugrad's own.
fill_uninitialized_memory = True
