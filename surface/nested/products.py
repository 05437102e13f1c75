"""Layers and products of jagged tensors: linear maps, normalization, embeddings, attention."""

from __future__ import annotations

import plugrad
from plugrad.nested.padding import pad, seen, unpad, without_gaps
from plugrad.nested.ragged import alike
from plugrad.nested.tensors import NestedTensor, build, dense, form, rule, values_of
from plugrad.nn import functional


def _last_is_dense(name, input):
    if input._raw.ragged == input.ndim - 1:
        raise RuntimeError(f"{name}(): the last dimension of the nested tensor is the ragged one: transpose it first")


@form("jagged", "linear")
def linear(func, input, weight, bias=None):
    _check_dense("linear", weight, bias)
    _last_is_dense("linear", input)
    return build(func(values_of(input), weight, bias), input._raw.pattern())


def _check_dense(name, *others):
    if any(isinstance(one, NestedTensor) for one in others):
        raise RuntimeError(f"{name}(): only the input can be a nested tensor; weights are dense")


@form("jagged", "layer_norm", "rms_norm", "functional_layer_norm", "functional_rms_norm")
def layer_norm(func, input, normalized_shape, *args, **kwargs):
    sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if len(sizes) > input.ndim - 1 - input._raw.ragged:
        raise RuntimeError(
            f"{func.__name__}(): not supported when normalizing over the ragged dimension for NestedTensor: "
            f"normalized_shape={list(sizes)} of an input of shape {tuple(input.shape)}"
        )
    return build(func(values_of(input), normalized_shape, *args, **kwargs), input._raw.pattern())


@form("jagged", "embedding", "functional_embedding")
def embedding(func, *args, **kwargs):
    index = next(one for one in args if isinstance(one, NestedTensor))
    return build(func(*map(dense, args), **kwargs), index._raw.pattern())


# ---------------------------------------------------------------------------------------------------- products


@rule("jagged", "matmul", "bmm", "mm", "__matmul__", "linalg_matmul")
def matmul(input, mat2):
    """Products of each component with one matrix, one of its own, or another nested tensor's component."""
    if isinstance(input, NestedTensor) and not isinstance(mat2, NestedTensor):
        return _times_dense(input, mat2)
    nested = isinstance(input, NestedTensor) and isinstance(mat2, NestedTensor)
    if nested and input._raw.ragged_size == mat2._raw.ragged_size:
        if input._raw.ragged == input.ndim - 1 and mat2._raw.ragged == mat2.ndim - 2:
            return plugrad.matmul(pad(input, 0), pad(mat2, 0))
    shapes = " and ".join(str(tuple(one.shape)) for one in (input, mat2))
    raise RuntimeError(
        f"matmul(): not supported between inputs of shapes {shapes}: multiply a nested tensor by a dense one, or two "
        "along their ragged dimension; attention is nn.functional.scaled_dot_product_attention"
    )


def _times_dense(input, mat2):
    _last_is_dense("matmul", input)
    if mat2.ndim <= 2:
        pattern = input._raw.pattern()
        return build(plugrad.matmul(values_of(input), mat2), pattern)
    if mat2.ndim != input.ndim or mat2.shape[0] != len(input) or input._raw.ragged != input.ndim - 2:
        raise RuntimeError(
            f"matmul(): not supported between inputs of shapes {tuple(input.shape)} and {tuple(mat2.shape)}: a batch "
            "of dense matrices must have one for each component"
        )
    input = without_gaps(input)
    return unpad(plugrad.matmul(pad(input, 0), mat2), input._raw.pattern())


# ---------------------------------------------------------------------------------------------------- attention


def _has_heads(one):
    return isinstance(one, NestedTensor) and one.ndim == 4 and one._raw.ragged == 2


@rule("jagged", "scaled_dot_product_attention")
def attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):  # fmt: skip
    """Attention of each component among its own places, on padded components with a mask of what is there."""
    if not all(_has_heads(one) for one in (query, key, value)):
        raise RuntimeError(
            "scaled_dot_product_attention: query, key and value must be nested tensors of shape (batch, heads, ragged, "
            "channels): write x.unflatten(-1, [heads, -1]).transpose(1, 2)"
        )
    if attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: nested tensors take no attn_mask; pad them, and write a mask")
    alike("scaled_dot_product_attention", [key.detach().sum(-1), value.detach().sum(-1)])
    query, key, value = map(without_gaps, (query, key, value))
    there = seen(key._raw, key.device)
    there[:, :1] |= ~there.any(1, keepdim=True)  # a query without keys sees one of zeros, instead of none
    mask = there[:, None, None, :]
    if is_causal:
        many = (query._raw.longest, key._raw.longest)
        mask = mask & plugrad.ones(many, dtype=plugrad.bool, device=key.device).tril()
    result = functional.scaled_dot_product_attention(
        pad(query, 0), pad(key, 0), pad(value, 0), mask, dropout_p, scale=scale, enable_gqa=enable_gqa
    )
    return unpad(result, query._raw.pattern())
