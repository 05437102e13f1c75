"""Reductions, scans and sorting."""

from __future__ import annotations

import plugrad
from plugrad.onnx.declaring import OPERATORS, operator
from plugrad.onnx.operators.shapes import listed


def _reduction(function):
    def run(module, node, x, axes=None):
        axes = listed(node, axes)
        if not axes and node.attributes.get("noop_with_empty_axes"):
            return x
        keep = bool(node.attributes.get("keepdims", 1))
        return function(x, tuple(axes) if axes else tuple(range(x.dim())), keep)

    return run


def _product(x, axes, keep):
    for axis in sorted((one % x.dim() for one in axes), reverse=True):
        x = plugrad.prod(x, axis, keepdim=keep)
    return x


OPERATORS.update(
    ReduceSum=_reduction(lambda x, axes, keep: plugrad.sum(x, axes, keep, dtype=x.dtype)),
    ReduceMean=_reduction(plugrad.mean), ReduceMax=_reduction(plugrad.amax), ReduceMin=_reduction(plugrad.amin),
    ReduceProd=_reduction(_product), ReduceLogSumExp=_reduction(plugrad.logsumexp),
    ReduceL1=_reduction(lambda x, axes, keep: plugrad.linalg.vector_norm(x, 1, axes, keep)),
    ReduceL2=_reduction(lambda x, axes, keep: plugrad.linalg.vector_norm(x, 2, axes, keep)),
    ReduceSumSquare=_reduction(lambda x, axes, keep: plugrad.sum(x * x, axes, keep)),
    ReduceLogSum=_reduction(lambda x, axes, keep: plugrad.log(plugrad.sum(x, axes, keep))),
)  # fmt: skip


def _place(function):
    def run(module, node, x):
        axis, keep = node.attributes.get("axis", 0), bool(node.attributes.get("keepdims", 1))
        return function(x, axis, keep)

    return run


OPERATORS.update(ArgMax=_place(plugrad.argmax), ArgMin=_place(plugrad.argmin))


@operator("CumSum")
def cumsum(module, node, x, axis):
    if node.attributes.get("reverse") or node.attributes.get("exclusive"):
        raise NotImplementedError("CumSum in reverse or exclusive is not there")
    return plugrad.cumsum(x, int(axis), dtype=x.dtype)


@operator("TopK")
def topk(module, node, x, k):
    axis, largest = node.attributes.get("axis", -1), bool(node.attributes.get("largest", 1))
    return tuple(plugrad.topk(x, int(k), axis, largest, bool(node.attributes.get("sorted", 1))))
