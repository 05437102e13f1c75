"""Linear and bilinear maps, and attention."""

from __future__ import annotations

import pathlib

import numpy

import plugrad
from plugrad.extend import (
    Op,
    collect,
    composite,
    conj,
    hookimpl,
    is_half,
    load_inline,
    multilinear,
    native,
    native_function,
    op,
)

from . import _attention_on_cuda
from .matmul import BY_THREADS, product_in_c


def _check_linear(input, weight, bias):
    """Raise RuntimeError unless shapes and dtypes fit."""
    if input.dtype != weight.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {input.dtype} != {weight.dtype}")
    if bias is not None and bias.dtype != input.dtype:
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {bias.dtype} and {input.dtype}")
    if not input.ndim or not weight.ndim:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {input.ndim}D and {weight.ndim}D"
        )
    if weight.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D (the weight)")
    if bias is not None and weight.ndim == 1:
        raise RuntimeError("mat2 must be a matrix, got 1-D tensor: a weight of one dimension takes no bias")
    features, shape = weight.shape[-1], input.shape
    if shape[-1] != features:
        rows = 1
        for n in shape[:-1]:
            rows *= n
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{shape[-1]} and {features}x{weight.shape[0]}): the "
            "last dimension of the input must be the in_features of the weight"
        )
    if bias is not None and bias.shape not in ((weight.shape[0],), (1,), ()):
        raise RuntimeError(
            f"The expanded size of the tensor ({weight.shape[0]}) must match the existing size ({bias.shape[-1]}) at "
            f"non-singleton dimension {input.ndim - 1}. Target sizes: {[*shape[:-1], weight.shape[0]]}. Tensor sizes: "
            f"{list(bias.shape)}"
        )


@op(at=("nn.functional.linear",), node="AddmmBackward0", autocast="lower")
def linear(xp, input, weight, bias=None):
    """input @ weight.T + bias.

    `input` is (*, in_features), `weight` (out_features, in_features) or (in_features,), `bias`
    (out_features,). Raises RuntimeError when shapes or dtypes do not fit.

    >>> import plugrad as torch
    >>> torch.nn.functional.linear(torch.tensor([1., 2.]), torch.tensor([[1., 1.], [0., 1.]]), torch.ones(2))
    tensor([4., 3.])
    """
    if (
        input.dtype is not weight.dtype
        or weight.ndim != 2
        or not input.ndim
        or input.shape[-1] != weight.shape[1]
        or (bias is not None and (bias.dtype is not input.dtype or bias.shape != weight.shape[:1]))
    ):
        _check_linear(input, weight, bias)
    dtype = input.dtype
    if is_half(dtype):
        input, weight = input.astype("float32"), weight.astype("float32")
    if input.ndim > 2 and weight.ndim == 2:
        rows = input.size // input.shape[-1] if input.shape[-1] else _rows(input.shape)
        result = input.reshape(rows, input.shape[-1]).dot(weight.T)
        result = result.reshape(*input.shape[:-1], len(weight))
    else:
        result = input.dot(weight.T)  # half the overhead of `matmul`
    if bias is not None:
        result += bias
    return result if result.dtype == dtype else result.astype(dtype)


@linear.samples
def linear_samples(make):
    yield make.args(make(3, 4), make(2, 4), make(2))
    yield make.args(make(2, 3, 4), make(5, 4))
    yield make.args(make(4), make(4))
    yield make.args(make(2, 8, 16), make(16, 16), make(16))


_row_in_c = native_function("row_product", lambda *operands: NotImplemented)


@linear.kernel("cpu")
@native("product_2d", otherwise=linear)
def linear_in_c(call, xp, input, weight, bias=None):
    if weight.ndim != 2 or input.ndim < 2:
        return NotImplemented
    if xp is numpy and input.ndim == 2 and len(input) == 1:  # a capture is told of no other function in C, nor of sizes
        out = xp.empty((1, len(weight)), input.dtype)
        done = _row_in_c(input, weight, out, False) if bias is None else _row_in_c(input, weight, out, bias, True)
        return out if done is None else NotImplemented
    if bias is None:
        return product_in_c(call, xp, input, weight.T)
    return product_in_c(call, xp, input, weight.T, bias) if bias.shape == weight.shape[:1] else NotImplemented


def _rows(shape):
    rows = 1
    for n in shape[:-1]:
        rows *= n
    return rows


_spread = load_inline(
    cuda=pathlib.Path(__file__).with_suffix(".cu"), name="spread", arrays=2, numbers=1, per="block",
    types="floating",
)  # fmt: skip


@linear.kernel("cuda")
@native(_spread, otherwise=linear)
def linear_on_cuda(call, xp, input, weight, bias=None):
    """The product is added to rows that are the bias, in one call of cuBLAS, and rounded once."""
    if weight.ndim != 2 or input.ndim < 2:
        return NotImplemented
    if bias is None:
        return xp.gemm(input, weight, None, True)
    columns, dtype = len(weight), input.dtype
    if bias.shape != (columns,) or bias.dtype != dtype:
        return NotImplemented
    result = xp.ndarray((*input.shape[:-1], columns), dtype)
    if result.size and call(result, bias, columns, blocks=-(-result.size // 1024)) is NotImplemented:
        return NotImplemented
    return xp.gemm(input, weight, result, True, True)


@linear.meta
def linear_meta(input, weight, bias=None):
    _check_linear(input, weight, bias)
    return (*input.shape[:-1], *weight.shape[:-1]), input.dtype


multilinear(linear, "input", "weight", without=("bias",))


@linear.jvp("bias")
def linear_jvp_bias(F, bias):
    return bias


@linear.vjp("input")
def linear_vjp_input(F, g, weight):
    weight = conj(F, weight)
    return F.matmul(g, weight) if weight.ndim == 2 else F.unsqueeze(g, g.ndim) * weight


@linear.vjp_kernel("cpu", "input")
@native("product_2d")
def linear_input_grad_in_c(call, xp, g, weight):
    """The same without the calls of ops, which for a few rows take longer than the product."""
    if not g.ndim == 2 == weight.ndim or not g.dtype.char == weight.dtype.char in "fd":
        return NotImplemented
    result = product_in_c(call, xp, g, weight)
    if result is not NotImplemented:
        return result
    if weight.size < BY_THREADS:
        return g.dot(weight)
    out = xp.empty((len(g), weight.shape[1]), g.dtype)
    return out if call(g, weight, out, False, False) is None else NotImplemented


@linear.vjp("weight")
def linear_vjp_weight(F, g, input, weight_shape):
    input = conj(F, input)
    if len(weight_shape) == 1:
        input = F.unsqueeze(g, g.ndim) * input
        return F.sum(input, tuple(range(input.ndim - 1))) if input.ndim > 1 else input
    if g.ndim != 2:
        rows = _rows(g.shape)
        g, input = F.reshape(g, (rows, weight_shape[0])), F.reshape(input, (rows, weight_shape[1]))
    return F.mm(F.t(g), input)


@linear.vjp_kernel("cpu", "weight")
@native("product_2d")
def linear_weight_grad_in_c(call, xp, g, input, weight_shape):
    """The same for the weight."""
    if len(weight_shape) == 1 or not g.dtype.char == input.dtype.char in "fd":
        return NotImplemented
    if g.ndim != 2:
        rows = _rows(g.shape)
        g, input = g.reshape(rows, weight_shape[0]), input.reshape(rows, weight_shape[1])
    result = product_in_c(call, xp, g.T, input)
    return g.T.dot(input) if result is NotImplemented else result


@linear.vjp("bias")
def linear_vjp_bias(F, g, bias_shape):
    if g.ndim > 1:
        g = F.sum(g, 0 if g.ndim == 2 else tuple(range(g.ndim - 1)))
    return g if g.shape == bias_shape else F.reshape(F.sum(g), bias_shape)


@linear.vjp_kernel("cpu", "bias")
@native("sums")
def linear_bias_grad_in_c(call, xp, g, bias_shape):
    if g.shape[-1:] != bias_shape or g.ndim < 2 or g.dtype.char not in "fd":
        return NotImplemented
    result = xp.empty(bias_shape, g.dtype)
    return result if call(g, result, 0, g.ndim - 1, 1, False) is None else NotImplemented


@linear.vmap
def linear_vmap(F, info, in_dims, input, weight, bias):
    if in_dims[1:] != (None, None) or input.ndim < 2:
        return NotImplemented
    return F.linear(F.movedim(input, in_dims[0], 0), weight, bias), 0


@linear.errors
def linear_errors(make):
    yield RuntimeError, "cannot be multiplied", make.args(make(3, 4), make(2, 5))


@composite(fresh=True, at=("nn.functional.bilinear", "bilinear"), autocast={"cuda": "promote"})
def bilinear(F, input1, input2, weight, bias=None):
    """x1' W x2 + bias for every pair of vectors.

    `input1` is (*, I), `input2` (*, J), `weight` (O, I, J), `bias` (O,); the result (*, O). Raises
    RuntimeError when shapes do not fit.

    >>> import plugrad as torch
    >>> torch.bilinear(torch.tensor([1., 2.]), torch.tensor([1., 1.]), torch.ones(1, 2, 2))
    tensor([6.])
    """
    parts = {"input1": input1, "input2": input2, "weight": weight, **({} if bias is None else {"bias": bias})}
    if len({part.dtype for part in parts.values()}) > 1:
        got = ", ".join(f"{name}: {part.dtype}" for name, part in parts.items())
        raise RuntimeError(f"All tensors must have the same dtype, got {got}; convert them with .to(dtype)")
    for i, (one, other) in enumerate(zip(input1.shape[:-1], input2.shape[:-1])):
        if one != other:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {i}: got {one} and {other}")
    if input1.ndim != input2.ndim:
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}"
        )
    for name, part, size in (("input1", input1, weight.shape[1]), ("input2", input2, weight.shape[2])):
        if part.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {part.shape[-1]} but expected {size}"
            )
    outputs = weight.shape[0]
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {outputs}"
        )
    rows = _rows(input1.shape)
    first, second = F.reshape(input1, (rows, input1.shape[-1])), F.reshape(input2, (rows, input2.shape[-1]))
    result = F.transpose(F.sum(F.matmul(first, weight) * second, -1, dtype=input1.dtype), 0, 1)
    result = F.contiguous(result) if bias is None else F.contiguous(result + bias)
    return F.reshape(result, (*input1.shape[:-1], outputs))


@bilinear.samples
def bilinear_samples(make):
    yield make(3, 4), make(3, 5), make(2, 4, 5), make(2)


def _repeated(F, like, heads):
    """Key or value with the heads of the query."""
    if like.ndim < 3 or like.shape[-3] == heads:
        return like
    *lead, count, rows, width = like.shape
    several = F.expand(F.unsqueeze(like, -3), (*lead, count, heads // count, rows, width))
    return F.reshape(several, (*lead, heads, rows, width))


def _masked(F, query, key, mask, is_causal, scale):
    """query @ key.T * scale, with what a query may not see at minus infinity."""
    scores = F.matmul(query * scale, F.transpose(key, -2, -1))
    if is_causal:
        mask = F.tril(F.ones_like(scores)) > 0
    if mask is None:
        return scores
    return scores + mask if mask.dtype.itemsize > 1 else F.where(mask, scores, -float("inf"))


@op(at=(), node="ScaledDotProductFlashAttentionBackward0", kinds={"mask": "tensor?", "scale": "number"})
def attend(xp, query, key, value, mask, is_causal, scale):
    """Attention of (*, H, L, E), and the logarithms of its sums of exponentials.

    `key` and `value` may have fewer heads. The logarithms are float32 whose bits are given as int32: they are for the
    gradient alone, and have none.
    """
    dtype = query.dtype
    if is_half(dtype):
        query, key, value = query.astype("float32"), key.astype("float32"), value.astype("float32")
    heads = query.shape[-3] if query.ndim > 2 else 1
    key, value = [one if one.ndim < 3 else xp.repeat(one, heads // one.shape[-3], -3) for one in (key, value)]
    scores = xp.matmul(query, key.swapaxes(-2, -1)) * query.dtype.type(scale)
    if is_causal:
        scores = xp.where(xp.tril(xp.ones(scores.shape[-2:], "bool")), scores, -float("inf")).astype(scores.dtype)
    elif mask is not None:
        scores = xp.where(mask, scores, -float("inf")).astype(scores.dtype) if mask.dtype.kind == "b" else scores + mask
    nothing = xp.full((*scores.shape[:-1], 1), -float("inf"), scores.dtype)
    most = scores.max(-1, keepdims=True) if scores.shape[-1] else nothing
    weights = xp.exp(scores - xp.where(most == nothing, xp.zeros_like(most), most))
    total = weights.sum(-1, keepdims=True)
    sums = xp.ascontiguousarray((most + xp.log(total))[..., 0], "float32")
    result = xp.matmul(weights / xp.maximum(total, xp.finfo(scores.dtype).tiny), value)
    return result if result.dtype == dtype else result.astype(dtype), sums.view("int32")


@attend.kernel("cuda")
@native(_attention_on_cuda.forward[64], otherwise=attend)
def attend_on_cuda(call, xp, query, key, value, mask, is_causal, scale):
    return _attention_on_cuda.attend(xp, query, key, value, mask, is_causal, scale)


attend_on_cuda.choices = _attention_on_cuda.choices


@attend.meta
def attend_meta(query, key, value, mask, is_causal, scale):
    return [((*query.shape[:-1], value.shape[-1]), query.dtype), (query.shape[:-1], "int32")]


@attend.samples
def attend_samples(make):
    for options in ((None, False), (None, True), (make(3, 5, requires_grad=False), False)):
        yield make.args(make(2, 3, 4), make(2, 5, 4), make(2, 5, 6), *options, 0.5)
    yield make(2, 4, 3, 4), make(2, 2, 5, 4), make(2, 2, 5, 4), None, False, 0.5


@attend.vjp("query", "key", "value")
def attend_vjp(F, g, query, key, value, mask, y0, y1, is_causal, scale, needs):
    """The formula, by a matrix of weights; y0 and y1 are for kernels."""
    g, dtype, shape = g[0], query.dtype, key.shape
    if dtype.itemsize == 2:
        g, query, key, value = [F.to_copy(one, plugrad.float32.numpy) for one in (g, query, key, value)]
    heads = query.shape[-3] if query.ndim > 2 else 1
    key, value = _repeated(F, key, heads), _repeated(F, value, heads)
    weights = F.safe_softmax(_masked(F, query, key, mask, is_causal, scale), -1)
    gains = F.matmul(g, F.transpose(value, -2, -1))
    slopes = weights * (gains - F.sum(weights * gains, -1, True)) * scale
    turned = [F.transpose(one, -2, -1) for one in (slopes, weights)]
    grads = [F.matmul(slopes, key), F.matmul(turned[0], query), F.matmul(turned[1], g)]
    for place in (1, 2):
        if key.shape[-3:-2] != shape[-3:-2]:
            grad = grads[place]
            grads[place] = F.sum(F.reshape(grad, (*shape[:-2], -1, *grad.shape[-2:])), -3)
    return [F.to_copy(grad, dtype) if grad.dtype != dtype else grad for grad in grads]


@attend.vjp_kernel("cuda", "query", "key", "value")
@native(_attention_on_cuda.of_queries[64])
def attend_grad_on_cuda(call, xp, g, query, key, value, mask, y0, y1, is_causal, scale, needs):
    return _attention_on_cuda.attend_grad(xp, g[0], query, key, value, mask, y0, y1, is_causal, scale, needs)


def _at_once(query, key, value, mask, dropout_p, enable_gqa):
    """Whether a kernel of the device may compute attention, which wants one batch of heads, no gradient of the mask."""
    if not attend.has_kernel(query.device.type) or dropout_p or not 2 <= query.ndim == key.ndim == value.ndim <= 4:
        return False
    if not query.dtype.is_floating_point or query.dtype.itemsize == 8 or query.shape[-1] != key.shape[-1]:
        return False
    heads = query.shape[-3:-2]
    if query.shape[:-3] != key.shape[:-3] or key.shape[:-1] != value.shape[:-1]:
        return False
    if heads != key.shape[-3:-2] and not (enable_gqa and key.shape[-3] and query.shape[-3] % key.shape[-3] == 0):
        return False
    if mask is None:
        return True
    scores = (*query.shape[:-1], key.shape[-2])
    fits = all([n in (1, wanted) for n, wanted in zip(reversed(mask.shape), reversed(scores))])
    return fits and mask.ndim <= query.ndim and not mask.requires_grad and mask.device == query.device


@composite(at=("nn.functional.scaled_dot_product_attention",), kinds={"value": "tensor"}, autocast="lower")
def scaled_dot_product_attention(
    F, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """softmax(query @ key.T * scale + mask) @ value.

    `query` is (*, L, E), `key` (*, S, E), `value` (*, S, V). `attn_mask` broadcasts to (*, L, S): booleans
    (True takes part) or numbers that are added. `is_causal` lets position i see positions up to i. `scale`
    defaults to 1 / sqrt(E). With `enable_gqa` key and value may have fewer heads (third dimension from the
    end), each serving several of the query's. A. Vaswani et al., "Attention is all you need",
    arXiv:1706.03762. Raises RuntimeError when `attn_mask` and `is_causal` are both given.

    >>> import plugrad as torch
    >>> q = torch.zeros(1, 2, 4)
    >>> v = torch.tensor([[[1.], [3.]]])
    >>> torch.nn.functional.scaled_dot_product_attention(q, q, v, is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    if attn_mask is not None and is_causal:
        raise RuntimeError("scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim}, key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if scale is None:
        scale = query.shape[-1] ** -0.5 if query.shape[-1] else 1.0
    if _at_once(query, key, value, attn_mask, dropout_p, enable_gqa):
        if attn_mask is not None and attn_mask.dtype.is_floating_point:
            attn_mask = attn_mask.to(query.dtype)
        return F.attend(query, key, value, attn_mask, is_causal, scale)[0]
    dtype = value.dtype
    if is_half(dtype.numpy):  # one rounding at the end, as in PyTorch's kernels
        query, key, value = query.float(), key.float(), value.float()
    if enable_gqa:
        key = F.repeat_interleave(key, query.shape[-3] // key.shape[-3], -3)
        value = F.repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    scores = F.matmul(query * scale, F.transpose(key, -2, -1))
    if is_causal:
        rows, columns = scores.shape[-2:]
        ones = F.ones((rows, columns), device=query.device).to(F.eq(query[:0], 0).dtype)
        scores = F.masked_fill(scores, F.logical_not(F.tril(ones)), -float("inf"))
    elif attn_mask is not None:
        if attn_mask.dtype.is_floating_point:
            scores = scores + attn_mask
        else:
            scores = F.where(attn_mask, scores, -float("inf"))
    weights = F.safe_softmax(scores, -1)
    if dropout_p > 0:
        weights = F.dropout(weights, dropout_p)
    result = F.matmul(weights, value)
    return result if result.dtype is dtype else result.to(dtype)


@scaled_dot_product_attention.samples
def attention_samples(make):
    yield make(2, 3, 4), make(2, 5, 4), make(2, 5, 4)
    yield make.args(make(2, 3, 4), make(2, 3, 4), make(2, 3, 4), is_causal=True)
    yield make.args(make(2, 3, 4), make(2, 5, 4), make(2, 5, 4), make(3, 5), scale=0.5)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
