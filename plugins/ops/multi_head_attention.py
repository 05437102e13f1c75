"""Multi-head attention as a function of all its weights. A. Vaswani et al., arXiv:1706.03762."""

from __future__ import annotations

import math
import warnings

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl


def check_shapes(query, key, value, padding, mask, num_heads) -> bool:
    """Return whether there is a batch; AssertionError when the numbers of dimensions do not fit."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    form = "batched (3-D)" if query.ndim == 3 else "unbatched (2-D)"
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"For {form} `query`, expected `key` and `value` to be {query.ndim}-D but found {key.ndim}-D and "
            f"{value.ndim}-D tensors respectively"
        )
    if padding is not None and padding.ndim != query.ndim - 1:
        raise AssertionError(
            f"For {form} `query`, expected `key_padding_mask` to be `None` or {query.ndim - 1}-D but found "
            f"{padding.ndim}-D tensor instead"
        )
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertionError(
            f"For {form} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead"
        )
    whole = (num_heads, query.shape[0], key.shape[0])
    if query.ndim == 2 and mask is not None and mask.ndim == 3 and mask.shape != whole:
        raise AssertionError(f"Expected `attn_mask` shape to be {whole} but got {mask.shape}")
    return query.ndim == 3


def _check(query, key, value, padding, mask, embed_dim, num_heads, is_causal) -> bool:
    """Return whether there is a batch; AssertionError or RuntimeError when arguments do not fit."""
    batched = check_shapes(query, key, value, padding, mask, num_heads)
    if is_causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if query.shape[-1] != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {query.shape[-1]}")
    if embed_dim % num_heads:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:-1]} do not match value's {value.shape[:-1]}"
        )
    return batched


def _project(F, query, key, value, weight, bias, weights, same):
    """The projections, (length, batch, embed_dim) each; one product where all three are of one tensor."""
    if weights is None:
        if same:
            return F.chunk(F.linear(query, weight, bias), 3, -1)
        weights = F.chunk(weight, 3)
    for name, given in zip("qkv", weights):
        if given is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = (None, None, None) if bias is None else F.chunk(bias, 3)
    return [F.linear(*parts) for parts in zip((query, key, value), weights, biases)]


def _check_static(name, static, rows, size) -> None:
    if static.size(0) != rows or static.size(2) != size:
        raise AssertionError(f"expecting {name} of shape ({rows}, *, {size}), but got {list(static.shape)}")


def _heads(F, part, static, batch, heads, size):
    """A projection, or what is given in its place, as (batch, heads, length, size)."""
    if static is None:
        return F.permute(F.reshape(part, (part.shape[0], batch, heads, size)), (1, 2, 0, 3))
    return F.reshape(static, (batch, heads, static.shape[1], size))


def _with_bias(F, k, v, bias_k, bias_v, batch):
    """Keys and values (length, batch, embed_dim), each with one learned element more."""
    if bias_k is None or bias_v is None:
        if bias_k is not None or bias_v is not None:
            raise AssertionError("bias_k and bias_v must be given together")
        return k, v
    pairs = (k, bias_k), (v, bias_v)
    return [F.cat([part, F.expand(F.reshape(bias, (1, 1, -1)), (1, batch, -1))]) for part, bias in pairs]


def _additive(F, mask, name, like):
    """A mask as numbers to add: minus infinity where a boolean one is True."""
    if mask.dtype is plugrad.bool:
        return F.masked_fill(plugrad.zeros(mask.shape, dtype=like.dtype, device=like.device), mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported, not {mask.dtype}")
    return mask


def _merge_masks(F, padding, mask, like, heads, lengths):
    """Both masks as one that is added to the scores (batch, heads, queries, keys), or None."""
    if padding is not None and mask is not None and padding.dtype is not mask.dtype:
        warnings.warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.",
            stacklevel=4,
        )
    batch, total = like.shape[1], None
    if mask is not None:
        shape = lengths if mask.ndim == 2 else (batch * heads, *lengths)
        if tuple(mask.shape) != shape:
            raise RuntimeError(
                f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {tuple(shape)}."
            )
        total = _additive(F, mask, "attn_mask", like)
        if mask.ndim == 3:
            total = F.reshape(total, (batch, heads, *lengths))
    if padding is not None:
        for dim, wanted in enumerate((batch, lengths[1])):
            if padding.shape[dim] != wanted:
                raise AssertionError(
                    f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got {padding.shape[dim]}"
                )
        padding = _additive(F, padding, "key_padding_mask", like)[:, None, None]
        total = padding if total is None else total + padding
    return total


def _attend(F, q, k, v, mask, p, need_weights):
    if not need_weights:
        return F.scaled_dot_product_attention(q, k, v, mask, p), None
    scores = F.matmul(q * q.shape[-1] ** -0.5, F.transpose(k, -2, -1))
    weights = F.softmax(scores if mask is None else scores + mask, -1)
    if p:
        weights = F.dropout(weights, p)
    return F.matmul(weights, v), weights


@composite(
    at=("nn.functional.multi_head_attention_forward",),
    kinds={
        "value": "tensor", "in_proj_weight": "tensor?", "in_proj_bias": "tensor?", "bias_k": "tensor?",
        "bias_v": "tensor?", "out_proj_bias": "tensor?",
    },
)  # fmt: skip
def multi_head_attention_forward(
    F, query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
    dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
    use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None,
    static_v=None, average_attn_weights=True, is_causal=False,
):  # fmt: skip
    """softmax(q k^T / sqrt(size)) v in several heads, between given projections.

    Args:
        query: (L, N, E), or (L, E) without a batch.
        key, value: (S, N, size), or (S, size).
        embed_dim_to_check: E, divided among the `num_heads` heads.
        in_proj_weight, in_proj_bias: the three input projections one upon the other, (3 E, E) and (3 E) or None.
        bias_k, bias_v: one element more of keys and values, or None.
        add_zero_attn: add an element of zeros to keys and values.
        dropout_p: probability with which weights of the attention are dropped when `training`.
        out_proj_weight, out_proj_bias: the output projection.
        key_padding_mask: (N, S) or (S).
        need_weights: return the weights of the attention too, otherwise None.
        attn_mask: (L, S) or (N * num_heads, L, S). In a boolean mask True means: not attended to; another one is
            added to the scores.
        use_separate_proj_weight: project by `q_proj_weight`, `k_proj_weight` and `v_proj_weight`.
        static_k, static_v: (N * num_heads, S, E / num_heads), used instead of projected keys and values.
        average_attn_weights: return the mean of the weights over the heads.
        is_causal: a hint that goes with an `attn_mask`.

    Gives (L, N, E) and (N, L, S) or (N, num_heads, L, S). Raises `AssertionError` and `RuntimeError` for shapes that
    do not fit.

    >>> import plugrad as torch
    >>> x, eye = torch.ones(2, 1, 4), torch.eye(4)
    >>> rest = torch.cat([eye, eye, eye]), None, None, None, False, 0.0, eye, None
    >>> torch.nn.functional.multi_head_attention_forward(x, x, x, 4, 2, *rest)[1]
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    padding = key_padding_mask
    batched = _check(query, key, value, padding, attn_mask, embed_dim_to_check, num_heads, is_causal)
    same = key is value and query is key
    if not batched:
        query, key, value = (F.unsqueeze(part, 1) for part in (query, key, value))
        padding = None if padding is None else F.unsqueeze(padding, 0)
    length, batch, embed_dim = query.shape
    for name, static in (("static_k", static_k), ("static_v", static_v)):
        if static is not None:
            _check_static(name, static, batch * num_heads, embed_dim // num_heads)
    source = key.shape[0] if static_k is None else static_k.shape[1]
    mask = _merge_masks(F, padding, attn_mask, query, num_heads, (length, source))
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(F, query, key, value, in_proj_weight, in_proj_bias, weights, same)
    for name, static in (("key", static_k), ("value", static_v)):
        if static is not None and bias_k is not None:
            raise AssertionError(f"bias cannot be added to static {name}.")
    k, v = _with_bias(F, k, v, bias_k, bias_v, batch)
    size = embed_dim // num_heads
    q, k, v = (
        _heads(F, part, static, batch, num_heads, size) for part, static in ((q, None), (k, static_k), (v, static_v))
    )
    if add_zero_attn:
        zeros = k.new_zeros((batch, num_heads, 1, size))
        k, v = F.cat([k, zeros], 2), F.cat([v, zeros], 2)
    if mask is not None and k.shape[2] > source:
        mask = F.constant_pad_nd(mask, (0, k.shape[2] - source))  # what was added is attended to
    result, weights = _attend(F, q, k, v, mask, dropout_p if training else 0.0, need_weights)
    result = F.reshape(F.permute(result, (2, 0, 1, 3)), (length, batch, embed_dim))
    result = F.linear(result, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = F.mean(weights, 1)
    if batched:
        return result, weights
    return F.squeeze(result, 1), weights if weights is None else F.squeeze(weights, 0)


@multi_head_attention_forward.samples
def multi_head_attention_samples(make):
    def small(*shape):  # so that attention is not all on one key, where gradients are lost in rounding
        return make(*shape, low=-0.7, high=0.7)

    weights = small(12, 4), small(12), None, None, False, 0.0, small(4, 4), small(4)
    yield make.args(small(3, 2, 4), small(5, 2, 4), small(5, 2, 4), 4, 2, *weights)
    yield make.args(small(3, 4), small(5, 4), small(5, 4), 4, 2, *weights, need_weights=False)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
