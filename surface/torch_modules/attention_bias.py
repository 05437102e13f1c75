"""`torch.nn.attention.bias`: masks that say which positions causal attention sees, where lengths differ."""

from __future__ import annotations

import enum
import warnings

import plugrad
from plugrad import Tensor
from plugrad.nn import Parameter

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """From which corner the diagonal starts."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A mask (seq_len_q, seq_len_kv) of booleans for `scaled_dot_product_attention`.

    Raises AssertionError for what is no CausalVariant.

    >>> import plugrad as torch
    >>> torch.nn.attention.bias.causal_lower_right(1, 3)
    tensor([[True, True, True]])
    """

    __torch_function__ = Parameter.__torch_function__  # results are plain tensors

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, not {type(variant).__name__}")
        if variant is CausalVariant.LOWER_RIGHT and seq_len_q > seq_len_kv:
            told = "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!"
            warnings.warn(told, stacklevel=3)
        first = 0 if variant is CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
        mask = plugrad.ones(seq_len_q, seq_len_kv, dtype=plugrad.bool).tril(first)
        bias = Tensor._make_subclass(cls, mask)
        bias.variant, bias.seq_len_q, bias.seq_len_kv = variant, seq_len_q, seq_len_kv
        return bias

    def __init__(self, variant, seq_len_q, seq_len_kv):
        """Do nothing: it is made by `__new__`, since a tensor's memory is."""

    def __repr__(self):
        return repr(self.as_subclass(Tensor))


def _of_size(size, name) -> tuple:
    if len(size) != 2:
        raise RuntimeError(f"{name} only supports 2D tensors: write {name}(seq_len_q, seq_len_kv)")
    return size


def causal_upper_left(*size) -> CausalBias:
    """Position i of the queries sees the first i + 1 of the keys; `size` is (seq_len_q, seq_len_kv)."""
    return CausalBias(CausalVariant.UPPER_LEFT, *_of_size(size, "causal_upper_left"))


def causal_lower_right(*size) -> CausalBias:
    """The last of the queries sees all keys, each one before it one key less; `size` is (seq_len_q, seq_len_kv)."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *_of_size(size, "causal_lower_right"))
