"""The analytic side of a gradient check: what backward says, for a choice of gradients of the outputs."""

from __future__ import annotations

import copy

import numpy

import plugrad
from plugrad.testing.gradients.verdict import FAIL, INCONCLUSIVE, PASS, Verdict
from plugrad.testing.tensors import like, reals

ALL_OUTPUTS = 64  # up to so many output elements each is looked at on its own
SAMPLED = 12  # else so many
AGAIN = 4  # times that backward runs once more, to see whether it counts its calls
NEARBY = 8  # points at which backward's rounding is measured
CAPTURED = (
    "func uses an input through its closure, which cannot be measured for this dtype or layout; use the argument "
    "that func is given, or float64 leaves"
)


class Backward:
    """The analytic side: outputs, and gradients (rows of `gradient`) for a choice of `cotangents`.

    Without `runs` backward is never called, since only forward mode is asked for: there may be none.
    """

    def __init__(self, flat, random, fast, one_by_one, runs=True):
        self.flat, self.random = flat, random
        self.outputs = flat.forward()
        self.sizes = [y.numel() * (2 if y.dtype.is_complex else 1) for y in self.outputs]
        self.ends = numpy.cumsum([0, *self.sizes])
        self.differentiable = runs and any(y.requires_grad for y in self.outputs)
        self.value = numpy.concatenate([reals(y) for y in self.outputs] or [numpy.zeros(0)])
        self.one_by_one = one_by_one
        self.cotangents, self.labels = self._choose(fast)
        self.grads = None
        self.gradient = numpy.array([self._pull(row, label) for row, label in zip(self.cotangents, self.labels)])

    def _choose(self, fast):
        """Dense random cotangents, which see everything at once, and single output elements."""
        total, finite = len(self.value), numpy.isfinite(self.value)
        alone = numpy.flatnonzero(finite)
        limit, several = (4, 1) if fast else (ALL_OUTPUTS, SAMPLED)
        dense = 1 if len(alone) <= limit else 3
        if len(alone) > limit:
            alone = numpy.sort(self.random.choice(alone, several, replace=False))
        sizes = numpy.abs(self.value[finite])
        typical = (float(numpy.median(sizes)) if sizes.size else 0.0) or 1.0
        weights = self.random.uniform(0.5, 1.5, (dense, total)) * self.random.choice([-1.0, 1.0], (dense, total))
        weights /= numpy.sqrt((self.value / typical) ** 2 + 0.01)  # outputs of all sizes have a say
        weights[:, ~finite] = 0.0
        single = numpy.zeros((len(alone), total))
        single[numpy.arange(len(alone)), alone] = 1.0
        return numpy.concatenate([weights, single]), [None] * dense + [int(i) for i in alone]

    def add_output(self, element):
        """Look at one more output element on its own."""
        row = numpy.zeros(len(self.value))
        row[element] = 1.0
        self.cotangents = numpy.concatenate([self.cotangents, row[None]])
        self.gradient = numpy.concatenate([self.gradient, self._pull(row, element)[None]])
        self.labels.append(element)

    def _cotangent(self, row, number, spaced):
        y = self.outputs[number]
        cotangent = like(y, row[self.ends[number] : self.ends[number + 1]]).to(y.dtype)
        return plugrad.stack([cotangent, cotangent], -1)[..., 1] if spaced else cotangent

    def _pull(self, row, label=None, spaced=False):
        if not self.differentiable:
            return numpy.zeros(len(self.flat.start))
        chosen = range(len(self.outputs))
        if label is not None and self.one_by_one:  # the other outputs' gradients stay undefined
            chosen = [int(numpy.searchsorted(self.ends, label, side="right")) - 1]
        pieces = [(self.outputs[i], self._cotangent(row, i, spaced)) for i in chosen]
        pieces = [(y, g) for y, g in pieces if y.requires_grad]
        if not pieces:
            return numpy.zeros(len(self.flat.start))
        outputs, cotangents = zip(*pieces, strict=True)
        flat, grads = self.flat.pull(list(outputs), list(cotangents))
        if label is None:
            self.grads = grads
        return flat

    def sound(self, nondet_tol, check_dtypes) -> Verdict:
        """Check what needs no measurement: same answers twice, linear in the cotangent, shapes and dtypes."""
        if not self.differentiable or not len(self.value) or not len(self.flat.start):
            return Verdict(PASS)
        again = [self._pull(self.cotangents[0]) for _ in range(AGAIN)]
        if not all(same(gradient, self.gradient[0], nondet_tol) for gradient in again):
            return Verdict(
                FAIL,
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                "times gives different values; write into new tensors, seed what is random, or raise "
                f"nondet_tol={nondet_tol}",
            )
        if numpy.isfinite(self.gradient[0]).all() and numpy.any(self._pull(numpy.zeros_like(self.value))):
            return Verdict(FAIL, "backward not multiplied by grad_output: it gives something for a zero gradient")
        spaced = self._pull(self.cotangents[0], spaced=True)
        allowed = 1e4 * self._rounding(self.gradient[0]) + nondet_tol
        if numpy.isfinite(self.gradient[0]).all() and not same(spaced, self.gradient[0], allowed):
            return Verdict(FAIL, "backward gives something else for a grad_output that is not contiguous")
        if self.one_by_one and len(self.sizes) > 1 and (number := self._undefined_differs()) is not None:
            text = f"backward gives something else when only output {number} has a gradient"
            return Verdict(FAIL, text + " than with zeros for the others")
        for leaf, g in zip(self.flat.leaves, self.grads, strict=True):
            if check_dtypes and g is not None and g.dtype != leaf.tensor.dtype:
                return Verdict(
                    FAIL,
                    f"grad is incorrect type: {g.dtype} for input {leaf.label} of {leaf.tensor.dtype}",
                    input=leaf.label,
                )
        if not self.flat.low and self.flat.captured(self.grads):
            return Verdict(INCONCLUSIVE, CAPTURED)
        return Verdict(PASS)

    def _undefined_differs(self):
        """Return the number of an output whose gradient alone is worth something else than with zeros beside it."""
        for number, (first, last) in enumerate(zip(self.ends, self.ends[1:], strict=False)):
            if first == last:
                continue
            row = numpy.zeros(len(self.value))
            row[first:last] = self.cotangents[0][first:last]
            alone, among = self._pull(row, int(first)), self._pull(row, None)
            if not same(alone, among, self._rounding(among)) and numpy.isfinite(among).all():
                return number
        return None

    def _rounding(self, gradient) -> float:
        """Return by how much gradients that are the same may differ, when parts of them are summed otherwise."""
        return 1e-12 * max(1.0, self.flat.epsilon / 2.0**-52) * numpy.abs(gradient).max(initial=0.0)

    def pulled(self, rows, labels) -> numpy.ndarray:
        """Return the gradients for other cotangents."""
        return numpy.array([self._pull(row, label) for row, label in zip(rows, labels, strict=True)])

    def elsewhere(self, point, rows, labels) -> numpy.ndarray:
        """Return the gradients for some cotangents at another point."""
        there, start = copy.copy(self), self.flat.start
        in_place = all(leaf.memory is not None for leaf in self.flat.leaves)
        if in_place:
            self.flat.move(point)
        else:
            there.flat = self.flat.at(point)
        try:
            there.outputs = there.flat.forward()
            return there.pulled(rows, labels)
        finally:
            if in_place:
                self.flat.move(start)

    def spread(self, rows, labels, epsilon) -> numpy.ndarray:
        """Return how far gradients move when the inputs change by a few roundings: how well backward knows them."""
        random, start = numpy.random.default_rng(0), self.flat.start
        least = most = self.pulled(rows, labels)
        for _ in range(NEARBY):
            noise = 4 * epsilon * random.uniform(-1, 1, start.shape) * numpy.abs(start)
            there = self.elsewhere(start + noise, rows, labels)
            least, most = numpy.fmin(least, there), numpy.fmax(most, there)
        return 2 * (most - least)


def natural_steps(flat) -> numpy.ndarray:
    """Return the natural step size of each coordinate of a flat."""
    return numpy.concatenate([_scale(flat.start[leaf.span]) for leaf in flat.leaves])


def _scale(x):
    """Natural step sizes: the size of each element, less if it is large, more if it is tiny."""
    finite = numpy.where(numpy.isfinite(x), numpy.abs(x), 0.0)
    typical = float(numpy.sqrt(numpy.mean(finite**2))) if finite.size else 0.0
    least = min(max(0.1 * typical, 1e-3), 1.0) if typical else 1.0
    large = numpy.maximum(numpy.sqrt(finite), 1e-4 * finite)
    return numpy.where(finite > 1, large, numpy.maximum(finite, least))


def same(one, other, tolerance) -> bool:
    return bool(numpy.all((one == other) | (numpy.abs(one - other) <= tolerance) | ((one != one) & (other != other))))
