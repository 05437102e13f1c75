"""The measured side of a gradient check, and its comparison with what backward says.

Small functions are looked at element by element. Large ones are looked at along random dense directions,
each within one input: a right gradient agrees there to ten digits, so that even one wrong element among tens
of thousands shows; it is then found by halving the direction, and judged on its own.
"""

from __future__ import annotations

import numpy

import plugrad
from plugrad.testing.gradients import differences
from plugrad.testing.gradients.backward import SAMPLED, natural_steps, same
from plugrad.testing.gradients.differences import TRUST
from plugrad.testing.gradients.verdict import FAIL, INCONCLUSIVE, NONDIFFERENTIABLE, PASS, Verdict, worse

CERTAIN = 10 * TRUST  # a mismatch of so many error bars is no accident of the measurement
KEPT = 4096  # values of so many numbers are kept while a direction is investigated
ALL_COORDINATES = 96  # up to so many elements of an input each is looked at on its own


class Comparison:
    """The measured side, and the comparison of the two."""

    mode = "backward"

    def __init__(self, backward, tolerance, eps, fast):
        self.backward, self.tolerance, self.fast = backward, tolerance, fast
        self.flat = flat = backward.flat
        self.scale = natural_steps(flat)
        if eps is not None:
            self.scale = numpy.full_like(self.scale, eps / differences.STEP)
        self.finite = numpy.isfinite(backward.value)
        self.repeated = False  # whether values may be reused: not where each has noise of its own
        self.seen = {}  # the values on the way along the direction that is investigated: several questions ask for them
        self.tangled = False  # whether a direction met several kinks, so that nothing can be said of its slope
        terms = numpy.abs(backward.gradient * self.scale)
        self.steepest = float(terms.max(initial=0.0, where=numpy.isfinite(terms)))

    def verdict(self, nondet_tol) -> Verdict:
        """Measure along all directions, and return the worst verdict; the first FAIL ends it."""
        self.repeated = nondet_tol == 0
        unfit = self._take_base(nondet_tol)
        if unfit is not None:
            return unfit
        directions = [direction for leaf in self.flat.leaves for direction in self._directions(leaf)]
        worst = Verdict(PASS)
        for direction, settled in zip(directions, self._screen(directions), strict=True):
            if not settled:
                self.seen.clear()
                worst = worse(worst, self._investigate(*direction))
                if worst.status == FAIL:
                    break
        return worst

    def _take_base(self, nondet_tol):
        """Evaluate at the inputs themselves; return a verdict if that shows that nothing can be measured."""
        flat, expected = self.flat, self.backward.value
        value, dtypes = flat.value(flat.start)
        if value.shape != expected.shape or not same(value, flat.value(flat.start)[0], nondet_tol):
            return Verdict(
                INCONCLUSIVE,
                "func gives different results when it is called twice with the same inputs; seed its random numbers",
            )
        if not self.finite.any() and value.size:
            return Verdict(INCONCLUSIVE, "no output of func is finite at these inputs")
        epsilon = numpy.repeat([plugrad.finfo(dtype).eps for dtype in dtypes], self.backward.sizes)
        apart = numpy.abs(value - expected)[self.finite]
        allowed = 1e4 * max(flat.epsilon, epsilon.max(initial=0.0)) + nondet_tol
        if apart.size and apart.max() > allowed * (1 + numpy.abs(expected[self.finite]).max()):
            return Verdict(INCONCLUSIVE, "func gives another result under no_grad than with grad")
        self.at_base, self.epsilon = value, epsilon
        if epsilon.max(initial=0.0) > 1e-10:  # outputs stay in low precision: only long steps rise above it
            self.scale = 32 * self.scale
            self.tolerance.visible = max(self.tolerance.visible, 64 * float(epsilon.max()))
        self._set_base()
        return None

    def _set_base(self):
        """Project what is known of the values at the inputs on the cotangents."""
        weights, sizes = (
            numpy.abs(self.backward.cotangents),
            numpy.where(self.finite, numpy.abs(self.at_base), 0.0),
        )
        self.base = self._project(self.at_base)
        self.size = weights @ sizes
        self.rounding = 2 * weights @ (self.epsilon * sizes)
        largest = numpy.abs(self.flat.start).max(initial=0.0)
        self.floor = 64 * 2.0**-52 * largest * weights.max(axis=1, initial=0.0)  # of sums of such numbers that cancel

    def _project(self, value):
        return self.backward.cotangents @ numpy.where(self.finite, value, 0.0)

    def _directions(self, leaf):
        """Yield directions within a leaf: its coordinates, and the step along each of them."""
        random, count = self.backward.random, leaf.span.stop - leaf.span.start
        everything = numpy.arange(leaf.span.start, leaf.span.stop)
        limit, dense, sampled = (8, 2, 2) if self.fast else (ALL_COORDINATES, 3, SAMPLED)
        if count > limit:
            known = everything  # nan of outputs that are left out would hide all the rest of a sum
            if not self.finite.all():
                known = everything[~numpy.isnan(self.backward.gradient[:, everything]).any(axis=0)]
            for _ in range(dense if len(known) else 0):
                signs = random.choice([-1.0, 1.0], len(known))
                yield leaf, known, random.uniform(0.5, 1.5, len(known)) * signs * self.scale[known]
            everything = numpy.sort(random.choice(everything, sampled, replace=False))
        for coordinate in everything:
            yield leaf, numpy.array([coordinate]), self.scale[coordinate : coordinate + 1]

    def _value(self, coordinates, amounts, step):
        """Return the outputs a step along a direction, all nan where there are none."""
        place = coordinates.tobytes(), amounts.tobytes(), float(step)
        if (value := self.seen.get(place)) is not None:
            return value
        point = self.flat.start.copy()
        point[coordinates] += step * amounts
        try:
            value = self.flat.value(point, self.repeated)[0]
        except Exception:  # outside its domain func may raise whatever it likes: such a step says nothing
            value = None
        if value is None or value.shape != self.finite.shape:
            value = numpy.full(self.finite.shape, numpy.nan)
        if self.repeated and len(value) + len(amounts) <= KEPT:
            self.seen[place] = value
        return value

    def _probe(self, coordinates, amounts):
        """Return the function of a step along a direction that `differences` measures."""
        return lambda step: self._project(self._value(coordinates, amounts, step))

    def _expected(self, coordinates, amounts):
        """Return the slopes that backward promises along a direction, and the sum of their terms' sizes."""
        terms = self.backward.gradient[:, coordinates]
        return terms @ amounts, numpy.abs(terms) @ numpy.abs(amounts)

    def _screen(self, directions):
        """Return which directions agree so well with two step sizes that there is nothing to investigate.

        The narrow one alone will do where the function is straight, as every gradient is in what arrives at it.
        """
        if not directions:
            return []
        wide, narrow = differences.steps(2)
        near, far = numpy.empty((2, len(directions), 2, len(self.base)))
        expected = numpy.empty((2, len(directions), len(self.base)))
        limits = numpy.empty((len(directions), 1))
        for row, (_, coordinates, amounts) in enumerate(directions):
            near[row] = self._both_ways(coordinates, amounts, narrow)
            expected[:, row] = self._expected(coordinates, amounts)
            limits[row] = self._screen_limit(len(coordinates))
        blur = TRUST * self.rounding / narrow
        allowed = limits * expected[1] + blur
        known = blur <= self.tolerance.needed(expected[1], expected[1], self.size)
        fine = (near[:, 0] - near[:, 1]) / (2 * narrow)
        gap = numpy.abs(near[:, 0] + near[:, 1] - 2 * self.base) / narrow
        straight = gap <= 1e-7 * expected[1] + 10 * blur
        settled = (known & straight & (numpy.abs(fine - expected[0]) <= allowed)).all(axis=1)
        rest = numpy.flatnonzero(~settled)
        for row in rest:
            far[row] = self._both_ways(*directions[row][1:], wide)
        coarse = (far[rest, 0] - far[rest, 1]) / (2 * wide)
        slope = fine[rest] + (fine[rest] - coarse) / (differences.RATIO**2 - 1)
        agrees = numpy.abs(slope - expected[0, rest]) <= allowed[rest]
        wide_gap = numpy.abs(far[rest, 0] + far[rest, 1] - 2 * self.base) / wide
        smooth = straight[rest] | (gap[rest] <= wide_gap / 2)
        settled[rest] = (agrees & smooth & known[rest]).all(axis=1)
        return settled

    def _both_ways(self, coordinates, amounts, step):
        """Return the projected values a step along a direction, and back."""
        self.seen.clear()
        probe = self._probe(coordinates, amounts)
        return probe(step), probe(-step)

    def _screen_limit(self, count):
        relative = self.tolerance.relative
        return relative / 4 if count == 1 else min(relative / 4, 1e-8, 5e-6 / count)

    def _measure(self, coordinates, amounts):
        """Return the slopes along a direction, which of them are suspect, and how much."""
        probe, alone = self._probe(coordinates, amounts), len(coordinates) == 1
        slopes = differences.measure(probe, self.base, self.rounding, self.floor, far=alone)
        expected, size = self._expected(coordinates, amounts)
        apart = numpy.abs(slopes.value - expected) - TRUST * slopes.error
        suspect = ~(apart <= self._screen_limit(len(coordinates)) * size) | slopes.kink
        scores = numpy.where(slopes.kink, numpy.inf, apart / numpy.maximum(size, 1e-300))
        return slopes, suspect, numpy.nan_to_num(scores, nan=numpy.inf, posinf=1e300)

    def _investigate(self, leaf, coordinates, amounts) -> Verdict:
        """Measure a direction properly; narrow a dense one down to the coordinate that disagrees most."""
        if len(coordinates) == 1:
            return self._judge_element(leaf, coordinates, amounts)
        slopes, suspect, _ = self._measure(coordinates, amounts)
        whole = self._judge(leaf, coordinates, amounts, slopes)
        if not suspect.any():
            return whole
        straight = suspect & ~slopes.kink
        followed = straight if straight.any() else suspect
        while len(coordinates) > 1:
            half = len(coordinates) // 2
            parts = [(coordinates[:half], amounts[:half]), (coordinates[half:], amounts[half:])]
            measured = [self._measure(*part) for part in parts]
            if (straight & self._bends(coordinates, amounts, slopes, measured[0][0], measured[1][0])).any():
                self.tangled = True
                text = f"not differentiable with respect to input {leaf.label}: the slopes along two directions do not "
                return Verdict(NONDIFFERENTIABLE, text + "add up to that along their sum", input=leaf.label)
            larger = int(measured[1][2][followed].max() > measured[0][2][followed].max())
            (coordinates, amounts), slopes = parts[larger], measured[larger][0]
        return worse(self._investigate(leaf, coordinates, amounts), whole)

    def _bends(self, coordinates, amounts, whole, one, other):
        """Where a mismatch comes with kinks along the halves of its direction, or with slopes that do not add up: the
        median of three equal numbers has both."""
        apart = numpy.abs(whole.value - self._expected(coordinates, amounts)[0])
        gap = numpy.abs(one.value + other.value - whole.value)
        blur = 3 * TRUST * (whole.error + one.error + other.error) + 1e-6 * numpy.abs(whole.value)
        return one.kink | other.kink | ((apart > blur) & (gap > blur + 0.1 * apart))

    def _judge_element(self, leaf, coordinates, amounts) -> Verdict:
        """Return the verdict on one coordinate, told for one output element wherever possible."""
        verdict = self._judge(leaf, coordinates, amounts, self._measure(coordinates, amounts)[0])
        distance = numpy.abs(self.flat.start[coordinates])
        if verdict.status != PASS and 0 < distance[0] < amounts[0]:  # close to a singularity at 0, perhaps
            self.scale[coordinates] = amounts = distance
            verdict = self._judge(leaf, coordinates, amounts, self._measure(coordinates, amounts)[0])
        if verdict.status in (FAIL, NONDIFFERENTIABLE) and len(self.backward.labels) < len(self.finite):
            values = [self._value(coordinates, amounts, step) for step in (-differences.STEP, differences.STEP)]
            change = numpy.nan_to_num(numpy.abs(values[1] - values[0]), nan=0.0, posinf=0.0)
            self.flat.restore()  # backward reads what was saved of the inputs
            self.backward.add_output(int(change.argmax()))
            self._set_base()
            single = self._judge(leaf, coordinates, amounts, self._measure(coordinates, amounts)[0])
            verdict = single if single.status in (FAIL, verdict.status) else verdict
        return verdict

    def _judge(self, leaf, coordinates, amounts, slopes) -> Verdict:
        """Return the verdict on one direction, the worst over all cotangents."""
        expected, row = self._expected(coordinates, amounts)
        if len(coordinates) == 1:
            largest = numpy.fmax(numpy.abs(slopes.value), numpy.abs(expected))
            terms = numpy.abs(self.backward.gradient[:, leaf.span] * self.scale[leaf.span])
            row = numpy.where(numpy.isfinite(terms), terms, 0.0).max(axis=1)
        else:
            largest = row
        allowed = self.tolerance.allowed(largest, row, self.size, amounts[0] if len(coordinates) == 1 else 1.0)
        allowed += self.tolerance.of_all * self.steepest + numpy.where(numpy.abs(slopes.value) < 1e-30, 1e-15, 0.0)
        allowed += self.tolerance.of_bend * slopes.bend * self._reach(coordinates, amounts)
        blur = TRUST * slopes.error
        unknown = slopes.edge & ~(blur <= 0.1 * numpy.abs(slopes.value))
        unknown |= ~self.finite.all() & numpy.isnan(expected)  # 0 * nan, of an output that is left out
        wrong = ~(numpy.abs(slopes.value - expected) <= allowed + blur) & ~unknown
        kink = slopes.kink | self._blows_up(slopes, expected)
        inside = ~numpy.isfinite(expected) | (
            (expected >= numpy.fmin(slopes.left, slopes.right) - allowed - 1e-3 * row)
            & (expected <= numpy.fmax(slopes.left, slopes.right) + allowed + 1e-3 * row)
        )
        inside |= slopes.jump
        if kink.any():  # where several meet backward may give more than the slopes left and right, and errors hide
            single = len(coordinates) == 1
            alone = numpy.array([single and (i is not None or len(self.finite) == 1) for i in self.backward.labels])
            self.tangled |= bool((kink & ~alone).any())
            inside |= ~alone
        outside = kink & ~inside
        failed, drowned = wrong & ~kink, numpy.zeros(len(wrong), bool)
        if failed.any() or outside.any():
            slopes, failed, drowned = self._confirm(coordinates, amounts, failed | outside, expected, allowed)
            blur, kink = TRUST * slopes.error, kink & (slopes.kink | ~outside)
            failed, outside = failed & ~kink, outside & kink
        vague = unknown | ~(blur <= numpy.maximum(allowed, self.tolerance.needed(largest, row, self.size)))
        vague &= (slopes.value != 0) | (expected != 0)  # locally constant, and known to be
        vague &= numpy.maximum(blur, largest) > 1e-10  # nothing but noise on both sides
        vague &= numpy.maximum(blur, largest) > 1e-9 * self.steepest  # nothing beside the gradient elsewhere
        vague |= drowned
        verdict = Verdict(PASS)
        for status, where in (
            (FAIL, failed | outside),
            (INCONCLUSIVE, vague & ~kink),
            (NONDIFFERENTIABLE, kink),
        ):
            if where.any():
                k = int(numpy.flatnonzero(where)[-1])  # single output elements come last, and tell more
                verdict = self._tell(status, leaf, coordinates, amounts, k, slopes, expected[k], bool(kink[k]))
                break
        return verdict

    def _confirm(self, coordinates, amounts, failed, expected, allowed) -> tuple:
        """Look at mismatches once more, with the noise of the values and of backward measured at more points.

        Returns the slopes, which mismatches remain, and which rounding or a wide error bar may explain.
        """
        probe, alone = self._probe(coordinates, amounts), len(coordinates) == 1
        noise = numpy.maximum(self.rounding, differences.scatter(probe, numpy.random.default_rng(0), far=alone))
        better = differences.measure(probe, self.base, noise, self.floor, far=alone)
        apart = numpy.abs(better.value - expected)
        excess = apart - allowed - TRUST * better.error
        rows = numpy.flatnonzero(failed & ~(excess <= 0))
        faint = (excess <= self.floor) | (apart <= CERTAIN * better.error)
        if (failed & ~faint).any():
            faint |= differences.beside_pole(probe, better.value, expected)
            if alone:
                faint |= differences.frozen(probe, better.value, expected)
        self.flat.restore()  # backward reads what was saved of the inputs
        for some in (rows[~faint[rows]][-2:], rows):  # two clear ones at first: one that remains is enough
            if len(some):
                labels = [self.backward.labels[k] for k in some]
                known = self.backward.spread(self.backward.cotangents[some], labels, 2.0**-52)
                some = some[~(excess[some] <= known[:, coordinates] @ numpy.abs(amounts))]
            if len(some):
                break
        confirmed = numpy.isin(numpy.arange(len(failed)), some)
        return better, confirmed & ~faint, confirmed & faint

    @staticmethod
    def _blows_up(slopes, expected):
        """Where a slope grows without bound and backward says so (the root at 0), or makes nan of 0 * inf."""
        steep = (numpy.isinf(expected) & ((slopes.left == expected) | (slopes.right == expected))).any()
        steep |= bool((numpy.isinf(slopes.left) | numpy.isinf(slopes.right)).any())
        return steep & ~numpy.isfinite(expected)

    def _reach(self, coordinates, amounts):
        """Return how far, in steps of the direction, the rounding of the inputs themselves would reach."""
        return float(numpy.abs(self.flat.start[coordinates] / amounts).max(initial=1.0))

    def _tell(self, status, leaf, coordinates, amounts, k, slopes, analytic, kink) -> Verdict:
        """Word a verdict on one direction and one cotangent."""
        single = len(coordinates) == 1
        unit = float(amounts[0]) if single else 1.0
        analytic = float(analytic) / unit
        numeric, error = float(slopes.value[k]) / unit, TRUST * float(slopes.error[k]) / abs(unit)
        element, where = None, "along a random direction"
        if single:
            position = int(coordinates[0]) - leaf.span.start
            element = leaf.name(position)
            part = ("real part", "imaginary part")[position % 2] + " of " if leaf.tensor.dtype.is_complex else ""
            where = f"at {part}element {element}"
        output, cotangent = self._name_output(self.backward.labels[k])
        place = f"for output {output} with respect to input {leaf.label} {where}{cotangent}"
        if kink:
            numeric = (float(slopes.left[k]) / unit, float(slopes.right[k]) / unit)
            text = f"slope {numeric[0]:.6g} on the left, {numeric[1]:.6g} on the right, {self.mode} gives "
            text += f"{analytic:.6g}"
            text = f"not differentiable {place}: {text}" + (", not in between" if status == FAIL else "")
        elif status == INCONCLUSIVE:
            text = f"cannot measure the slope {place}: {numeric:.6g} +- {error:.1g}, {self.mode} gives "
            text += f"{analytic:.6g}"
        elif not self.backward.differentiable and self.mode == "backward":
            text = f"Numerical gradient for function expected to be zero {place}: no output requires grad, "
            text += f"yet the measured slope is {numeric:.10g}; is something detached?"
        else:
            how = "" if self.mode == "backward" else " computed with forward mode"
            text = f"Jacobian{how} mismatch {place}: numerical {numeric:.10g} +- {error:.1g}, analytical "
            text += f"{analytic:.10g}" + " in forward mode" * (self.mode != "backward") + _hint(numeric, analytic)
        return Verdict(status, text, input=leaf.label, element=element, numeric=numeric, analytic=analytic)

    def _name_output(self, label):
        if label is None:
            return "all" if len(self.backward.sizes) > 1 else 0, " (random grad_output)"
        number = int(numpy.searchsorted(self.backward.ends, label, side="right")) - 1
        y, position = self.backward.outputs[number], label - int(self.backward.ends[number])
        part = ""
        if y.dtype.is_complex:
            position, part = position // 2, (" real", " imaginary")[position % 2]
        index = tuple(int(i) for i in numpy.unravel_index(position, tuple(y.shape)))
        return number, f" (output element {index}{part})"


def _hint(numeric, analytic) -> str:
    """Say what kind of mistake a wrong number looks like."""
    if analytic == 0:
        return "; nothing arrives: is a term missing, or a tensor detached?"
    if numeric == 0:
        return "; the function does not depend on it"
    if not numpy.isfinite(analytic):
        return ""
    if abs(numeric + analytic) <= 1e-3 * abs(numeric):
        return "; the sign is flipped"
    return f"; off by a factor of {analytic / numeric:.6g}"
