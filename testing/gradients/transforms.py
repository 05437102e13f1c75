"""Backward under `vmap`, and forward mode: the checks of `gradcheck` beyond backward itself."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.testing.gradients.jacobian import Comparison
from plugrad.testing.gradients.verdict import FAIL, PASS, Verdict
from plugrad.testing.tensors import like, reals

BATCH = 2


class ForwardComparison(Comparison):
    """Measured slopes against `func.jvp`, which gives the derivative along a direction by two reverse passes."""

    mode = "forward mode"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.call, self.primals = self.flat.of_leaves()

    def _expected(self, coordinates, amounts):
        direction = numpy.zeros(len(self.flat.start))
        direction[coordinates] = amounts
        self.flat.restore()
        along = numpy.concatenate([reals(y) for y in self._jvp(direction)])
        if self.backward.differentiable:
            terms = numpy.abs(self.backward.gradient[:, coordinates]) @ numpy.abs(amounts)
        else:
            terms = numpy.abs(self.backward.cotangents) @ numpy.where(self.finite, numpy.abs(along), 0.0)
        return self._project(along), terms

    def _jvp(self, direction):
        tangents = _tangents(self.flat, direction)
        return plugrad.func.jvp(self.call, self.primals, tangents)[1]


def _tangents(flat, direction):
    return tuple(like(leaf.tensor, direction[leaf.span]).to(leaf.tensor.dtype) for leaf in flat.leaves)


def batched_backward(backward, nondet_tol) -> Verdict:
    """Check that `vmap` over backward gives what one backward at a time gives.

    The gradients of the outputs lie transposed in memory, so that those of matrices are not contiguous.
    """
    outputs = [y for y in backward.outputs if y.requires_grad]
    if not outputs:
        return Verdict(PASS)
    leaves = [leaf.tensor for leaf in backward.flat.leaves]
    random = numpy.random.default_rng(0)
    shapes = [(BATCH, *y.shape[::-1]) for y in outputs]
    weights = [
        plugrad.from_numpy(random.uniform(-1.0, 1.0, shape).T).to(y.device, y.dtype)
        for y, shape in zip(outputs, shapes, strict=True)
    ]

    def pull(*grads):
        grads_of_leaves = plugrad.autograd.grad(outputs, leaves, list(grads), retain_graph=True, allow_unused=True)
        return tuple(plugrad.zeros_like(x) if g is None else g for x, g in zip(leaves, grads_of_leaves, strict=True))

    try:
        batched = plugrad.func.vmap(pull, in_dims=-1)(*weights)
    except RuntimeError as error:
        return Verdict(FAIL, f"While computing batched gradients, got: {error}")
    alone = [pull(*(w[..., i].contiguous() for w in weights)) for i in range(BATCH)]
    for number, leaf in enumerate(backward.flat.leaves):
        together = [batched[number][i] for i in range(BATCH)]
        if not all(_alike(one, other[number], nondet_tol) for one, other in zip(together, alone, strict=True)):
            text = f"the gradient for input {leaf.label} under vmap over grad_outputs is not what single calls give"
            return Verdict(FAIL, f"While computing batched gradients: {text}", input=leaf.label)
    return Verdict(PASS)


def batched_forward(comparison, nondet_tol) -> Verdict:
    """Check that `vmap` over forward mode gives what one direction at a time gives."""
    flat = comparison.flat
    random = numpy.random.default_rng(0)
    directions = [random.uniform(-1.0, 1.0, len(flat.start)) for _ in range(BATCH)]
    tangents = [_tangents(flat, direction) for direction in directions]
    stacked = [plugrad.stack(parts) for parts in zip(*tangents, strict=True)]

    def push(*along):
        return tuple(plugrad.func.jvp(comparison.call, comparison.primals, along)[1])

    try:
        batched = plugrad.func.vmap(push)(*stacked)
    except RuntimeError as error:
        return Verdict(FAIL, f"While computing batched forward gradients, got: {error}")
    for i, along in enumerate(tangents):
        for together, alone in zip(batched, push(*along), strict=True):
            if not _alike(together[i], alone, nondet_tol):
                return Verdict(FAIL, "vmap over tangents of forward mode gives other results than single calls")
    return Verdict(PASS)


def _alike(one, other, nondet_tol) -> bool:
    one, other = reals(one), reals(other)
    epsilon = plugrad.finfo(plugrad.float64).eps
    scale = numpy.abs(other).max(initial=0.0, where=numpy.isfinite(other))
    same = (numpy.abs(one - other) <= nondet_tol + 1e4 * epsilon * scale) | (one == other)
    return bool((same | (numpy.isnan(one) & numpy.isnan(other))).all())
