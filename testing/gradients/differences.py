"""Slopes measured from values alone, each with an honest error bar.

Nothing here knows tensors: a *probe* maps a step ``t`` along some direction to a vector of values, and
:func:`measure` says how steep each of them is at ``t = 0``, how well that is known, and whether the left and
the right slope differ for good (a kink).

Central differences at steps shrinking by a constant ratio are combined by Richardson's extrapolation, and
the entry of the table whose neighbours agree best is taken (C. J. F. Ridders, "Accurate computation of
F'(x) and F'(x) F''(x)", Advances in Engineering Software 4, 1982). A step that leaves the domain
yields nan and simply drops out; where a whole side does, one-sided differences take over.
"""

from __future__ import annotations

import numpy

STEP = 2.0**-7  # the largest step, in units of the direction
RATIO = 14.0**0.5  # each next step is this much smaller; irrational, so that steps never fit a lattice of jumps
SHORT, LONG = 6, 14  # steps tried at first, and when those do not settle the matter (down to 1e-10)
DEPTH = 4  # how many times a table is extrapolated: further columns only amplify rounding
NEARBY, FAR = 8, 24  # points on each side at which noise is looked for once more, close by and as far as steps go
GROWTH = 4.0  # a gap that grows by more over its six steps is not a kink: a cusp, a jump, or rounding
TRUST = 5.0  # an error bar is believed up to this factor


class Slopes:
    """What :func:`measure` returns, one entry per value of the probe.

    Attributes: `value` and `error` of the slope; the `left` and the `right` slope; `kink`, whether those
    differ for good; `jump`, whether the value does; `edge`, whether one side was outside the domain; `bend`,
    the size of the second derivative, about.
    """

    __slots__ = ("value", "error", "left", "right", "kink", "jump", "edge", "bend")

    def __init__(self, **columns):
        for name, values in columns.items():
            setattr(self, name, values)


def steps(count: int) -> numpy.ndarray:
    """The `count` largest step sizes."""
    return STEP * RATIO ** -numpy.arange(count)


def measure(probe, base, rounding, floor=0.0, far=False) -> Slopes:
    """Measure the slopes of `probe` at 0.

    Args:
        probe: function of a step ``t`` to a float64 vector; nan where undefined.
        base: ``probe(0)``.
        rounding: the rounding to expect in each value, at least.
        floor: the rounding that a value may hold at most; a jump has to be larger.
        far: whether the noise of what looks like a kink is looked for at long steps as well, see `scatter`.
    """
    count = SHORT
    values = _ladder(probe, steps(count))
    noise = numpy.maximum(rounding, _noise(probe))
    slopes = _analyse(values, base, noise, floor)
    unsettled = ~(TRUST * slopes.error <= 1e-8 * numpy.abs(slopes.value))
    if unsettled.any() or _open_gap(values, base, noise).any():
        values = numpy.concatenate([values, _ladder(probe, steps(LONG)[count:])])
        noise = numpy.maximum(noise, _quantum(values, base))
        slopes = _analyse(values, base, noise, floor)
    if slopes.kink.any():  # rounding may look like one, if few values of it were seen
        noise = numpy.maximum(noise, scatter(probe, numpy.random.default_rng(0), far))
        slopes = _analyse(values, base, noise, floor)
    return slopes


def _ladder(probe, sizes):
    return numpy.array([(probe(t), probe(-t)) for t in sizes])


def _noise(probe):
    """Rounding noise, seen as second differences so close by that a smooth function has none.

    Each side is looked at alone, so that a kink or a jump at 0 is not mistaken for noise.
    """
    sides = []
    for t in (1e-10, -1e-10):
        near, middle, far = probe(t), probe(2 * t), probe(3 * t)
        sides.append(numpy.abs(near - 2 * middle + far))
    return numpy.nan_to_num(numpy.fmax(*sides), nan=0.0, posinf=0.0)


def scatter(probe, random, far=False):
    """Return the rounding noise seen at many points: what `measure` should have been told, at the cost of more values.

    It is what a polynomial leaves on each side: of points close by, where nothing is curved, and of points as far away
    as the largest step. There noise is told from a function that is not a polynomial by how often it changes its sign.
    Close by there may be none: values that saturate move in steps, and seem flat, or have a wrong slope, within one.
    `far` asks for the latter: not along a direction through many elements, where many kinks look like noise.
    """
    noise = []
    for side in (1.0, -1.0):
        noise.append(2 * numpy.abs(_residue(probe, side * 1e-10, NEARBY, 1, random)).max(axis=0))
        if far:
            rest = _residue(probe, side * STEP / 2, FAR, 4, random)
            rough = (numpy.diff(numpy.signbit(rest), axis=0) != 0).sum(axis=0) >= FAR // 3
            noise.append(numpy.where(rough, 2 * numpy.abs(rest).max(axis=0), 0.0))
    return numpy.max(noise, axis=0)


def frozen(probe, measured, expected):
    """Where long steps have the slope expected, and shorter ones, abruptly and for good, quite another.

    A value that saturates, 1 - tanh(x)**2 of a large x, is a staircase, and within one stair its share of a slope is
    exactly 0. A smooth function gets from one slope to the other by degrees.
    """
    mismatch = numpy.abs(measured - expected)
    near, far = [[(probe(t) - probe(-t)) / (2 * t) for t in some] for some in (steps(8), STEP * 2.0 ** numpy.arange(5))]
    agrees = (numpy.abs(numpy.array(far) - expected) <= mismatch / 6).sum(axis=0) >= 2
    change = numpy.abs(numpy.diff(near, axis=0))
    abrupt = ((change[:-1] > mismatch / 2) & (change[1:] < change[:-1] / 300)).any(axis=0)
    return agrees & abrupt & (mismatch > 0.1 * numpy.fmax(numpy.abs(measured), numpy.abs(expected)))


def beside_pole(probe, measured, expected):
    """Where steps shorter than most have the slope expected, which is steeper than the one measured.

    Central differences across a pole, of 1 / x at 1e-8, are small and agree with each other; only those that do not
    reach it tell how steep the value is.
    """
    sizes = numpy.concatenate([steps(LONG)[8:], [1e-11, 1e-12, 1e-13]])
    near = numpy.array([(probe(t) - probe(-t)) / (2 * t) for t in sizes])
    agrees = numpy.abs(near - expected) <= numpy.abs(measured - expected) / 6
    return (agrees.sum(axis=0) >= 3) & (numpy.abs(expected) > numpy.abs(measured))


def _residue(probe, start, count, degree, random):
    """Return what a polynomial of a degree leaves of values at points from `start` to twice that; 0 where it can't."""
    t = numpy.sort(random.uniform(-1.0, 1.0, count))
    values = numpy.array([probe(start * (3 + x) / 2) for x in t])
    known = numpy.isfinite(values).all(axis=0)
    values, powers = numpy.where(known, values, 0.0), numpy.vander(t, degree + 1)
    return values - powers @ numpy.linalg.lstsq(powers, values, rcond=None)[0]


def _quantum(values, base):
    """Smallest change seen in a value which stops changing at all under smaller steps.

    ``(x + 1e8) - 1e8`` is a staircase: below a step of 1e-8 it is flat, and a flat stretch looks like a
    perfectly known slope of 0. Stairs that are tiny beside the value are rounding; larger ones are a step
    function's own.
    """
    change = numpy.abs(values - base).max(axis=1)
    quantum = numpy.zeros_like(base)
    for wide, narrow in zip(change, change[1:], strict=False):
        quantum = numpy.where((narrow == 0) & (wide > 0), wide, quantum)
    last_flat = change[-1] == 0
    return numpy.where(last_flat & (quantum <= 1e-6 * numpy.maximum(numpy.abs(base), 1e-2)), quantum, 0.0)


def _one_sided(values, base):
    h = steps(len(values))[:, None]
    return (values[:, 0] - base) / h, (base - values[:, 1]) / h


def _analyse(values, base, noise, floor):
    h = steps(len(values))[:, None]
    right, left = _one_sided(values, base)
    blur = noise / h
    value, error = _extrapolate((right + left) / 2, blur, power=2)
    right_value, right_error = _extrapolate(right, 2 * blur, power=1)
    left_value, left_error = _extrapolate(left, 2 * blur, power=1)
    edge = ~numpy.isfinite(error)
    for other, its_error in ((right_value, right_error), (left_value, left_error)):
        alone = ~numpy.isfinite(error) & numpy.isfinite(its_error)
        value, error = numpy.where(alone, other, value), numpy.where(alone, its_error, error)
    gap = right - left
    least = numpy.broadcast_to(floor / h, gap.shape)
    kink = numpy.array([_is_kink(gap[:, k], blur[:, k], least[:, k]) for k in range(gap.shape[1])], dtype=bool)
    noise = numpy.maximum(noise, floor / 10)
    jump = _jumps(values[:, 0] - base, noise) | _jumps(values[:, 1] - base, noise)
    return Slopes(
        value=value,
        error=error,
        left=_limit(left, left_value),
        right=_limit(right, right_value),
        kink=kink | jump,
        jump=jump,
        edge=edge,
        bend=numpy.nan_to_num(numpy.abs(gap / h)[:5].min(axis=0), nan=0.0, posinf=0.0),
    )


def _extrapolate(slopes, blur, power):
    """Best entry of Richardson's table over `slopes` (one row per step), and its error.

    `power` is the exponent by which the error series advances: 2 for central differences, 1 for one-sided
    ones.
    """
    best = slopes[-1].copy()
    best_error = numpy.full(best.shape, numpy.inf)
    before: list = []
    for row, (slope, rounding) in enumerate(zip(slopes, blur, strict=True)):
        entries = [slope]
        for column in range(1, min(row, DEPTH) + 1):
            gain = RATIO ** (power * column) - 1
            refined = entries[-1] + (entries[-1] - before[column - 1]) / gain
            error = numpy.maximum(abs(refined - entries[-1]), abs(refined - before[column - 1])) + rounding
            entries.append(refined)
            if column > 1:  # two steps alone agree by chance on a staircase
                better = error < best_error  # False for nan: a step outside the domain drops out here
                best, best_error = numpy.where(better, refined, best), numpy.where(better, error, best_error)
        before = entries
    return best, best_error


def _open_gap(values, base, noise):
    """Where left and right slopes come together too slowly for a smooth function."""
    right, left = _one_sided(values, base)
    gap = numpy.abs(right - left)
    seen = gap[-1] > 10 * noise / steps(len(values))[-1]
    return seen & (gap[-1] > gap[-2] / 2)


def _is_kink(gap, blur, least) -> bool:
    """Whether the gap between right and left slope stays open over three decades of steps.

    Only steps at which the largest gap so far would stand out of the rounding have a say; a kink beside the
    point closes there, curvature closes everywhere, and rounding never stands out of itself. Except for the rounding
    of the value at the point, which is in every gap, and makes it grow as a jump does: a gap that grows has to be
    `least` at first.
    """
    size = numpy.abs(gap)
    widest, tail = 0.0, []
    for row, width in enumerate(size):
        if numpy.isfinite(width):
            widest = max(widest, width)
            if 10 * blur[row] < widest:
                tail.append(row)
    tail = tail[-6:]
    if len(tail) < 6 or size[tail[-1]] <= 10 * blur[tail[-1]]:
        return False
    open_all_along = all(size[b] >= 0.6 * size[a] for a, b in zip(tail, tail[1:], strict=False))
    one_sign = numpy.all(gap[tail] > 0) or numpy.all(gap[tail] < 0)
    steady = size[tail[-1]] <= GROWTH * size[tail[0]] or size[tail[0]] > least[tail[0]]
    return bool(open_all_along and one_sign and steady and size[tail[-1]] >= 0.5 * size[tail[0]])


def _jumps(changes, noise):
    """Where the value changes by as much, however short the step: over the last three decades of steps."""
    late = changes[-6:]
    least, most = numpy.abs(late).min(axis=0), numpy.abs(late).max(axis=0)
    steady = (most <= 1.1 * least) & (least > 10 * noise)  # False for nan
    return steady & (len(changes) == LONG) & (numpy.abs(numpy.sign(late).sum(axis=0)) == len(late))


def _limit(side, value):
    """One-sided slopes, infinite where they keep growing (a cusp, a jump)."""
    late, later = side[-4], side[-1]
    growing = numpy.abs(later) > 1.5**3 * numpy.abs(late)
    grows = growing & (numpy.abs(later) > 10 * numpy.abs(side[0]))
    return numpy.where(grows, numpy.copysign(numpy.inf, later), value)
