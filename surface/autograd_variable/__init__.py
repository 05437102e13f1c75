"""`plugrad.autograd.variable`: the old name of tensors, under PyTorch's longer path."""

from __future__ import annotations

from plugrad.legacy import Variable

__all__ = ["Variable"]
