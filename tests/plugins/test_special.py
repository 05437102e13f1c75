"""Special functions against mpmath, SciPy and themselves, and at the points where libraries differ.

What is SciPy's is compared with mpmath, where implementations change or fail; what is ours with SciPy, densely.
Single precision is compared with double precision. An error counts against the value, and against what two units in the
last place of the argument do to the value: near a zero that is not a float, no more can be asked.
"""

from __future__ import annotations

import mpmath
import numpy
import pytest
import scipy.special as special

import plugrad as torch

INF, NAN = numpy.inf, numpy.nan
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


def few(low, high):
    """Return ten points of [low, high]."""
    return numpy.linspace(low, high, 10)


def around(point):
    """Return points at distances between 1e-15 and 0.1 from a point."""
    return point + both(scale(-15, -1, 8))


WIDE = both(numpy.concatenate([TINY, line(0, 30), scale(-10, 300), ENDS]))
PROBABILITY = numpy.concatenate([[0, 1, 0.5], scale(-300, -1), 1 - scale(-16, -1), line(0.001, 0.999)])
POSITIVE = numpy.concatenate([TINY[1:], line(0.01, 60), scale(-10, 300)])

OURS = {
    "expit": (special.expit, WIDE, 1e-15),
    "logit": (special.logit, PROBABILITY, 1e-15),
    "entr": (special.entr, numpy.concatenate([POSITIVE, [0, -1, -INF], ENDS]), 1e-15),
    "sinc": (numpy.sinc, both(numpy.concatenate([TINY, line(0, 30)])), 1e-14),
    "spherical_bessel_j0": (lambda x: special.spherical_jn(0, x), numpy.concatenate([TINY, line(0, 60)]), 1e-14),
}

PAIRS_OF_OURS = {
    "xlogy": (special.xlogy, (TINY, POSITIVE[::20]), 1e-15),
    "xlog1py": (special.xlog1py, (TINY, POSITIVE[::20]), 1e-15),
}


def scaled(function, power):
    """Return an mpmath function times `exp(power(x))`."""
    return lambda x: function(x) * mpmath.exp(power(x))


def inverse_normal(p):
    """Solve ndtr(x) = p from SciPy's x on, by Newton's steps on the logarithms."""
    x = mpmath.mpf(float(special.ndtri(float(p))))
    for _ in range(3):
        value = mpmath.ncdf(x)
        x += (mpmath.log(p) - mpmath.log(value)) * value / mpmath.npdf(x)
    return x


SMALL, UNIT = scale(-300, -1, 12), few(0.05, 0.95)
TO_60 = numpy.concatenate([SMALL, few(0.3, 5), few(5.5, 60)])
EVERYWHERE = both(TO_60)
TO_600 = numpy.concatenate([SMALL, few(0.3, 8), few(8.5, 600)])
i0, i1, k0, k1, j0, j1, y0, y1 = (
    lambda x, function=function, order=order: function(order, x)
    for function in (mpmath.besseli, mpmath.besselk, mpmath.besselj, mpmath.bessely)
    for order in (0, 1)
)

SCIPYS = {
    "erf": (mpmath.erf, EVERYWHERE, 1e-15),
    "erfc": (mpmath.erfc, both(numpy.concatenate([SMALL, few(0.1, 26)])), 1e-14),
    "erfcx": (
        scaled(mpmath.erfc, lambda x: x * x),
        numpy.concatenate([SMALL, few(-26, -0.1), few(0.1, 49), few(51, 90)]),
        5e-15,
    ),
    "erfinv": (mpmath.erfinv, both(numpy.concatenate([UNIT, 1 - scale(-15, -2, 8), SMALL])), 1e-14),
    "ndtr": (mpmath.ncdf, few(-36, 36), 1e-13),
    "log_ndtr": (lambda x: mpmath.log(mpmath.ncdf(x)), numpy.concatenate([few(-40, 8), -scale(1.5, 3, 8)]), 1e-14),
    "ndtri": (inverse_normal, numpy.concatenate([UNIT, SMALL, 1 - scale(-15, -2, 8), around(0.5)]), 1e-14),
    "gammaln": (
        lambda x: mpmath.log(abs(mpmath.gamma(x))),
        numpy.concatenate([[1e-310], SMALL, few(0.1, 40), around(1), around(2), line(0.75, 2.25, 60), few(-9.9, -0.1)]),
        5e-15,
    ),
    "digamma": (
        mpmath.digamma,
        numpy.concatenate([SMALL, few(0.1, 40), around(1.4616321449683622), few(-9.93, -0.1), scale(2, 10, 8)]),
        5e-15,
    ),
    "i0": (i0, both(TO_600), 1e-14),
    "i0e": (scaled(i0, lambda x: -abs(x)), both(TO_600), 1e-14),
    "i1": (i1, both(TO_600), 1e-14),
    "i1e": (scaled(i1, lambda x: -abs(x)), both(TO_600), 1e-14),
    "modified_bessel_i0": (i0, both(TO_600), 1e-14),
    "modified_bessel_i1": (i1, both(TO_600), 1e-14),
    "modified_bessel_k0": (k0, TO_600, 1e-14),
    "modified_bessel_k1": (k1, TO_600, 1e-14),
    "scaled_modified_bessel_k0": (scaled(k0, lambda x: x), TO_600, 1e-14),
    "scaled_modified_bessel_k1": (scaled(k1, lambda x: x), TO_600, 1e-14),
    "bessel_j0": (j0, EVERYWHERE, 5e-15),
    "bessel_j1": (j1, EVERYWHERE, 5e-15),
    "bessel_y0": (y0, TO_60, 1e-14),
    "bessel_y1": (y1, TO_60, 1e-14),
    "airy_ai": (mpmath.airyai, numpy.concatenate([few(-30, 30), -SMALL, SMALL]), 1e-12),
}

SHAPES, ENDS_OF_INTEGRALS = numpy.array([0.01, 0.7, 3, 50, 400]), numpy.array([1e-5, 0.3, 2, 30, 350, 420, 800])
PAIRS = {
    "gammainc": (lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), (SHAPES, ENDS_OF_INTEGRALS), 1e-11),
    "gammaincc": (lambda a, x: mpmath.gammainc(a, x, regularized=True), (SHAPES, ENDS_OF_INTEGRALS), 1e-11),
    "zeta": (mpmath.zeta, (numpy.array([1.0001, 1.5, 2, 3.7, 6]), scale(-3, 3, 12)), 1e-13),
}

EDGES = {  # as PyTorch has them; Ai alone is zero at infinity, where PyTorch has NaN
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1)],
    "erfc": [(INF, 0), (-INF, 2), (-30, 2), (30, 0)],
    "erfcx": [(INF, 0), (-INF, INF), (-27, INF)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-INF, NAN)],
    "ndtr": [(INF, 1), (-INF, 0)],
    "log_ndtr": [(INF, -0.0), (-INF, -INF)],
    "ndtri": [(0, -INF), (1, INF), (-0.1, NAN), (1.1, NAN)],
    "gammaln": [(INF, INF), (-INF, INF), (0.0, INF), (-0.0, INF), (-3, INF), (-1e300, INF), (1, 0.0), (2, 0.0)],
    "digamma": [(INF, INF), (0.0, -INF), (-0.0, INF), (-3, NAN), (-INF, NAN)],
    "i0": [(INF, NAN), (-INF, NAN), (0, 1), (-800, INF)],
    "i1": [(INF, NAN), (-INF, NAN), (0, 0.0), (-800, -INF)],
    "i0e": [(INF, 0), (-INF, 0), (0, 1)],
    "i1e": [(INF, 0), (-INF, -0.0), (0, 0.0)],
    "modified_bessel_k0": [(0, INF), (-1, NAN), (INF, 0)],
    "modified_bessel_k1": [(0, INF), (-1, NAN), (INF, 0)],
    "scaled_modified_bessel_k0": [(0, INF), (-1, NAN), (INF, 0)],
    "scaled_modified_bessel_k1": [(0, INF), (-1, NAN), (INF, 0)],
    "bessel_j0": [(0, 1), (INF, NAN), (-INF, NAN)],
    "bessel_j1": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN)],
    "bessel_y0": [(0, -INF), (-1, NAN), (INF, NAN)],
    "bessel_y1": [(0, -INF), (-1, NAN), (INF, NAN)],
    "airy_ai": [(INF, 0), (1e6, 0), (1e20, 0)],
    "entr": [(0, 0.0), (-1, -INF), (INF, -INF)],
    "logit": [(0, -INF), (1, INF), (2, NAN)],
}

EDGES_OF_PAIRS = {
    "gammainc": [(0, 1, 1), (1, 0, 0), (0, 0, NAN), (-1, 1, NAN), (1, -1, NAN), (INF, 1, 0), (1, INF, 1)],
    "gammaincc": [(0, 1, 0), (1, 0, 1), (0, 0, NAN), (-1, 1, NAN), (1, -1, NAN), (INF, 1, 1), (1, INF, 0)],
    "zeta": [(1, 2, INF), (0.5, 2, NAN), (2, 0, INF), (2, -3, INF), (2.5, -0.5, NAN), (NAN, 1, NAN), (2, NAN, NAN)],
    "xlogy": [(0, 0, 0), (0, NAN, NAN), (0, INF, 0), (1, 0, -INF), (-1, 0, INF), (1, -1, NAN)],
    "xlog1py": [(0, -1, 0), (0, NAN, NAN), (0, INF, 0), (1, -1, -INF), (1, -2, NAN)],
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


def exactly(reference):
    """Return an mpmath function as one of NumPy's double precision numbers."""

    def evaluate(*args):
        with mpmath.workdps(40):
            return float(mpmath.re(reference(*map(mpmath.mpf, args))))

    return numpy.vectorize(evaluate, otypes=[float])


@pytest.mark.parametrize("name", [*OURS, *SCIPYS])
def test_unary(name):
    reference, points, tolerance = OURS.get(name) or SCIPYS[name]
    if name in SCIPYS:
        reference = exactly(reference)
    with numpy.errstate(all="ignore"):
        right = reference(points)
    got = getattr(torch.special, name)(torch.from_numpy(points)).numpy()
    judge(name, got, right, points, tolerance, slack(reference, points, right))


@pytest.mark.parametrize("name", [*OURS, *SCIPYS])
def test_unary_in_single_precision(name):
    function = getattr(torch.special, name)
    points = line(*DOMAINS.get(name, (-12, 12))).astype("float32")
    right = function(torch.from_numpy(points.astype("float64"))).numpy()
    got = function(torch.from_numpy(points)).numpy()
    assert got.dtype == numpy.float32
    moved = function(torch.from_numpy(numpy.nextafter(points, numpy.float32(9e30)).astype("float64"))).numpy()
    with numpy.errstate(invalid="ignore"):
        allowance = numpy.nan_to_num(2 * abs(moved - right), nan=0.0, posinf=0.0) + 1e-37
    judge(name, got.astype("float64"), right, points.astype("float64"), 4e-7, allowance)


DOMAINS = {name: (0, 12) for name in SCIPYS if "bessel_k" in name or "bessel_y" in name}
DOMAINS.update(dict.fromkeys(("erfinv", "ndtri", "logit"), (0, 1)), erfcx=(-9, 12))


@pytest.mark.parametrize("name", [*PAIRS_OF_OURS, *PAIRS])
def test_pairs(name):
    reference, (first, second), tolerance = PAIRS_OF_OURS.get(name) or PAIRS[name]
    if name in PAIRS:
        reference = exactly(reference)
    a, b = (part.ravel().copy() for part in numpy.meshgrid(first, second))
    with numpy.errstate(all="ignore"):
        right = reference(a, b)
    got = getattr(torch.special, name)(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    judge(name, got, right, numpy.stack([a, b], 1), tolerance, slack(lambda x: reference(a, x), b, right))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*EDGES, *EDGES_OF_PAIRS])
def test_edges(name, dtype):
    rows = EDGES.get(name) or EDGES_OF_PAIRS[name]
    with numpy.errstate(over="ignore"):
        *points, right = (numpy.array(column).astype(dtype) for column in zip(*rows, strict=True))
    got = getattr(torch.special, name)(*map(torch.from_numpy, points)).numpy()
    same = (got == right) & (numpy.signbit(got) == numpy.signbit(right)) | numpy.isnan(got) & numpy.isnan(right)
    assert same.all(), [(row, value) for row, value, well in zip(rows, got, same, strict=True) if not well]
    if name in EDGES:
        assert torch.isnan(getattr(torch.special, name)(torch.tensor(NAN, dtype=getattr(torch, dtype))))


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


WHERE_SCIPY_ROUNDS = {  # name -> (what mpmath has, numbers where SciPy's algorithm loses digits, or the result)
    "erfc": (mpmath.erfc, [1.5, 5.0, 22.7319, 25.7, 26.5, 26.6981, 27.0, 27.2]),
    "special.ndtr": (mpmath.ncdf, [-1.5, -20.3, -37.3, -37.6, -38.0, -38.4]),
    "special.i0": (lambda x: mpmath.besseli(0, x), [699.0, 709.9, 713.0, -713.5]),
    "special.i1": (lambda x: mpmath.besseli(1, x), [699.0, 709.9, 713.0, -713.5]),
    "special.modified_bessel_i1": (lambda x: mpmath.besseli(1, x), [713.0, -713.5]),
    "special.modified_bessel_k0": (lambda x: mpmath.besselk(0, x), [5e-324, 1e-310, 1e-301]),
    "special.modified_bessel_k1": (lambda x: mpmath.besselk(1, x), [6e-309, 1e-301]),
    "special.scaled_modified_bessel_k0": (lambda x: mpmath.besselk(0, x), [5e-324, 1e-310]),
    "special.bessel_y1": (lambda x: mpmath.bessely(1, x), [5.6e-309, 1e-301, 51.0, 1e3, 1e5 + 0.1, 1e12]),
    "special.bessel_y0": (lambda x: mpmath.bessely(0, x), [51.0, 1e3, 1e5 + 0.1, 1e12]),
    "special.bessel_j0": (lambda x: mpmath.besselj(0, x), [51.0, -1e3, 1e5 + 0.1, 2.22743e7, 1e12]),
    "special.bessel_j1": (lambda x: mpmath.besselj(1, x), [51.0, -1e3, 1e5 + 0.1, -2.22743e7, 1e12]),
    "special.airy_ai": (mpmath.airyai, [-1e5 - 0.1, -1.3e6, -1e7, -4e8]),
    "digamma": (mpmath.digamma, [-1 + 1.2e-16, -1 - 2.3e-16, -2 + 2.3e-16, -3.0001, -1e5 - 1e-4, -1e-300]),
}


@pytest.mark.parametrize("name", WHERE_SCIPY_ROUNDS)
def test_digits_that_scipy_rounds_away(name):
    exact, points = WHERE_SCIPY_ROUNDS[name]
    values = getattr(torch.special, name.rpartition(".")[2])(torch.tensor(points, dtype=torch.float64)).tolist()
    with mpmath.workprec(200):  # 60 digits of each of them: mpmath itself adds what cancels on the way
        for point, value in zip(points, values):
            right = exact(mpmath.mpf(point))
            assert abs(value - right) <= max(abs(right) * 1e-14, 1e-323), (point, value, mpmath.nstr(right, 17))
