"""Multi-head attention."""

from __future__ import annotations

import math
import warnings

import plugrad
from plugrad.extend import Module, hookimpl
from plugrad.nn import functional as F

from ._common import parameter
from .linear import Linear


class _OutputProjection(Linear):
    def _get_name(self):
        return "NonDynamicallyQuantizableLinear"  # what PyTorch's repr shows


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
    (queries, keys) or (batch * heads, queries, keys); `is_causal` is a hint beside an `attn_mask`.

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
        self.out_proj = _OutputProjection(embed_dim, embed_dim, bias, **where)
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
        batched = _check_dimensions(query, key, value, key_padding_mask, attn_mask)
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                "`generate_square_subsequent_mask` to create this mask."
            )
        same = key is value, query is key
        if not batched:
            query, key, value = query[:, None], key[:, None], value[:, None]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif self.batch_first:
            query, key, value = (part.transpose(0, 1) for part in (query, key, value))
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}")
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
        lengths = query.shape[0], key.shape[0]
        mask = self._mask(key_padding_mask, attn_mask, query, lengths)
        q, k, v = self._project(query, key, value, all(same))
        q, k, v, mask = self._heads(q, k, v, mask)
        result, weights = self._attend(q, k, v, mask, need_weights)
        length, batch = query.shape[:2]
        result = self.out_proj(result.permute(2, 0, 1, 3).reshape(length, batch, self.embed_dim))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return result[:, 0], None if weights is None else weights[0]
        return (result.transpose(0, 1) if self.batch_first else result), weights

    def _project(self, query, key, value, same):
        """Return the projections, (length, batch, embed_dim) each; one product where all three are one tensor."""
        bias = self.in_proj_bias
        if self._qkv_same_embed_dim:
            if same:
                return F.linear(query, self.in_proj_weight, bias).chunk(3, -1)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return [F.linear(*parts) for parts in zip((query, key, value), weights, biases)]

    def _heads(self, q, k, v, mask):
        """Return q, k, v as (batch, heads, length, head_dim), with the elements that are added to keys and values."""
        batch, extra = k.shape[1], 0
        if self.bias_k is not None:
            k = plugrad.cat([k, self.bias_k.expand(1, batch, -1)])
            v = plugrad.cat([v, self.bias_v.expand(1, batch, -1)])
            extra += 1
        q, k, v = (
            part.reshape(part.shape[0], batch, self.num_heads, self.head_dim).permute(1, 2, 0, 3) for part in (q, k, v)
        )
        if self.add_zero_attn:
            zeros = k.new_zeros((batch, self.num_heads, 1, self.head_dim))
            k, v = plugrad.cat([k, zeros], 2), plugrad.cat([v, zeros], 2)
            extra += 1
        return q, k, v, mask if mask is None or not extra else F.pad(mask, (0, extra))

    def _attend(self, q, k, v, mask, need_weights):
        p = self.dropout if self.training else 0.0
        if not need_weights:
            return F.scaled_dot_product_attention(q, k, v, mask, p), None
        scores = (q / math.sqrt(self.head_dim)) @ k.transpose(-2, -1)
        weights = F.softmax(scores if mask is None else scores + mask, -1)
        if p:
            weights = F.dropout(weights, p)
        return weights @ v, weights

    def _mask(self, padding, mask, like, lengths):
        """Return both masks as one that is added to the scores (batch, heads, queries, keys), or None."""
        if padding is not None and mask is not None and padding.dtype is not mask.dtype:
            warnings.warn(
                "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.",
                stacklevel=3,
            )
        batch, heads = like.shape[1], self.num_heads
        total = None
        if mask is not None:
            shape = lengths if mask.ndim == 2 else (batch * heads, *lengths)
            if tuple(mask.shape) != shape:
                raise RuntimeError(
                    f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {tuple(shape)}."
                )
            total = _additive(mask, "attn_mask", like)
            if mask.ndim == 3:
                total = total.reshape(batch, heads, *lengths)
        if padding is not None:
            for dim, wanted in enumerate((batch, lengths[1])):
                if padding.shape[dim] != wanted:
                    raise AssertionError(
                        f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got {padding.shape[dim]}"
                    )
            padding = _additive(padding, "key_padding_mask", like)[:, None, None]
            total = padding if total is None else total + padding
        return total


def _additive(mask, name, like):
    """Return a mask as numbers to add: minus infinity where a boolean one is True."""
    if mask.dtype is plugrad.bool:
        return plugrad.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported, not {mask.dtype}")
    return mask


def _check_dimensions(query, key, value, padding, mask) -> bool:
    """Return whether there is a batch; AssertionError when numbers of dimensions do not fit."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    kind = "batched (3-D)" if query.ndim == 3 else "unbatched (2-D)"
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {query.ndim}-D but found {key.ndim}-D and "
            f"{value.ndim}-D tensors respectively"
        )
    if padding is not None and padding.ndim != query.ndim - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {query.ndim - 1}-D but found "
            f"{padding.ndim}-D tensor instead"
        )
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead"
        )
    return query.ndim == 3


@hookimpl
def plugrad_layers():
    return [MultiheadAttention]
