"""Multi-head attention."""

from __future__ import annotations

import plugrad
from plugrad.extend import Module, hookimpl
from plugrad.nn import functional as F

from ._common import parameter
from .linear import _NonDynamicallyQuantizableLinear


class MultiheadAttention(Module):
    """softmax(q k^T / sqrt(size)) v in several heads, between learned projections.

    Args:
        embed_dim: size of query and output, divided among the heads.
        num_heads: how many there are.
        dropout: probability with which weights of the attention are dropped in training.
        bias: whether the projections have one.
        add_bias_kv: add one learned element to keys and values.
        add_zero_attn: add one element of zeros to them.
        kdim, vdim: sizes of keys and values, `embed_dim` when None.
        batch_first: inputs and output are (batch, length, size) rather than (length, batch, size).

    Called as `layer(query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
    average_attn_weights=True, is_causal=False)`; returns (output, weights of the attention or None). In a boolean mask
    True means: not attended to; another one is added to the scores. `key_padding_mask` is (batch, keys), `attn_mask`
    (queries, keys) or (batch * heads, queries, keys); `is_causal` is a hint that goes with an `attn_mask`.

    Raises AssertionError and RuntimeError for shapes that do not fit. A. Vaswani et al., arXiv:1706.03762.

    >>> import plugrad as torch
    >>> x = torch.ones(5, 2, 8)
    >>> output, weights = torch.nn.MultiheadAttention(8, 4)(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 5, 5]))
    """

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
        vdim=None,
        batch_first=False, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        where = {"device": device, "dtype": dtype}
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        together = self._qkv_same_embed_dim
        sizes = {"q": embed_dim, "k": self.kdim, "v": self.vdim}
        for name, size in sizes.items():
            weight = None if together else parameter(embed_dim, size, **where)
            self.register_parameter(f"{name}_proj_weight", weight)
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim, **where) if together else None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim, **where) if bias else None)
        self.out_proj = _NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **where)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, parameter(1, 1, embed_dim, **where) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self):
        init = plugrad.nn.init
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
        is_causal=False,
    ):  # fmt: skip
        turn = self.batch_first and query.ndim == 3
        if turn:
            turned = {id(part): part.transpose(0, 1) for part in (query, key, value)}  # equal ones stay one tensor
            query, key, value = turned[id(query)], turned[id(key)], turned[id(value)]
        separate = not self._qkv_same_embed_dim
        result, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
            self.bias_k, self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            self.training, key_padding_mask, need_weights, attn_mask, separate,
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (result.transpose(0, 1) if turn else result), weights


@hookimpl
def plugrad_layers():
    return [MultiheadAttention]
