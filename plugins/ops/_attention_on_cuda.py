"""Attention by kernels in CUDA C++ that keep no matrix of weights."""

from __future__ import annotations

import functools
import itertools
import pathlib
import struct

import numpy

from plugrad.extend import load_inline

from . import _cudnn

INT32, FLOAT32 = numpy.dtype("int32"), numpy.dtype("float32")
TENSORS = ("q", "k", "v", "out", "g", "dq", "dk", "dv", "mask")
ADDRESSES = ("mask_by_key", "sums", "deltas", "scores", "gains", "weights", "slopes")
PLAN = struct.Struct(f"={4 * len(TENSORS) + len(ADDRESSES)}q10i2f")  # attention_plan

_load = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_name("attention.cu"), arrays=1, per="block",
    types=("float32", "float16", "bfloat16"), struct=PLAN.size,
)  # fmt: skip
FORWARD = {32: 32, 64: 32, 128: 32, 256: 16}  # elements of a row: rows of a tile, as many as shared memory holds
BACKWARD = {32: 32, 64: 32, 128: 16}


def _for_widths(name, tiles):
    return {width: _load(name=name, flags=(f"-DPG_HEAD={width}", f"-DPG_TILE={rows}")) for width, rows in tiles.items()}


forward = _for_widths("attention", FORWARD)
of_queries = _for_widths("attention_queries", BACKWARD)
of_keys = _for_widths("attention_keys", BACKWARD)
weights_of, slopes_of = _load(name="attention_weights"), _load(name="attention_slopes")
LARGE = {4: 3e9, 2: 1.5e9}  # operations, by bytes of an element, for which products by cuBLAS are faster
WORKSPACE = 256 << 20  # bytes of matrices of weights that are laid out for these


def _four(array):
    """Return an array as (batch, heads, rows, elements), whose rows are contiguous; None where no view is."""
    if array.ndim > 4 or array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        return None
    return array if array.ndim == 4 else array.reshape((1,) * (4 - array.ndim) + array.shape)


def _views(xp, *arrays):
    """Return arrays as views of four dimensions, copied where there is none; None for more than four."""
    if arrays[0].ndim > 4:
        return None
    views = [_four(array) for array in arrays]
    return [_four(xp.ascontiguousarray(array)) if view is None else view for array, view in zip(arrays, views)]


class Plan:
    """What kernels are told: where tensors are, and numbers."""

    __slots__ = ("tensors", "addresses", "sizes", "place", "scale")

    def __init__(self, q, k, v, is_causal, scale):
        heads, count = q.shape[1], k.shape[1]
        self.tensors, self.addresses = dict.fromkeys(TENSORS, (0, 0, 0, 0)), dict.fromkeys(ADDRESSES, 0)
        self.place = 0, 0
        self.sizes = [heads, heads // count, q.shape[2], k.shape[2], q.shape[3], v.shape[3], bool(is_causal), 0]
        self.scale = scale
        self.fill(q=q, k=k, v=v)

    def fill(self, **arrays):
        """Say where arrays of four dimensions are."""
        for name, array in arrays.items():
            size, (batch, head, row, _) = array.itemsize, array.strides
            self.tensors[name] = array.data.ptr, batch // size, head // size, row // size

    def mask(self, mask, dtype):
        """Say where a mask is; False for one of another type."""
        if mask.dtype != dtype and mask.dtype.kind != "b":
            return False
        size, lead = mask.itemsize, 4 - mask.ndim
        shape, strides = (1,) * lead + mask.shape, (0,) * lead + mask.strides
        *steps, self.addresses["mask_by_key"] = [0 if n == 1 else step // size for n, step in zip(shape, strides)]
        self.tensors["mask"], self.sizes[7] = (mask.data.ptr, *steps), 1 if mask.dtype.kind == "b" else 2
        return True

    def packed(self):
        """Return the struct."""
        tensors = itertools.chain.from_iterable(self.tensors.values())
        return PLAN.pack(*tensors, *self.addresses.values(), *self.sizes, *self.place, self.scale, 0.0)


def _plan(q, k, v, mask, is_causal, scale):
    """Return the plan for three arrays of four dimensions and a mask; None where the mask is of another type."""
    plan = Plan(q, k, v, is_causal, scale)
    return plan if mask is None or plan.mask(mask, q.dtype) else None


def _width(kernels, *arrays):
    most = max([array.shape[-1] for array in arrays])
    return next((width for width in kernels if width >= most), None)


def choices():
    """Return what `plugrad why` says of the kernels, first choice first."""
    return [
        "what is not large: kernels in CUDA C++, which keep no matrix of weights",
        f"large ones of half precision without a mask: cuDNN: {_cudnn.state()}",
        "large ones else: products by cuBLAS, of weights for some queries at a time",
    ]


def _is_large(q, k, v):
    return 2.0 * q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * (q.shape[3] + v.shape[3]) >= LARGE[q.itemsize]


def _laid_out(q, k, v):
    """Return for how many queries at once the weights are to be laid out; 0 where there is no room for a few."""
    batch, heads, queries, _ = q.shape
    rows = min(queries, WORKSPACE // (batch * heads * k.shape[2] * 16))
    return rows if rows >= min(queries, 64) and k.shape[1] == heads else 0


def _last(sums):
    """Return the logarithms of sums as (batch, heads, rows, 1)."""
    return sums.reshape((1,) * (3 - sums.ndim) + sums.shape + (1,))


def _matrix(array, first=0):
    """Return an array of four dimensions in C order as batched matrices, from a row on, for a product."""
    return array, first * array.shape[3], array.shape[3], False, array.shape[2] * array.shape[3]


def _turned(matrix):
    return *matrix[:3], True, matrix[4]


def _by_products(xp, plan, rows, q, k, v, result):
    """Set `result` by products of matrices for `rows` queries at a time; False where there are no such products."""
    q, k, v = map(xp.ascontiguousarray, (q, k, v))
    batch, heads, queries, width = q.shape
    keys, count, out = k.shape[2], batch * heads, result.reshape(*q.shape[:3], v.shape[3])
    scores = xp.empty((batch, heads, rows, keys), "float32")
    weights = scores if q.dtype == scores.dtype else xp.empty(scores.shape, q.dtype)
    plan.addresses.update(scores=scores.data.ptr, weights=weights.data.ptr)
    for first in range(0, queries, rows):
        some, plan.place = min(rows, queries - first), (first, rows)
        sizes = some, keys, width, count
        if not xp.products_in_place(sizes, _matrix(q, first), _turned(_matrix(k)), _matrix(scores)):
            return False
        weights_of(result, plan.packed(), blocks=(some, count))
        xp.products_in_place((some, v.shape[3], keys, count), _matrix(weights), _matrix(v), _matrix(out, first))
    return True


def _back_by_products(xp, plan, rows, q, k, v, g, grads):
    """Set the gradients of queries, keys and values so; False where there are no such products."""
    q, k, v, g = map(xp.ascontiguousarray, (q, k, v, g))
    batch, heads, queries, width = q.shape
    keys, count, several = k.shape[2], batch * heads, rows < queries
    plan.fill(g=g)
    scores, gains = (xp.empty((batch, heads, rows, keys), "float32") for _ in range(2))
    weights, slopes = scores, gains
    if q.dtype != scores.dtype:
        weights, slopes = (xp.empty(scores.shape, q.dtype) for _ in range(2))
    for name, array in (("scores", scores), ("gains", gains), ("weights", weights), ("slopes", slopes)):
        plan.addresses[name] = array.data.ptr
    dq, dk, dv = (grad.reshape(one.shape) for grad, one in zip(grads, (q, k, v)))
    if several and q.dtype.itemsize == 2:  # sums of half precision are not to be rounded on the way
        dk, dv = (xp.empty(one.shape, "float32") for one in (k, v))
    for first in range(0, queries, rows):
        some, plan.place, more = min(rows, queries - first), (first, rows), first > 0
        sizes = some, keys, width, count
        if not xp.products_in_place(sizes, _matrix(q, first), _turned(_matrix(k)), _matrix(scores)):
            return False
        xp.products_in_place((some, keys, v.shape[3], count), _matrix(g, first), _turned(_matrix(v)), _matrix(gains))
        slopes_of(grads[0], plan.packed(), blocks=(some, count))
        xp.products_in_place((some, width, keys, count), _matrix(slopes), _matrix(k), _matrix(dq, first))
        turned = _turned(_matrix(slopes)), _turned(_matrix(weights))
        xp.products_in_place((keys, width, some, count), turned[0], _matrix(q, first), _matrix(dk), more)
        xp.products_in_place((keys, v.shape[3], some, count), turned[1], _matrix(g, first), _matrix(dv), more)
    for grad, one in zip(grads[1:], (dk, dv)):
        if one.dtype != grad.dtype:
            grad[...] = one.reshape(grad.shape)
    return True


def attend(xp, query, key, value, mask, is_causal, scale):
    """Return the result, and logarithms of the sums, as bits; NotImplemented for what is not served."""
    width, views = _width(FORWARD, query, value), _views(xp, query, key, value)
    if width is None or views is None or query.itemsize == 8 or not (query.size and key.size and value.size):
        return NotImplemented
    q, k, v = views
    plan = _plan(q, k, v, mask, is_causal, scale)
    if plan is None or not query.dtype == key.dtype == value.dtype:
        return NotImplemented
    result, sums = xp.ndarray((*query.shape[:-1], value.shape[-1]), query.dtype), xp.ndarray(query.shape[:-1], INT32)
    plan.fill(out=_four(result))
    plan.addresses["sums"] = sums.data.ptr
    if _is_large(q, k, v):
        if mask is None and _cudnn.attend(xp, q, k, v, _four(result), _last(sums), is_causal, scale):
            return result, sums
        rows = _laid_out(q, k, v)
        if rows and _by_products(xp, plan, rows, q, k, v, result):
            return result, sums
    done = forward[width](result, plan.packed(), blocks=(-(-q.shape[2] // FORWARD[width]), q.shape[0] * q.shape[1]))
    return (result, sums) if done is None else done


def attend_grad(xp, g, query, key, value, mask, result, sums, is_causal, scale, needs):
    """Return the gradients of query, key and value that are needed; NotImplemented for what is not served."""
    width = _width(BACKWARD, query, value)
    if width is None or query.ndim > 4 or g.dtype != query.dtype or query.itemsize == 8:
        return NotImplemented
    if not (query.size and key.size and value.size):
        return NotImplemented
    views = _views(xp, query, key, value, g, result)
    q, k, v, g, out = views
    plan, deltas = _plan(q, k, v, mask, is_causal, scale), xp.ndarray(sums.shape, FLOAT32)
    grads = [xp.ndarray(one.shape, one.dtype) for one in (query, key, value)]
    plan.fill(g=g, out=out, **{name: _four(one) for name, one in zip(("dq", "dk", "dv"), grads)})
    plan.addresses["sums"], plan.addresses["deltas"] = sums.data.ptr, deltas.data.ptr
    if _is_large(q, k, v):
        given, rows = [_four(grad) for grad in grads], _laid_out(q, k, v)
        if mask is None and _cudnn.attend_grad(xp, (q, k, v, out, g, _last(sums)), given, is_causal, scale):
            return [grad if need else None for grad, need in zip(grads, needs)]
        if rows and _back_by_products(xp, plan, rows, q, k, v, g, grads):
            return [grad if need else None for grad, need in zip(grads, needs)]
    blocks = -(-q.shape[2] // BACKWARD[width]), q.shape[0] * q.shape[1]
    done = of_queries[width](grads[0], plan.packed(), blocks=blocks)
    if done is None and (needs[1] or needs[2]):
        blocks = -(-k.shape[2] // BACKWARD[width]), k.shape[0] * k.shape[1]
        done = of_keys[width](grads[1], plan.packed(), blocks=blocks)
    return [grad if need else None for grad, need in zip(grads, needs)] if done is None else done
