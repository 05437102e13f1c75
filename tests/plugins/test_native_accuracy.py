"""How exact functions and sums in C are: in units in the last place, at every level of instructions."""

import itertools

import mpmath
import numpy
import pytest
import scipy.special

from plugrad import kernels
from plugrad.plugins.ops import fourier

pytestmark = pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
LEVELS = kernels.levels() if kernels.level() else []
FLOATS = (numpy.float32, numpy.float64)


def functions(level):
    return kernels.module().kernels(level)[1]


def units(actual, exact):
    """Return the largest error in units in the last place of the exact value, which is given in longer precision.

    What overflows or is NaN has to be what the exact value is rounded to.
    """
    with numpy.errstate(all="ignore"):
        rounded = exact.astype(actual.dtype)
        finite = numpy.isfinite(rounded)
        assert numpy.array_equal(actual[~finite], rounded[~finite], equal_nan=True)
        wrong = numpy.abs(actual[finite].astype(exact.dtype) - exact[finite])
    return float(numpy.max(wrong / numpy.spacing(numpy.abs(rounded[finite]))))


def inputs(dtype):
    """Return numbers of all magnitudes, many where functions bend, and those at the ends."""
    random, info = numpy.random.default_rng(0), numpy.finfo(dtype)
    powers = numpy.arange(int(numpy.log2(info.smallest_subnormal)), int(numpy.log2(info.max)))
    magnitudes = numpy.ldexp(random.uniform(1, 2, (8, powers.size)), powers).ravel()
    ends = [0.0, numpy.inf, numpy.nan, info.max, info.tiny, info.smallest_subnormal]
    dense = numpy.concatenate([random.uniform(-s, s, 20_000) for s in (1, 6, 110, 750, 2e5)])
    return numpy.concatenate([dense, magnitudes, -magnitudes, ends, numpy.negative(ends)]).astype(dtype)


def sigmoid(x):
    e = numpy.exp(-abs(x))
    return numpy.where(x < 0, e, 1) / (1 + e)


def softplus(x):
    return numpy.where(x > 20, x, numpy.log1p(numpy.exp(-abs(x))) + numpy.maximum(x, 0))


def elu(x):
    return numpy.where(x > 0, x, numpy.expm1(numpy.minimum(x, 0)))


def silu(x):
    return numpy.where(x == -numpy.inf, numpy.nan, x * sigmoid(x))


# name: (numbers, the exact function, units: at most 2, but where there are no sums of products in one step)
EXACT = {
    "exp": ((), numpy.exp, 1),
    "sigmoid": ((), sigmoid, 2),
    "elu": ((1, 1, 1), elu, 2),
    "silu": ((), silu, 2),
    "softplus": ((1, 20), softplus, 2),
    "log": ((), numpy.log, 1),
    "log1p": ((), numpy.log1p, 1.5),
    "log2": ((), numpy.log2, 1),
    "log10": ((), numpy.log10, 1),
    "sin": ((), numpy.sin, 1.6),
    "cos": ((), numpy.cos, 1.6),
    "sqrt": ((), numpy.sqrt, 0.5),
    "square": ((), numpy.square, 0.5),
    "negative": ((), numpy.negative, 0),
    "relu": ((), lambda x: numpy.where(x < 0, 0, x), 0),
    "leaky_relu": ((0.25,), lambda x: numpy.where(x > 0, x, x * numpy.longdouble(0.25)), 0.5),
    "clamp": ((-1, 2), lambda x: numpy.clip(x, -1, 2), 0),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("level", LEVELS)
def test_functions_of_elements(level, name):
    if name not in functions(level):
        pytest.skip("NumPy's own is quicker there")
    numbers, function, bound = EXACT[name]
    bound += 0.4 * (name == "silu" and level == "base")
    for dtype in FLOATS:
        x = inputs(dtype)
        with numpy.errstate(all="ignore"):
            assert units(functions(level)[name](x, *numbers), function(x.astype(numpy.longdouble))) <= bound


@pytest.mark.parametrize("level", LEVELS)
def test_logarithms_of_powers_and_numbers_near_0(level):
    """Whole where they can be; log(1 + x) is x where x is small. Blocks without rare numbers have another loop."""
    call = functions(level)
    for dtype in FLOATS:
        info = numpy.finfo(dtype)
        k = numpy.arange(info.minexp - info.nmant, info.maxexp)
        tens = numpy.arange(11 if dtype is numpy.float32 else 23)
        small = numpy.array([0.0, -0.0, info.tiny, -info.smallest_subnormal, info.eps / 8], dtype)
        for rare in ([], [0.0]):
            if "log2" in call:
                for name, whole, base in (("log2", k, 2.0), ("log10", tens, 10.0)):
                    powers = numpy.append(base**whole, rare).astype(dtype)
                    assert call[name](powers).tolist()[: whole.size] == whole.tolist()
            given = numpy.append(small, [-1.0] if rare else []).astype(dtype)
            assert call["log1p"](given)[: small.size].tobytes() == small.tobytes()


@pytest.mark.parametrize("level", LEVELS)
def test_gradients_of_elements(level):
    """Of what forward gave: so the errors are those of the products."""
    random, call = numpy.random.default_rng(1), functions(level)
    for dtype in FLOATS:
        g, y = (numpy.concatenate([random.uniform(-1, 1, 50_000), 10.0 ** -random.uniform(0, 12, 5000)]) for _ in "gy")
        g, y = g.astype(dtype), abs(y).astype(dtype)
        one, slope = numpy.longdouble(1), y.astype(numpy.longdouble)
        assert units(call["sigmoid_grad"](g, y), g * slope * (one - slope)) <= 2
        x = random.uniform(-30, 30, y.size).astype(dtype)
        long = x.astype(numpy.longdouble)
        assert units(call["elu_grad"](g, x, 1, 1, 1), g * numpy.exp(numpy.minimum(long, 0))) <= 2
        assert units(call["softplus_grad"](g, x, 1, 40), g * sigmoid(long)) <= 3


@pytest.mark.parametrize("level", LEVELS)
def test_erf(level):
    single = inputs(numpy.float32)
    call = functions(level)["error_function"]
    assert units(call(single), scipy.special.erf(single.astype(float))) <= 2
    double = inputs(numpy.float64)[::100].copy()
    double = double[numpy.isfinite(double)]
    with mpmath.workdps(30):
        exact = numpy.array([numpy.longdouble(str(mpmath.erf(float(v)))) for v in double])
    assert units(call(double), exact) <= 2


@pytest.mark.parametrize("level", LEVELS)
def test_gelu(level):
    """1 + erf(x) has few digits for negative x, as in PyTorch: the error is told by that of the value at 1."""
    for dtype in FLOATS:
        x = inputs(dtype)
        x = x[abs(x) < 40]
        x = x if dtype is numpy.float32 else x[::20].copy()
        if dtype is numpy.float32:
            exact = x * scipy.special.ndtr(x.astype(float))
        else:
            with mpmath.workdps(30):
                exact = numpy.array([float(v * mpmath.ncdf(v)) for v in x.tolist()])
        wrong = abs(functions(level)["gelu"](x, False) - exact) / numpy.maximum(1, abs(x))
        assert wrong.max() <= 2 * numpy.finfo(dtype).eps


@pytest.mark.parametrize("level", LEVELS)
def test_functions_of_rows(level):
    call = functions(level)
    for dtype in FLOATS:
        rows = (numpy.random.default_rng(0).normal(size=(300, 101)) * 5).astype(dtype)
        long, sums = rows.astype(numpy.longdouble), numpy.empty(300, dtype)
        assert call["logsumexp"](rows, sums) is None
        high = long.max(-1, keepdims=True)
        total = numpy.exp(long - high).sum(-1, keepdims=True)
        assert units(sums, (high + numpy.log(total))[:, 0]) <= 2
        shares, bound = numpy.exp(long - high) / total, numpy.finfo(dtype).eps
        difference = abs(rows - rows.max(-1, keepdims=True)).max()  # is rounded before the exponential function
        assert numpy.max(abs(call["softmax"](rows, -1) / shares - 1)) <= (4 + difference) * bound
        logs = long - high - numpy.log(total)
        assert numpy.max(abs(call["log_softmax"](rows, -1) - logs)) <= (4 + difference) * bound
        columns = rows.T.copy()
        assert numpy.max(abs(call["softmax"](columns, 0).T / shares - 1)) <= (4 + difference) * bound
        assert numpy.max(abs(call["log_softmax"](columns, 0).T - logs)) <= (4 + difference) * bound


@pytest.mark.parametrize("shape", [(2000, 100), (300, 1001), (20, 65_537), (3, 1_000_003)])
@pytest.mark.parametrize("level", LEVELS)
def test_sums_are_no_worse_than_those_of_numpy(level, shape):
    """Which are pairwise along rows."""
    call, random = functions(level)["sums"], numpy.random.default_rng(2)
    for dtype, low in ((numpy.float32, -1), (numpy.float32, 0), (numpy.float64, 0)):
        x = random.uniform(low, 1, shape).astype(dtype)
        exact = x.astype(numpy.longdouble).sum(-1)
        rounding = numpy.spacing(numpy.abs(exact).max().astype(dtype)) / 2
        for array, dim in ((x, 1), (numpy.ascontiguousarray(x.T), 0)):
            sums = numpy.empty(len(x), dtype)
            assert call(array, sums, dim, dim + 1, 1, False) is None
            ours, numpys = (numpy.sqrt(numpy.mean((value - exact) ** 2)) for value in (sums, array.sum(dim)))
            assert ours <= 1.25 * numpys + rounding


@pytest.mark.parametrize("level", LEVELS)
def test_fourier_transforms(level):
    """Of all factors, along any dimension, of few and many vectors; the error is that of the whole."""
    call, random, lengths = functions(level)["transform"], numpy.random.default_rng(3), (1, 2, 5, 12, 27, 64, 98, 1000)
    for dtype, n, (rows, inner) in itertools.product(FLOATS, lengths, ((1, 1), (3, 1), (70, 1), (5, 17), (2, 64))):
        real, half = random.normal(size=(rows, n, inner)), (rows, n // 2 + 1, inner)
        real, long = real.astype(dtype), numpy.longdouble
        whole, half = (real + 1j * random.permutation(real), random.normal(size=half) + 1j * random.normal(size=half))
        whole, half = (one.astype(numpy.result_type(dtype, numpy.complex64)) for one in (whole, half))
        wide = numpy.clongdouble
        cases = (
            (fourier._FORWARD_IN_C, whole, numpy.fft.fft(whole.astype(wide), axis=1)),
            (fourier._FORWARD_IN_C, real, numpy.fft.fft(real.astype(long), axis=1)),
            (fourier._BACKWARD_IN_C, whole, numpy.fft.ifft(whole.astype(wide), axis=1, norm="forward")),
            (fourier._FROM_REAL, real, numpy.fft.rfft(real.astype(long), axis=1)),
            (fourier._TO_REAL, half, numpy.fft.irfft(half.astype(wide), n, axis=1, norm="forward")),
        )
        for kind, given, exact in cases:
            result = real.dtype if kind == fourier._TO_REAL else whole.dtype
            ours = fourier._in_c(call, kind, given, 1, n, 0.5, exact.shape[1], result)
            wrong = numpy.sqrt((abs(ours - exact / 2) ** 2).sum() / (abs(exact / 2) ** 2).sum())
            assert wrong <= 1.5 * numpy.finfo(dtype).eps, (dtype, n, rows, inner, kind)
    assert fourier._tables(4097, False, "f") is fourier._tables(22, False, "d") is None
    infinite = numpy.array([[1.0, numpy.inf]])
    assert fourier._in_c(call, fourier._FROM_REAL, infinite, 1, 2, 1.0, 2, "complex128") is NotImplemented
