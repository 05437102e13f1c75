"""Kernels in C of normalisations, at every level of instructions, held to the formulas in higher precision."""

import itertools

import numpy
import pytest

import plugrad as torch
from plugrad import kernels

pytestmark = pytest.mark.skipif(kernels.why_none() is not None, reason="there are no kernels in C")
LEVELS = kernels.levels() if kernels.why_none() is None else []
# (N, C, n): one element of a channel, few, as many as there are columns in a block, and enough for a loop of their own.
SIZES = (2, 1, 1), (5, 3, 1), (1000, 100, 1), (1100, 64, 1), (3, 65, 1), (64, 20, 3), (7, 70, 15), (6, 9, 16)
DTYPES = ("float32", "float64")


def close(actual, expected, dtype, scale=1.0):
    error = numpy.abs(actual.reshape(expected.shape) - expected).max(initial=0)
    assert error <= scale * (2e-5 if dtype == "float32" else 2e-13), error


def normalized(x, dims, weight, bias, eps):
    """Return (result, mean, variance, distances from the mean in standard deviations)."""
    mean, variance = x.mean(dims, keepdims=True), x.var(dims, keepdims=True)
    unit = (x - mean) / numpy.sqrt(variance + eps)
    return unit * weight + bias, mean, variance, unit


def gradients(g, unit, variance, dims, weight, eps, known=False):
    """Return the gradients of what was normalized, of its weight and its bias, each where it is."""
    h = g * weight
    if not known:
        h = h - h.mean(dims, keepdims=True) - unit * (h * unit).mean(dims, keepdims=True)
    return h / numpy.sqrt(variance + eps), g * unit, g


def drawn(sizes, dtype, seed=0):
    random = numpy.random.default_rng(seed)
    channels = sizes[1]
    x, g = (random.normal(size=sizes).astype(dtype) for _ in range(2))
    weight, bias = (random.uniform(0.5, 2, channels).astype(dtype) for _ in range(2))
    return (x + 3).astype(dtype), g, weight, bias


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_channels(sizes, dtype, level):
    """Batch norm: by the statistics of a batch, and by known ones."""
    call = kernels.module().kernels(level)[1]
    x, g, weight, bias = drawn(sizes, dtype)
    shape = (1, sizes[1], 1)
    for has_weight, has_bias in itertools.product((True, False), repeat=2):
        w, b = weight if has_weight else numpy.ones_like(weight), bias if has_bias else numpy.zeros_like(bias)
        wide = [one.astype("longdouble").reshape(-1, *one.shape[1:]) for one in (x, g)]
        wide += [one.astype("longdouble").reshape(shape) for one in (w, b)]
        expected = normalized(wide[0], (0, 2), *wide[2:], 1e-5)
        y, mean, variance = numpy.empty_like(x), numpy.empty(shape, dtype), numpy.empty(shape, dtype)
        parts = [*[weight] * has_weight, *[bias] * has_bias]
        assert call["normalize"](x, y, mean, variance, *parts, 1e-5, has_weight, has_bias, 1) is None
        for actual, wanted in zip((y, mean, variance), expected):
            close(actual, wanted, dtype, 4)
        for known in (False, True):
            dx, dw, db = numpy.empty_like(x), numpy.empty_like(weight), numpy.empty_like(weight)
            arrays = [g, x, mean, variance, dx, dw, db, numpy.empty((1, 2, 0), dtype), *[weight] * has_weight]
            assert call["normalize_grad"](*arrays, 1e-5, True, True, has_weight, 3 if known else 1) is None
            of = gradients(wide[1], expected[3], expected[2], (0, 2), wide[2], 1e-5, known)
            size = max(1.0, float(numpy.abs(of[0]).max()))
            close(dx, of[0], dtype, 20 * size)
            close(dw, of[1].sum((0, 2)), dtype, 20 * sizes[0] * sizes[2] ** 0.5)
            close(db, of[2].sum((0, 2)), dtype, 4 * sizes[0] * sizes[2] ** 0.5)
        by = call["normalize_by"](x, mean.ravel(), variance.ravel(), *parts, 1e-5, has_weight, has_bias)
        close(by, expected[0], dtype, 10 * (4 + float(numpy.abs(1 / numpy.sqrt(expected[2] + 1e-5)).max())))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(5, 6, 1), (300, 100, 1), (4, 1300, 1), (5, 6, 4)])
def test_groups_of_channels(sizes, dtype, level):
    call, groups = kernels.module().kernels(level)[1], 2
    x, g, weight, bias = drawn(sizes, dtype, 1)
    layout, shape = (sizes[0], groups, sizes[1] // groups, sizes[2]), (1, groups, sizes[1] // groups, 1)
    for has_weight, has_bias in itertools.product((True, False), repeat=2):
        w, b = weight if has_weight else numpy.ones_like(weight), bias if has_bias else numpy.zeros_like(bias)
        wide = [one.astype("longdouble").reshape(layout) for one in (x, g)]
        wide += [one.astype("longdouble").reshape(shape) for one in (w, b)]
        expected = normalized(wide[0], (2, 3), *wide[2:], 1e-5)
        y, mean, variance = numpy.empty_like(x), *numpy.empty((2, sizes[0], groups, 1, 1), dtype)
        parts = [*[weight] * has_weight, *[bias] * has_bias]
        assert call["normalize"](x, y, mean, variance, *parts, 1e-5, has_weight, has_bias, 2) is None
        for actual, wanted in zip((y, mean, variance), expected):
            close(actual, wanted, dtype, 4)
        dx, dw, db = numpy.empty_like(x), numpy.empty_like(weight), numpy.empty_like(weight)
        arrays = [g, x, mean, variance, dx, dw, db, numpy.empty((sizes[0], 2, sizes[1]), dtype), *[weight] * has_weight]
        assert call["normalize_grad"](*arrays, 1e-5, True, True, has_weight, 2) is None
        of = gradients(wide[1], expected[3], expected[2], (2, 3), wide[2], 1e-5)
        close(dx, of[0], dtype, 20 * max(1.0, float(numpy.abs(of[0]).max())))
        close(dw, of[1].sum((0, 3)), dtype, 20 * sizes[0])
        close(db, of[2].sum((0, 3)), dtype, 20 * sizes[0])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("sizes", [(6, 5), (6, 5, 1), (6, 5, 2), (6, 70, 3), (6, 5, 1, 1), (2, 5, 4, 4), (300, 130)])
def test_infinities_stay_in_their_channel(sizes, training):
    x = torch.randn(*sizes)
    x[1, 2], x[3 % sizes[0], 4] = float("inf"), float("nan")
    x.requires_grad_()
    mean, variance = torch.zeros(sizes[1]), torch.ones(sizes[1])
    y = torch.nn.functional.batch_norm(x, mean, variance, training=training)
    y.sum().backward()
    finite = [k for k in range(sizes[1]) if k not in (2, 4)]
    assert torch.isfinite(y[:, finite]).all() and torch.isfinite(x.grad[:, finite]).all()
    if training:
        assert torch.isfinite(mean[finite]).all() and not torch.isfinite(y[:, [2, 4]]).any()
        assert x.grad[:, [2, 4]].isnan().all()
    else:
        assert torch.isfinite(x.grad).all()  # of known statistics it does not depend on the elements
        assert y[1, 2].isinf().all() and y[3 % sizes[0], 4].isnan().all()


def test_the_largest_of_rows_has_the_gradient_of_its_place():
    """Values and places of `max` and `min`: zeros with one element in each row or column."""
    x = torch.randn(40, 30, requires_grad=True)
    for dim, name in itertools.product((0, 1, -1), ("max", "min")):
        for keepdim in (True, False):
            values, places = getattr(x, name)(dim, keepdim)
            g = torch.randn_like(values)
            (actual,) = torch.autograd.grad(values, x, g)
            expected = torch.zeros(40, 30)
            g, places = (one if keepdim else one.unsqueeze(dim) for one in (g, places))
            assert torch.equal(actual, expected.scatter(dim, places, g))


def test_sums_of_exponentials_are_numpys():
    random = numpy.random.default_rng(0)
    for dtype in (numpy.float32, numpy.float64):
        x, y = (random.normal(size=4000).astype(dtype) * 30 for _ in range(2))
        x[:8] = numpy.inf, -numpy.inf, numpy.nan, 1, numpy.inf, 0, 3e38, -3e38
        y[:8] = numpy.inf, -numpy.inf, 1, numpy.nan, -numpy.inf, 0, -3e38, -3e38
        with numpy.errstate(all="ignore"):
            expected = numpy.logaddexp(x, y)
            exact = numpy.logaddexp(x.astype("longdouble"), y.astype("longdouble"))
        actual = torch.logaddexp(torch.tensor(x), torch.tensor(y)).numpy()
        assert numpy.array_equal(numpy.isnan(actual), numpy.isnan(expected))
        assert numpy.array_equal(actual[~numpy.isfinite(expected)], expected[~numpy.isfinite(expected)], equal_nan=True)
        good = numpy.isfinite(expected)
        larger = numpy.maximum(numpy.abs(numpy.maximum(x, y)), dtype(0.7))[good]  # two terms that may nearly cancel
        assert (numpy.abs(actual[good] - exact[good]) <= 2 * numpy.spacing(larger)).all()
