"""Reductions, scans and sorting in ONNX."""

from __future__ import annotations

import math

import plugrad
from plugrad.onnx.declaring import form
from plugrad.onnx.tracing import Size


def _reduce(g, kind, input, dim, keepdim):
    axes = g.axes(input, dim)
    return g.op(kind, input, axes, keepdims=int(keepdim)) if axes else g.op("Identity", input)


def _plain(name, kind):
    @form(name)
    def reduction_form(g, input, dim=None, keepdim=False, *, dtype=None):
        return _reduce(g, kind, g.cast(input, g.results[0].dtype), dim, keepdim)


for _name, _kind in (("sum", "ReduceSum"), ("mean", "ReduceMean"), ("prod", "ReduceProd"), ("amax", "ReduceMax"),
                     ("amin", "ReduceMin"), ("logsumexp", "ReduceLogSumExp")):  # fmt: skip
    _plain(_name, _kind)


def _truth(name, kind):
    @form(name)
    def truth_form(g, input, dim=None, keepdim=False):
        truths = g.cast(g.cast(input, plugrad.bool), plugrad.int32)
        return g.cast(_reduce(g, kind, truths, dim, keepdim), g.results[0].dtype)


_truth("any", "ReduceMax")
_truth("all", "ReduceMin")


@form("count_nonzero")
def count_nonzero_form(g, input, dim=None):
    return _reduce(g, "ReduceSum", g.cast(g.cast(input, plugrad.bool), plugrad.int64), dim, False)


@form("max_all")
def max_all_form(g, input):
    return _reduce(g, "ReduceMax", input, None, False)


@form("min_all")
def min_all_form(g, input):
    return _reduce(g, "ReduceMin", input, None, False)


def _extreme(name, kind, place):
    @form(name)
    def extreme_form(g, input, dim, keepdim=False):
        if not input.rank:
            return g.op("Identity", input), g.constant(0, plugrad.int64)
        values = _reduce(g, kind, input, dim, keepdim)
        return values, g.op(place, input, axis=dim % input.rank, keepdims=int(keepdim), dtype=plugrad.int64)

    @form(f"arg{name}")
    def place_form(g, input, dim=None, keepdim=False):
        if dim is not None and input.rank:
            return g.op(place, input, axis=dim % input.rank, keepdims=int(keepdim), dtype=plugrad.int64)
        result = g.op(place, g.reshape(input, [-1]), axis=0, keepdims=0, dtype=plugrad.int64)
        return g.reshape(result, [1] * input.rank) if keepdim else result


_extreme("max", "ReduceMax", "ArgMax")
_extreme("min", "ReduceMin", "ArgMin")


def _spread(g, input, dim, keepdim, correction):
    """Return the variance: the mean square of deviations, times count / (count - correction)."""
    axes = g.axes(input, dim)
    apart = g.op("Sub", input, g.op("ReduceMean", input, axes, keepdims=1))
    mean = g.op("ReduceMean", g.op("Mul", apart, apart), axes, keepdims=int(keepdim))
    if not correction:
        return mean
    sizes = [input.shape[axis] for axis in axes]
    if not any(isinstance(one, Size) for one in sizes):
        count = math.prod(sizes)
        return g.op("Mul", mean, count / (count - correction) if count > correction else math.nan)
    count = g.cast(g.op("ReduceProd", g.ints(sizes), keepdims=0), input.dtype)
    return g.op("Mul", mean, g.op("Div", count, g.op("Sub", count, correction)))


@form("variance")
def variance_form(g, input, dim=None, keepdim=False, *, correction=1):
    return _spread(g, input, dim, keepdim, correction)


@form("deviation")
def deviation_form(g, input, dim=None, keepdim=False, *, correction=1):
    return g.op("Sqrt", _spread(g, input, dim, keepdim, correction))


@form("linalg_vector_norm")
def vector_norm_form(g, input, ord=2, dim=None, keepdim=False, *, dtype=None):
    input = g.cast(input, g.results[0].dtype)
    if ord in (1, 2):
        return _reduce(g, f"ReduceL{ord:.0f}", input, dim, keepdim)
    size = g.shaped(g.op("Abs", input), input)
    if ord in (math.inf, -math.inf):
        return _reduce(g, "ReduceMax" if ord > 0 else "ReduceMin", size, dim, keepdim)
    if ord == 0:
        return _reduce(g, "ReduceSum", g.shaped(g.op("Sign", size), input), dim, keepdim)
    return g.op("Pow", _reduce(g, "ReduceSum", g.shaped(g.op("Pow", size, ord), input), dim, keepdim), 1 / ord)


@form("cumsum")
def cumsum_form(g, input, dim, *, dtype=None):
    return g.op("CumSum", g.cast(input, g.results[0].dtype), g.constant(dim, plugrad.int64))


@form("topk")
def topk_form(g, input, k, dim=-1, largest=True, sorted=True):
    return _top(g, input, [k], dim, largest, sorted)


def _top(g, input, k, dim, largest, sorted=True):
    values, places = g.op("TopK", input, k, axis=dim % input.rank, largest=int(largest), sorted=int(sorted), outputs=2)
    places.dtype = plugrad.int64
    return values, places


@form("sort")
def sort_form(g, input, dim=-1, descending=False, stable=False):
    return _top(g, input, [input.shape[dim]], dim, descending)


def _soft(name, kind):
    @form(name)
    def soft_form(g, input, dim, dtype=None):
        input = g.cast(input, g.results[0].dtype)
        if not input.rank:
            raise NotImplementedError("of a single number it can't be exported")
        result = g.op(kind, input, axis=dim)
        if name != "safe_softmax":
            return result
        return g.op("Where", g.op("IsNaN", result, dtype=plugrad.bool), g.constant(0, result.dtype), result,
                    dtype=result.dtype)  # fmt: skip


_soft("softmax", "Softmax")
_soft("log_softmax", "LogSoftmax")
_soft("safe_softmax", "Softmax")


def _weighted(g, kind, input, target, weight, ignore_index, reduction):
    names = {"none": "none", "mean": "mean", "sum": "sum"}
    return g.op(kind, input, target, weight, ignore_index=ignore_index, reduction=names[reduction])


@form("cross_entropy_labels")
def cross_entropy_form(g, input, target, weight, ignore_index, reduction, label_smoothing):
    if label_smoothing:
        raise NotImplementedError("label_smoothing can't be exported: export the model without the loss")
    return _weighted(g, "SoftmaxCrossEntropyLoss", input, target, weight, ignore_index, reduction)


@form("nll")
def nll_form(g, input, target, weight, ignore_index, reduction):
    return _weighted(g, "NegativeLogLikelihoodLoss", input, target, weight, ignore_index, reduction)


@form("mse")
def mse_form(g, input, target, reduction):
    apart = g.op("Sub", input, target)
    square = g.op("Mul", apart, apart)
    if reduction == "none":
        return square
    return g.op("ReduceMean" if reduction == "mean" else "ReduceSum", square, keepdims=0)
