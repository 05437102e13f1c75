"""Convolutions and means of windows in C against those of NumPy: any step, dilation, groups and dimensions."""

import itertools

import numpy
import pytest

import plugrad
from plugrad import kernels
from plugrad.plugins.ops._pooling_axes import adaptive_axes, pooled_shape, sliding_axes
from plugrad.plugins.ops.average_pooling import _in_c, avg_pool, avg_unpool
from plugrad.plugins.ops.convolution_kernels import convolve, convolve_weight_grad, geometry_of

pytestmark = pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
LEVELS = kernels.levels() if kernels.level() else []
FLOATS = (numpy.float32, numpy.float64)

# Channels that are read and written, groups: full, single, several filters for each channel, groups of several.
CHANNELS = [(1, 1, 1), (3, 5, 1), (7, 40, 1), (4, 4, 4), (2, 6, 2), (6, 4, 2), (35, 26, 1)]
# Size of images, filter, padding, step, dilation: of one, two and three dimensions.
IMAGES = [
    ((9, 13), (3, 3), (1, 1), (1, 1), (1, 1)), ((9, 13), (1, 1), (0, 0), (1, 1), (1, 1)),
    ((9, 13), (2, 5), (3, 0), (1, 1), (2, 1)), ((9, 16), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((11, 14), (7, 7), (3, 3), (2, 2), (1, 1)), ((8, 8), (1, 1), (0, 0), (2, 3), (1, 1)),
    ((12, 9), (4, 4), (0, 0), (4, 4), (1, 1)), ((13, 10), (3, 2), (2, 1), (2, 3), (2, 4)),
    ((5, 6), (2, 2), (5, 4), (3, 2), (1, 3)), ((20,), (5,), (2,), (1,), (1,)), ((33,), (3,), (4,), (3,), (2,)),
    ((9, 21), (3, 3), (1, 1), (1, 1), (1, 1)), ((6, 32), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((3, 6, 18), (2, 3, 3), (0, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((5, 6, 7), (3, 2, 3), (1, 0, 1), (1, 1, 1), (1, 2, 1)), ((6, 5, 9), (2, 3, 2), (0, 2, 1), (2, 1, 3), (1, 1, 2)),
]  # fmt: skip


def close(actual, expected, dtype, terms):
    """Whether sums of so many products of normal numbers agree."""
    bound = 16 * numpy.finfo(dtype).eps * terms**0.5
    return numpy.allclose(actual, expected, rtol=bound, atol=bound, equal_nan=True)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("level", LEVELS)
def test_convolutions(level, channels):
    """Infinities and NaN stay where they belong: what stands behind the ends of padded rows is in no result."""
    inputs, outputs, groups = channels
    random, call = numpy.random.default_rng(6), kernels.module().kernels(level)[1]
    for (size, kernel, padding, step, dilation), dtype, transposed in itertools.product(IMAGES, FLOATS, (False, True)):
        geometry = geometry_of(step, padding, dilation, transposed, tuple(t - 1 for t in step), groups)
        read, written = (outputs, inputs) if transposed else (inputs, outputs)
        result = geometry.result_size(size, kernel)
        if min(result) < 1:
            continue
        x, bias = random.normal(size=(2, read, *size)).astype(dtype), random.normal(size=written).astype(dtype)
        weight = random.normal(size=(outputs, inputs // groups, *kernel)).astype(dtype)
        y = numpy.empty((2, written, *result), dtype)
        for special in (0.0, numpy.inf, numpy.nan):
            x[(0, 0, *(n // 2 for n in size))] = special
            x[(1, -1, *(n - 1 for n in size))] = special
            assert call["convolve"](x, weight, y, bias, *geometry.numbers) is None
            with numpy.errstate(invalid="ignore"):
                expected = convolve.kernels["*"](numpy, x, weight, bias, geometry)
            assert close(y, expected, dtype, weight.size), (size, kernel, padding, step, dilation, transposed, special)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("level", LEVELS)
def test_gradients_of_filters(level, channels):
    inputs, outputs, groups = channels
    random, call = numpy.random.default_rng(6), kernels.module().kernels(level)[1]
    for (size, kernel, padding, step, dilation), dtype in itertools.product(IMAGES, FLOATS):
        geometry = geometry_of(step, padding, dilation, False, (0,) * len(size), groups)
        result = geometry.result_size(size, kernel)
        if min(result) < 1:
            continue
        x, g = (random.normal(size=(9, *shape)).astype(dtype) for shape in ((inputs, *size), (outputs, *result)))
        grad = numpy.empty((outputs, inputs // groups, *kernel), dtype)
        for special in (0.0, numpy.inf, numpy.nan):
            x[(8, 0, *(n // 2 for n in size))] = special
            assert call["convolve_grad"](x, g, grad, *geometry.numbers) is None
            with numpy.errstate(invalid="ignore"):
                expected = convolve_weight_grad.kernels["*"](numpy, g, x, kernel, geometry)
            assert close(grad, expected, dtype, g.size), (size, kernel, padding, step, dilation, special)


def test_convolutions_that_are_refused():
    call, x = kernels.function("convolve"), numpy.ones((1, 2, 4, 4), numpy.float32)
    y, weight = numpy.ones((1, 3, 4, 4), numpy.float32), numpy.ones((3, 2, 1, 1), numpy.float32)
    right = 0, 0, 1, 1, 1, 1
    assert call(x, weight, y, *right, False, 1) is None
    for arrays in ((x, weight[:2], y), (x, weight[:, :1].copy(), y), (x[:0], weight, y[:0]), (x[0], weight, y)):
        assert call(*arrays, *right, False, 1) is NotImplemented
    assert call(x, weight, y, numpy.ones(2, numpy.float32), *right, False, 1) is NotImplemented
    for numbers in ((-1, 0, 1, 1, 1, 1), (0, 0, 0, 1, 1, 1), (0, 0, 1, 1, 1, 0), (1 << 40, 0, 1, 1, 1, 1)):
        assert call(x, weight, y, *numbers, False, 1) is NotImplemented
    assert call(x, weight, y, *right, False, 2) is NotImplemented
    assert call(x, weight, y, *right, False, 0) is NotImplemented


def test_images_with_channels_last_come_back_so():
    x = plugrad.randn(2, 4, 6, 6).to(memory_format=plugrad.channels_last).requires_grad_()
    weight = plugrad.randn(8, 4, 3, 3, requires_grad=True)
    y = plugrad.nn.functional.conv2d(x, weight, stride=2, padding=1)
    assert y.is_contiguous(memory_format=plugrad.channels_last)
    plain = plugrad.nn.functional.conv2d(x.detach().contiguous(), weight, stride=2, padding=1)
    assert plugrad.allclose(y, plain, rtol=1e-5, atol=1e-6) and plain.is_contiguous()


def windows():
    """Yield (shape of images, axes of their pooling)."""
    for size, kernel, step, padding, ceil_mode in (
        ((9,), 3, 2, 1, False), ((10,), 3, 3, 0, True), ((7,), 7, 1, 0, False), ((30,), 7, 2, 3, False),
        ((4, 5), 2, 2, 1, False), ((9, 8), 2, 2, 0, True), ((9, 8), (3, 2), (1, 3), (1, 0), False),
        ((40, 41), (40, 41), 1, 0, False), ((5, 40), (5, 3), 1, 0, False), ((4, 5, 6), 2, 2, 1, False),
        ((4, 5, 6), (4, 5, 6), 1, 0, False), ((3, 4, 5), 3, 2, 1, True),
    ):  # fmt: skip
        shape = (2, 3, *size)
        yield shape, sliding_axes("pool", len(size), shape, kernel, step, padding, 1, ceil_mode)
    for size, wanted in (
        ((9,), 4), ((5,), 7), ((9, 8), (4, 3)), ((9, 8), (1, 3)), ((30, 31), 1), ((5, 4, 3), (2, 3, 1)), ((4, 5, 6), 1)
    ):  # fmt: skip
        shape = (2, 3, *size)
        yield shape, adaptive_axes("pool", len(size), shape, wanted)


@pytest.mark.parametrize("level", LEVELS)
def test_means_of_windows(level):
    random, call = numpy.random.default_rng(6), kernels.module().kernels(level)[1]
    for (shape, axes), dtype, padding_counts, divisor in itertools.product(windows(), FLOATS, (False, True), (None, 5)):
        pooled, options = pooled_shape(shape, axes), (axes, padding_counts, divisor)
        x, g = (random.normal(size=size).astype(dtype) for size in (shape, pooled))
        for special in (0.0, numpy.inf, numpy.nan):
            x[0, 0, 1] = g[1, 2, 0] = special
            mean = _in_c(call["avg_pool"], numpy, x, pooled, *options)
            spread = _in_c(call["avg_unpool"], numpy, g, shape, *options)
            assert close(mean, avg_pool.kernels["*"](numpy, x, *options), dtype, 40), (shape, special)
            assert close(spread, avg_unpool.kernels["*"](numpy, g, *options, shape), dtype, 40), (shape, special)
