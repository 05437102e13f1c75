"""Special functions against SciPy, densely over their range and at the points where implementations change or fail.

An error counts against the value, and against what two units in the last place of the argument do to the value: near a
zero that is not a float, no more can be asked. Left out are points where SciPy is wrong (by the formula): `gammaln` of
subnormal numbers, `digamma` within rounding of its poles.
"""

from __future__ import annotations

import numpy
import pytest

import plugrad as torch

special = pytest.importorskip("scipy.special")

TINY = numpy.array([0.0, 5e-324, 2.3e-308, 1e-300, 1e-160, 1e-20, 1e-8, 1e-3])
ENDS = numpy.array([numpy.inf, numpy.nan])


def line(low, high, count=2001):
    """Return points of [low, high], evenly spread, with the neighbours of whole and half numbers."""
    marks = numpy.arange(numpy.ceil(2 * low), numpy.floor(2 * high) + 1)[:60] / 2
    marks = numpy.concatenate([marks, numpy.nextafter(marks, 9e9), numpy.nextafter(marks, -9e9)])
    return numpy.unique(numpy.concatenate([numpy.linspace(low, high, count), marks.clip(low, high)]))


def both(points):
    """Return points and their negatives."""
    return numpy.concatenate([points, -points])


def scale(low, high, count=400):
    """Return points between powers of ten."""
    return 10.0 ** numpy.linspace(low, high, count)


WIDE = both(numpy.concatenate([TINY, line(0, 30), scale(-10, 300), ENDS]))
POSITIVE = numpy.concatenate([TINY[1:], line(0.01, 60), scale(-10, 300)])
PROBABILITY = numpy.concatenate([[0, 1, 0.5], scale(-300, -1), 1 - scale(-16, -1), line(0.001, 0.999)])

UNARY = {
    "erf": (special.erf, WIDE, 1e-15),
    "erfc": (special.erfc, both(numpy.concatenate([TINY, line(0, 27), ENDS])), 5e-14),
    "erfcx": (special.erfcx, numpy.concatenate([line(-26, 60), scale(1, 300), TINY, ENDS]), 5e-14),
    "erfinv": (special.erfinv, both(numpy.concatenate([[0, 1], scale(-300, -1), 1 - scale(-15, -1)])), 1e-13),
    "ndtr": (special.ndtr, numpy.concatenate([line(-37, 37), [-numpy.inf], ENDS]), 1e-13),
    "ndtri": (special.ndtri, PROBABILITY, 1e-13),
    "log_ndtr": (special.log_ndtr, numpy.concatenate([line(-40, 40), -scale(1, 150), ENDS]), 1e-13),
    "gammaln": (special.gammaln, numpy.concatenate([POSITIVE[1:], line(-9.9, -0.1), ENDS]), 2e-14),
    "digamma": (special.digamma, numpy.concatenate([POSITIVE, numpy.arange(-99, 0) / 10.3]), 2e-13),
    "expit": (special.expit, WIDE, 1e-15),
    "logit": (special.logit, PROBABILITY, 1e-15),
    "entr": (special.entr, numpy.concatenate([POSITIVE, [0, -1, -numpy.inf], ENDS]), 1e-15),
    "sinc": (numpy.sinc, both(numpy.concatenate([TINY, line(0, 30)])), 1e-14),
    "i0": (special.i0, both(numpy.concatenate([TINY, line(0, 700)])), 1e-14),
    "i0e": (special.i0e, both(numpy.concatenate([TINY, line(0, 40), scale(1, 300)])), 1e-14),
    "i1": (special.i1, both(numpy.concatenate([TINY, line(0, 700)])), 1e-14),
    "i1e": (special.i1e, both(numpy.concatenate([TINY, line(0, 40), scale(1, 300)])), 1e-14),
    "bessel_j0": (special.j0, both(numpy.concatenate([TINY, line(0, 60)])), 5e-15),
    "bessel_j1": (special.j1, both(numpy.concatenate([TINY, line(0, 60)])), 5e-15),
    "bessel_y0": (special.y0, numpy.concatenate([scale(-300, 0), line(0.01, 60)]), 1e-14),
    "bessel_y1": (special.y1, numpy.concatenate([scale(-300, 0), line(0.01, 60)]), 1e-14),
    "modified_bessel_i0": (special.i0, both(line(0, 700)), 1e-14),
    "modified_bessel_i1": (special.i1, both(line(0, 700)), 1e-14),
    "modified_bessel_k0": (special.k0, numpy.concatenate([scale(-300, 0), line(0.01, 600)]), 1e-14),
    "modified_bessel_k1": (special.k1, numpy.concatenate([scale(-300, 0), line(0.01, 600)]), 1e-14),
    "scaled_modified_bessel_k0": (special.k0e, numpy.concatenate([scale(-300, 300), line(0.01, 60)]), 1e-14),
    "scaled_modified_bessel_k1": (special.k1e, numpy.concatenate([scale(-300, 300), line(0.01, 60)]), 1e-14),
    "spherical_bessel_j0": (lambda x: special.spherical_jn(0, x), numpy.concatenate([TINY, line(0, 60)]), 1e-14),
    "airy_ai": (lambda x: special.airy(x)[0], line(-30, 30), 1e-12),
}

PAIRS = {
    "xlogy": (special.xlogy, (TINY, POSITIVE[::20]), 1e-15),
    "xlog1py": (special.xlog1py, (TINY, POSITIVE[::20]), 1e-15),
    "gammainc": (special.gammainc, (numpy.concatenate([scale(-3, 3, 30), [1, 10, 200]]), scale(-5, 3.3, 60)), 1e-11),
    "gammaincc": (special.gammaincc, (numpy.concatenate([scale(-3, 3, 30), [1, 10, 200]]), scale(-5, 3.3, 60)), 1e-11),
    "zeta": (special.zeta, (numpy.array([1.0001, 1.5, 2, 3.7, 12, 60]), scale(-3, 3, 60)), 1e-13),
}

POLYNOMIALS = {
    "chebyshev_polynomial_t": special.eval_chebyt,
    "chebyshev_polynomial_u": special.eval_chebyu,
    "hermite_polynomial_h": special.eval_hermite,
    "hermite_polynomial_he": special.eval_hermitenorm,
    "laguerre_polynomial_l": special.eval_laguerre,
    "legendre_polynomial_p": special.eval_legendre,
    "shifted_chebyshev_polynomial_t": special.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": special.eval_sh_chebyu,
}


def slack(reference, points, values):
    """Return how much the value moves when the argument does by two units in its last place."""
    with numpy.errstate(all="ignore"):
        moved = [reference(numpy.nextafter(points, way)) for way in (numpy.inf, -numpy.inf)]
        return 2 * numpy.nan_to_num(numpy.fmax(*[abs(m - values) for m in moved]), nan=0.0, posinf=0.0)


def judge(name, got, right, points, tolerance, allowance=0.0):
    """Assert agreement: infinities and nan in the same places, all else within the tolerance."""
    special_points = ~numpy.isfinite(right)
    same = (got == right) | (numpy.isnan(got) & numpy.isnan(right))
    wrong = special_points & ~same
    assert not wrong.any(), f"{name}{points[wrong][:3]} is {got[wrong][:3]}, not {right[wrong][:3]}"
    with numpy.errstate(all="ignore"):
        error = abs(got - right) - allowance
        bad = ~special_points & ~(error <= tolerance * abs(right) + 1e-307)
    worst = numpy.argmax(numpy.where(bad, error / numpy.maximum(abs(right), 1e-307), 0))
    assert not bad.any(), f"{name}({points[worst]!r}) is {got[worst]!r}, not {right[worst]!r}; {bad.sum()} points"


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    reference, points, tolerance = UNARY[name]
    with numpy.errstate(all="ignore"):
        right = reference(points)
    got = getattr(torch.special, name)(torch.from_numpy(points)).numpy()
    judge(name, got, right, points, tolerance, slack(reference, points, right))


@pytest.mark.parametrize("name", UNARY)
def test_unary_in_single_precision(name):
    reference, points, _ = UNARY[name]
    with numpy.errstate(all="ignore"):
        points = points[(abs(points) < 1e30) & (abs(points) > 1e-30)].astype("float32")
        right = reference(points.astype("float64"))
        keep = abs(right) < 1e30
        points, right = points[keep], right[keep]
        wide = points.astype("float64")
        moved = reference(numpy.nextafter(points, numpy.float32(9e30)).astype("float64"))
    got = getattr(torch.special, name)(torch.from_numpy(points)).numpy()
    assert got.dtype == numpy.float32
    allowance = numpy.nan_to_num(4 * abs(moved - right), nan=0.0, posinf=0.0) + 1e-37
    judge(name, got.astype("float64"), right, wide, 2e-5, allowance)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name):
    reference, (first, second), tolerance = PAIRS[name]
    a, b = (part.ravel().copy() for part in numpy.meshgrid(first, second))
    with numpy.errstate(all="ignore"):
        right = reference(a, b)
    got = getattr(torch.special, name)(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    judge(name, got, right, numpy.stack([a, b], 1), tolerance, slack(lambda x: reference(a, x), b, right))


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_polygamma(order):
    points = numpy.concatenate([scale(-3, 4), line(0.1, 30)])
    got = torch.special.polygamma(order, torch.from_numpy(points)).numpy()
    right = special.polygamma(order, points)
    judge("polygamma", got, right, points, 1e-12, slack(lambda x: special.polygamma(order, x), points, right))


@pytest.mark.parametrize("name", POLYNOMIALS)
@pytest.mark.parametrize("degree", [0, 1, 2, 7, 20])
def test_polynomials(name, degree):
    shifted = name.startswith("shifted")
    points = numpy.linspace(0 if shifted else -1, 1, 201)
    right = POLYNOMIALS[name](degree, points)
    got = getattr(torch.special, name)(torch.from_numpy(points), degree).numpy()
    judge(name, got, right, points, 1e-12, 1e-12 * abs(right).max())


@pytest.mark.parametrize("p", [1, 2, 5])
def test_multigammaln(p):
    points = numpy.linspace(p / 2 + 0.01, 40, 300)
    got = torch.special.multigammaln(torch.from_numpy(points), p).numpy()
    judge("multigammaln", got, special.multigammaln(points, p), points, 1e-12, 1e-12)


def test_softmax_and_logsumexp_of_huge_numbers():
    x = numpy.array([[-1e308, 0, 1e308], [1000, 1000.5, -numpy.inf], [-numpy.inf, -numpy.inf, 0]])
    for name, reference in (("softmax", special.softmax), ("log_softmax", special.log_softmax)):
        got = getattr(torch.special, name)(torch.from_numpy(x), 1).numpy()
        with numpy.errstate(over="ignore"):
            assert numpy.allclose(got, reference(x, axis=1), rtol=1e-14)
    with numpy.errstate(over="ignore"):
        right = special.logsumexp(x, axis=1)
    assert numpy.allclose(torch.special.logsumexp(torch.from_numpy(x), 1).numpy(), right, rtol=1e-15)
