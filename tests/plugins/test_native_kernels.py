"""Kernels in C: exact, the same on every processor and with any number of threads, and never missed where absent."""

import itertools
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
import tomllib
from fractions import Fraction

import numpy
import pytest

import plugrad as torch
from plugrad import kernels
from plugrad.extend import load_inline
from plugrad.plugins.backends import _mersenne
from plugrad.plugins.ops import _draws

pytestmark = pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
FLOATS = (numpy.float32, numpy.float64)


def functions(level):
    return kernels.module().kernels(level)[1]


# ---------------------------------------------------------------------------------------------------- exactness


def twisters(seed=7, used=600):
    """Return two generators in the same state, of which the words are used up soon."""
    pair = [_mersenne.MersenneTwister(seed) for _ in range(2)]
    for one in pair:
        one.random_raw(used)
    return pair


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
def test_the_twister_is_that_of_numpy(level):
    draw = functions(level)["twister_words"]
    ours, numpys = twisters(used=0)
    for n in (0, 1, 623, 2, 24, 625, 1248, 7, 5000):
        out = numpy.empty(n)
        assert draw(out, ours.memory) is None
        assert out.view("uint64").tobytes() == numpys.random_raw(n).tobytes() and ours.state == numpys.state
    read_only, before = ours.memory.copy(), ours.memory.copy()
    read_only.flags.writeable = False
    for wrong in (read_only, before[:624], before[::5]):
        assert draw(numpy.empty(3), wrong) is NotImplemented
    before[624] = 625  # no place in the state
    assert draw(numpy.empty(3), before) is NotImplemented
    assert draw(numpy.empty(3, "float32"), ours.memory) is NotImplemented and ours.state == numpys.state


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
def test_numbers_of_distributions_are_those_of_the_kernels_in_numpy(level):
    draw = functions(level)["distributed"]
    for dtype, each in ((numpy.float32, 1), (numpy.float64, 2)):
        for low, high in ((-0.1, 0.1), (0, 1), (0, 3.3), (1e-30, 1e30), (100, 103.3), (-1, 1e-9), (2, 2)):
            for shape in ((), (0,), (3, 5), (100_001,)):
                (first, second), out, expected = twisters(), numpy.empty(shape, dtype), numpy.empty(shape, dtype)
                assert draw(out, first.memory, _draws.UNIFORM, low, high) is None
                _draws._fill_in_numpy(expected, second.random_raw(each * out.size), low, high)
                assert out.tobytes() == expected.tobytes() and first.state == second.state, (dtype, low, shape)
        for kind, a, b, formula in (
            (_draws.EXPONENTIAL, -0.5, 0.0, lambda u: numpy.log1p(-u) * -0.5),
            (_draws.GEOMETRIC, -0.3, 0.0, lambda u: numpy.ceil(numpy.log(u) / -0.3)),
            (_draws.CAUCHY, 3.0, 2.0, lambda u: 3 + 2 * numpy.tan(numpy.pi * (u - 0.5))),
        ):
            (first, second), out, u = twisters(), numpy.empty(3001, dtype), numpy.empty(3001)
            assert draw(out, first.memory, kind, a, b) is None
            _draws._fill_in_numpy(u, second.random_raw(2 * u.size), 0.0, 1.0)
            assert numpy.allclose(out, formula(u).astype(dtype), rtol=2e-7 if dtype is numpy.float32 else 1e-12, atol=0)
    out = numpy.empty(4)
    out.flags.writeable = False
    assert draw(out, first.memory, _draws.UNIFORM, 0.0, 1.0) is NotImplemented and first.state == second.state


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
def test_normal_numbers_in_blocks(level):
    make = functions(level)["normal_blocks"]
    for dtype, close in ((numpy.float32, 3e-7), (numpy.float64, 1e-15)):
        u = numpy.random.default_rng(0).random(160_000, dtype)
        u[:8], u[8:16], u[16:32] = [0, 0.5, 1 - 2.0**-24, 2.0**-24, 0.25, 0.75, 0.1, 0.9], numpy.arange(8) / 8, 0
        ours, rows = u.copy(), u.astype("longdouble").reshape(-1, 2, 8)
        assert make(ours) is None
        radius = numpy.sqrt(-2 * numpy.log(1 - rows[:, 0]))
        angle = (u.reshape(-1, 2, 8)[:, 1] * dtype(2 * numpy.pi)).astype("longdouble")  # rounded, as PyTorch has it
        exact = numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], 1).reshape(-1)
        assert float(abs(ours - exact).max()) < close * 6
        assert abs(ours.mean()) < 0.01 and abs(ours.std() - 1) < 0.01
    multiply_add, x = functions(level)["multiply_add"], numpy.random.default_rng(0).random(1000)
    sums = x.copy()
    assert multiply_add(sums, 0.1, -0.05) is None
    exact = [float(Fraction(value) * Fraction(0.1) - Fraction(0.05)) for value in x.tolist()]
    assert sums.tolist() == exact  # rounded once
    assert make(numpy.empty(17)) is NotImplemented and make(numpy.empty(32)[::2]) is NotImplemented


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
def test_normal_numbers_and_permutations_are_those_of_the_kernels_in_numpy(level):
    pairs, permute = functions(level)["normal_pairs"], functions(level)["permute"]
    words = numpy.random.default_rng(0).integers(0, 2**32, 40_000, dtype=numpy.uint64)
    words[:8] = [0, 0, 0, 0, 2**32 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1]
    for n in (0, 2, 28, 10_000):
        ours, numpys = numpy.empty(n), numpy.empty(n)
        assert pairs(ours, words[: 2 * n]) is None
        _draws._fill_pairs_in_numpy(numpys, words[: 2 * n])
        if n < 30:
            assert ours.tobytes() == numpys.tobytes()
        assert numpy.allclose(ours, numpys, rtol=1e-14, atol=1e-14)
    for n in (2, 3, 299, 300, 40_001):
        for drawn in (words[: n - 1], words[: n - 1] << 32 | words[: n - 1]):
            ours, numpys = numpy.empty(n), numpy.empty(n)
            assert permute(ours, drawn) is None
            _draws._permute_in_numpy(numpys, drawn)
            assert ours.tobytes() == numpys.tobytes() and sorted(ours.view("int64").tolist()) == list(range(n))
    refused = (pairs, words[:4]), (pairs, words[:8].view("int64")), (permute, words[:4]), (permute, words[:6:2])
    for call, wrong in refused:
        assert call(numpy.empty(4), wrong) is NotImplemented
        assert call(numpy.empty(4, "float32"), words[:8] if call is pairs else words[:3]) is NotImplemented


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
def test_extremes(level):
    call, inf, nan = functions(level), numpy.inf, numpy.nan
    for dtype in FLOATS:
        tiny = numpy.finfo(dtype).smallest_subnormal
        x = numpy.array([inf, -inf, nan, tiny, -tiny, 0.0, 800.0, -800.0], dtype)
        with numpy.errstate(all="ignore"):
            y = call["sigmoid"](x)
        assert numpy.array_equal(y[[0, 1, 5, 6]], [1, 0, 0.5, 1]) and numpy.isnan(y[2]) and 0 <= float(y[7]) < 1e-300
        assert numpy.isnan(call["softmax"](x, -1)).all()
        for name in ("softmax", "log_softmax"):
            assert numpy.isnan(call[name](numpy.full(3, -inf, dtype), -1)).all()
            columns = numpy.stack([x, numpy.full(8, -inf, dtype), numpy.arange(8, dtype=dtype)], 1)
            assert numpy.isnan(call[name](columns, 0)).tolist() == [[True, True, False]] * 8
        assert numpy.array_equal(call["softmax"](numpy.array([-inf, 0, 0], dtype), 0), [0, 0.5, 0.5])
        assert numpy.array_equal(call["cumsum"](numpy.array([tiny] * 3, dtype), 0, False), tiny * numpy.arange(1, 4))
    assert numpy.float32(1e-40) * numpy.float32(1) != 0  # subnormal numbers stay what they are in the whole process


SMALLER = [
    (4, 5, 6), (5, 6), (6,), (), (1,), (1, 1), (1, 5, 6), (1, 6), (4, 1, 6), (4, 5, 1), (4, 1, 1), (5, 1), (1, 5, 1),
    (1, 1, 1), (1, 4, 5, 6), (0,), (5,),
]  # fmt: skip


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_arithmetic_is_in_the_bits_of_numpy(level, name):
    random, numpys = numpy.random.default_rng(2), getattr(numpy, name)
    call = kernels.module().joined(functions(level)[name], numpys, 0)
    extreme = [0.0, -0.0, 1.0, numpy.inf, -numpy.inf, numpy.nan, 1e-310, 5e307]
    with numpy.errstate(all="ignore"):
        for dtype in FLOATS:
            square = numpy.array(extreme).astype(dtype)
            pairs = [(square[:, None].repeat(8, 1), square[None].repeat(8, 0))]
            for shape in SMALLER:
                large, small = (random.normal(size=size).astype(dtype) for size in ((4, 5, 6), shape))
                pairs += [(large, small), (small, large)] if shape not in [(0,), (5,)] else []
            rows = random.normal(size=(700, 100)).astype(dtype)  # in parts that end within a row
            pairs += [(rows, rows[0]), (rows[0], rows), (rows, rows[0, :1]), (rows, rows[:, :1].copy())]
            pairs += [(rows.T, rows.T), (rows[::-1], rows)]
            pairs += [(numpy.empty((0, 3), dtype), small[:3]) for small in [rows[0]]]
            for x, z in pairs:
                y, expected = call(x, z), numpys(x, z)
                assert type(y) is numpy.ndarray or expected.ndim == 0
                assert y.shape == expected.shape and y.dtype == expected.dtype
                assert numpy.array_equal(y, expected, equal_nan=True)
                assert numpy.array_equal(numpy.signbit(y[y == 0]), numpy.signbit(expected[expected == 0]))
    assert call(numpy.arange(3), 2).tolist() == numpys(numpy.arange(3), 2).tolist()  # what it does not serve
    with pytest.raises(TypeError):
        call(numpy.ones(2), "two")
    for shape in [(0,), (5,)]:
        with pytest.raises(ValueError, match="broadcast"):
            call(numpy.ones((4, 5, 6)), numpy.ones(shape))


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 100, 129, 256, 257, 3000])
def test_rows_are_ordered_as_a_stable_sort_does_it(level, n):
    random, call = numpy.random.default_rng(n), functions(level)["order_of"]
    for dtype in FLOATS:
        x = random.integers(-n // 4, n // 4 + 1, (4, n)).astype(dtype) / 7  # many are equal
        x[1] = random.choice([0.0, -0.0, numpy.nan, -numpy.nan, numpy.inf, -numpy.inf, 1e-310, -1], n).astype(dtype)
        x[2] = numpy.nan
        x[3] = random.normal(size=n)
        for falling in (False, True):
            keys = numpy.where(numpy.isnan(x), numpy.inf, x).astype(float)
            keys = numpy.stack([keys, numpy.isnan(x)]) * (-1 if falling else 1)
            expected = numpy.lexsort(keys, axis=-1)  # by NaN or not, then by value; stable
            for k in {1, min(n, 8), min(n, 30), n}:
                values, places = numpy.empty((4, k), dtype), numpy.empty((4, k), numpy.int64)
                assert call(x, values, places, falling, 0, 0) is None
                assert numpy.array_equal(places, expected[:, :k])
                assert values.tobytes() == numpy.take_along_axis(x, places, 1).tobytes()


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
def test_extremes_and_choices_are_those_of_numpy(level):
    random, call = numpy.random.default_rng(4), functions(level)
    for dtype in FLOATS:
        for shape in ((3, 100, 7), (1, 1, 1), (2, 16, 5), (5, 33, 1), (40, 3, 5000)):
            x = random.normal(size=shape).astype(dtype)
            x[-1, -1, -1] = numpy.nan
            for first, last in ((0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3)):
                axes = tuple(range(first, last))
                for smallest, numpys in ((False, numpy.max), (True, numpy.min)):
                    out = numpy.empty(numpy.delete(shape, axes).astype(int), dtype)
                    assert call["extremes"](x, out, first, last, smallest) is None
                    assert numpy.array_equal(out, numpys(x, axes), equal_nan=True)
            z = random.normal(size=shape).astype(dtype)
            sizes = (shape, shape[1:], shape[2:], (), (1,), (shape[0], 1, 1), (shape[1], 1), (1, *shape[1:]))
            for size in sizes:
                mask = numpy.asarray(random.random(size) < 0.5)
                same = [call["choose"](x, z, mask, False, False), call["choose"](z, x, mask, True, False)]
                expected = numpy.where(mask, x, z)
                assert all(numpy.array_equal(one, expected, equal_nan=True) for one in same)
                for one in (z.ravel()[:1], z.ravel()[:1].reshape(())):
                    y = call["choose"](x, one, mask, False, False)
                    assert numpy.array_equal(y, numpy.where(mask, x, one), equal_nan=True)
                y = call["choose"](x, mask, True, True, 0.5)
                assert numpy.array_equal(y, numpy.where(mask, dtype(0.5), x), equal_nan=True)
            assert call["choose"](x, z, numpy.ones((2, *shape), bool), False, False) is NotImplemented
            if shape[0] > 1:
                assert call["choose"](x, z[:1], numpy.ones(shape, bool), False, False) is NotImplemented
        row = numpy.array([[-numpy.inf] * 3, [0, -numpy.inf, 0], [numpy.nan, -numpy.inf, 0]], dtype)
        y = call["safe_softmax"](row)
        assert y[:2].tolist() == [[0, 0, 0], [0.5, 0, 0.5]] and numpy.isnan(y[2]).all()


SHAPES = [
    (64, 100, 1000), (5, 7, 3), (1, 1, 1), (13, 33, 400), (70, 530, 410), (3, 0, 4), (3, 4, 0),
    (40, 70, 1024), (28, 10, 33), (100, 50, 512), (64, 40, 77), (8, 17, 9),  # rows that clash in the cache, half panels
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
def test_products_of_matrices_of_any_layout(level, shape):
    m, n, k = shape
    random, call = numpy.random.default_rng(1), functions(level)["product_2d"]
    for dtype in FLOATS:
        a, b, bias = (random.normal(size=size).astype(dtype) for size in ((m, k), (k, n), (n,)))
        for x, y in ((a, b), (numpy.asfortranarray(a), b), (a, numpy.asfortranarray(b)), (a[:, ::-1], b[::-1])):
            c = numpy.ones((m, n), dtype)
            assert call(x, y, c, bias, True, True) is None
            exact = 1 + x.astype(numpy.longdouble) @ y.astype(numpy.longdouble) + bias
            assert numpy.allclose(c, exact.astype(float), rtol=0, atol=50 * numpy.finfo(dtype).eps * (k + 1) ** 0.5)


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
def test_products_of_one_row(level):
    """With fewer elements than a vector, and a rest behind whole ones; other layouts and sizes are refused."""
    random, call = numpy.random.default_rng(3), functions(level)["row_product"]
    for dtype, n, k in itertools.product(FLOATS, (1, 7, 8, 19), (1, 5, 16, 37, 784)):
        x, w, bias = (random.normal(size=size).astype(dtype) for size in ((1, k), (n, k + 3), (n,)))
        out, rows, eps = numpy.empty((1, n), dtype), w[:, :k], numpy.finfo(dtype).eps
        for given, more in (((), 0), ((bias,), bias)):
            assert call(x, rows, out, *given, bool(given)) is None
            exact = x.astype(numpy.longdouble) @ rows.T.astype(numpy.longdouble) + more
            assert numpy.allclose(out, exact.astype(float), rtol=0, atol=50 * eps * (k + 1) ** 0.5)
        out[:] = 7
        refused = [(x[0, :0], rows, out), (x, rows[:, :0], out), (x, numpy.empty((n + 1, k), dtype), out)]
        refused += [(x, numpy.asfortranarray(rows), out)] if n > 1 < k else []
        refused += [(numpy.ones((k, 2), dtype)[:, :1], rows, out)] if k > 1 else []
        assert all([call(*arrays, False) is NotImplemented for arrays in refused]) and (out == 7).all()
        assert call(x, rows, out, numpy.ones(n + 1, dtype), True) is NotImplemented and (out == 7).all()


def test_a_linear_layer_of_one_example_is_that_of_several():
    for shape, bias in itertools.product(((16, 5), (40, 33)), (False, True)):
        layer, x = torch.nn.Linear(*shape, bias=bias), torch.randn(5, shape[0], requires_grad=True)
        one, several = [layer(rows) for rows in (x[:1], x)]
        assert numpy.allclose(one.detach(), several.detach()[:1], atol=1e-5)
        one.sum().backward()
        ours, x.grad = x.grad[0], None
        several[0].sum().backward()
        assert numpy.allclose(ours, x.grad[0], atol=1e-5)


@pytest.mark.parametrize("level", kernels.levels() if kernels.level() else [])
def test_bits_of_products_do_not_depend_on_how_they_are_computed(level):
    """Rows of A alone, columns apart, turned, packed or read in place: an element adds up its products in one order."""
    random, call = numpy.random.default_rng(2), functions(level)["product_2d"]
    for dtype, n, k in itertools.product(FLOATS, (96, 160, 1024), (64, 785)):
        a, b, bias = (random.normal(size=size).astype(dtype) for size in ((150, k), (k, n), (n,)))
        shifted = numpy.empty((k, n + 3), dtype)[:, 3:]
        shifted[:] = b
        whole = numpy.empty((150, n), dtype)
        assert call(a, b, whole, bias, False, True) is None
        for m in (1, 2, 7, 12, 16, 33, 64, 150):
            for x, y in ((a, b), (a, numpy.asfortranarray(b)), (numpy.asfortranarray(a), b), (a, shifted)):
                c = numpy.empty((m, n), dtype)
                assert call(x[:m], y, c, bias, False, True) is None and c.tobytes() == whole[:m].tobytes(), (m, n, k)
        part = numpy.empty((150, 40), dtype)
        assert call(a, b[:, 30:70], part, bias[30:70], False, True) is None
        assert part.tobytes() == whole[:, 30:70].tobytes()


# ---------------------------------------------------------------------------------------------------- threads


@pytest.fixture
def threads():
    before = kernels.module().get_num_threads()
    yield kernels.module().set_num_threads
    kernels.module().set_num_threads(before)


def large_results():
    random = numpy.random.default_rng(0)
    x, w = (random.normal(size=size).astype(numpy.float32) for size in ((300, 700), (700, 400)))
    out = numpy.empty((300, 400), numpy.float32)
    call = kernels.function
    call("product_2d")(x, w, out, False, False)
    sums, images = call("add")(x, x[0]), x.ravel()[:73728].reshape(9, 16, 16, 32)
    y, filters = numpy.empty((9, 8, 16, 32), numpy.float32), w.ravel()[:1152].reshape(8, 16, 3, 3)
    grad = numpy.empty_like(filters)
    numbers = (1, 1, 1, 1, 1, 1)  # padding, step, dilation
    assert call("convolve")(images, filters, y, *numbers, False, 1) is None
    assert call("convolve_grad")(images, y, grad, *numbers, False, 1) is None
    at = (abs(x[0, :300]) * 10).astype("int64")
    spread, taken = numpy.zeros((300, 700), numpy.float32), numpy.empty((300, 700), numpy.float32)
    assert call("add_slices")(spread, at, x, 0, -1, False) is None and call("take")(x, at, taken, 0, False) is None
    strided, one = numpy.empty((1, 64, 16, 16), numpy.float32), x.ravel()[:65536].reshape(1, 64, 32, 32)
    assert call("convolve")(one, w.ravel()[:36864].reshape(64, 64, 3, 3), strided, 1, 1, 2, 2, 1, 1, False, 1) is None
    states, gates = numpy.empty((4, 64, 100), numpy.float32), x.ravel()[:76800].reshape(4, 64, 300)
    assert call("gru")(gates, w[:64, :100].copy(), w[:100, :300], states) is None
    results = [call("softmax")(x, -1), call("gelu")(x, False), call("cumsum")(x, -1, True), out, sums, y, grad, strided]
    results += [call("cumsum")(x, -1, False), spread, taken]
    return [*results, states, *whole_products(x), *sampled(x)]


def whole_products(x):
    near, product, most = 1 + x / 1000, numpy.empty((), x.dtype), numpy.empty_like(x)
    places, call = numpy.empty(x.shape, "int64"), kernels.function
    assert call("products")(near, product, 0, 2) is None and abs(product / near.astype(float).prod() - 1) < 1e-3
    assert call("running_extremes")(x, most, places, 0, False) is None
    columns = [call(name)(near, 0, False) for name in ("cumsum", "cumprod")]
    return [product, most, places, *columns, call("softmax")(x, 0), call("log_softmax")(x, 0)]


def sampled(x):
    images, grid = x.ravel()[:131072].reshape(2, 16, 64, 64), x.ravel()[:36864].reshape(2, 96, 96, 2) / 2
    read, grads = numpy.empty((2, 16, 96, 96), x.dtype), (numpy.empty_like(images), numpy.empty_like(grid))
    points, others = x.ravel()[:12000].reshape(1, 750, 16), x.ravel()[12000:24000].reshape(1, 750, 16)
    apart, of_points, call = numpy.empty((1, 750, 750), x.dtype), numpy.empty_like(points), kernels.function
    assert call("sample_images")(images, grid, read, False, True) is None
    assert call("sample_images_grad")(read, images, grid, *grads, False, True) is None
    assert call("distances")(points, others, apart) is None
    assert call("distances_grad")(points, others, apart, apart, of_points, False) is None
    normal, means = numpy.empty_like(images), [numpy.empty((2, 4), x.dtype) for _ in range(2)]
    assert call("normalize")(images, normal, *means, 1e-5, False, False, 2) is None
    rows, of_rows = images.reshape(512, 256), numpy.empty((2, 512, 256), x.dtype)
    columns = [numpy.empty(256, x.dtype) for _ in range(4)]
    assert call("normalize")(rows, of_rows[0], *columns[:2], 1e-5, False, False, 1) is None
    arrays = of_rows[0], rows, *columns[:2], of_rows[1], *columns[2:], columns[0][:0]
    assert call("normalize_grad")(*arrays, 1e-5, True, True, False, 1) is None
    return [read, *grads, apart, of_points, normal, *means, of_rows, *columns]


def same(left, right):
    return all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


def test_results_do_not_depend_on_the_number_of_threads(threads):
    threads(1)
    alone = large_results()
    for number in (2, 3, 8, 1):
        threads(number)
        for _ in range(5):
            assert same(large_results(), alone)


def test_several_threads_of_python_at_once(threads):
    threads(4)
    expected, wrong = large_results(), []

    def work():
        for _ in range(10):
            if not same(large_results(), expected):
                wrong.append(1)

    running = [threading.Thread(target=work) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong


def _in_child(queue):
    queue.put([result.tobytes() for result in large_results()])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork in a process with threads, from Python 3.12 on
def test_a_child_that_is_forked_has_threads_of_its_own(threads):
    threads(3)
    expected = [result.tobytes() for result in large_results()]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join(60)
    assert child.exitcode == 0


# ---------------------------------------------------------------------------------------------------- calls


def test_what_is_not_served_is_declined_and_changes_nothing():
    call = kernels.function("softmax")
    x = numpy.ones((4, 6), numpy.float32)
    for declined in (x.T, x[:, ::2], x.astype(int), x.astype(numpy.float16), x.astype(">f4"), x[:, :0]):
        assert call(declined, -1) is NotImplemented
    assert call("x", 0) is NotImplemented and kernels.function("clamp")(x, 1j, 0) is NotImplemented
    assert kernels.function("clamp")(x, 0, 10**400) is NotImplemented
    grad = kernels.function("sigmoid_grad")
    for scalar in (numpy.float32(1), numpy.float64(1), 1.0, 1):  # reductions of NumPy give scalars for 0-d arrays
        assert grad(scalar, numpy.ones((), numpy.float32)) is NotImplemented
    assert call() is NotImplemented and call(x) is NotImplemented and call(x, 2) is NotImplemented
    assert kernels.function("gelu")(x) is NotImplemented
    assert kernels.function("adam")(x, x, x, x.astype(float), *[0.1] * 6) is NotImplemented
    x.flags.writeable = False
    assert kernels.function("adam")(x, x, x, x, *[0.1] * 6) is NotImplemented
    assert kernels.function("no such kernel") is None


@pytest.mark.parametrize("setting, told", [("0", "None None"), ("base", "base 1.0"), ("1", f"{kernels.level()} 1.0")])
def test_the_environment_chooses(setting, told):
    program = (
        "from plugrad import kernels; import plugrad as torch; assert torch.softmax(torch.ones(4), 0).sum() == 1;"
        "print(kernels.level(), kernels.function('sigmoid') and 1.0)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PLUGRAD_NATIVE": setting}, capture_output=True, text=True
    )
    assert run.stdout.strip() == told, run.stderr


@pytest.mark.parametrize("change", [{"PLUGRAD_NATIVE": "0"}, {"CC": "no-such-compiler", "PATH": ""}])
def test_packages_with_kernels_in_c_run_without_these(change, tmp_path):
    package = pathlib.Path(__file__).parents[2] / "examples" / "guests" / "plugrad-swiglu" / "src"
    program = (
        "import plugrad_swiglu, plugrad as torch; from plugrad.extend import register; register(plugrad_swiglu.swiglu);"
        "x = torch.ones(3, requires_grad=True); torch.swiglu(x, x).sum().backward();"
        "print(plugrad_swiglu.swiglu_in_c is None, round(x.grad[0].item(), 3))"
    )
    environment = {**os.environ, "PYTHONPATH": str(package), "PLUGRAD_CACHE": str(tmp_path), **change}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert run.stdout.split()[-1] == "1.659", run.stderr


def test_a_file_of_source_is_compiled_and_its_errors_name_it(tmp_path):
    source = tmp_path / "mine.c"
    source.write_text("int twice(const pg_array *a, const double *s) { return 1; }")
    assert load_inline(c=source, name="twice", arrays=1)(numpy.ones(2)) is NotImplemented
    source.write_text("int twice(const pg_array *a, const double *s) {\n    return b;\n}")
    with pytest.raises(kernels.CompilationError, match="mine.c:2"):
        load_inline(c=source, name="twice", arrays=1)
    if not torch.cuda.is_available():
        kernel = load_inline(cuda="template <typename T> __global__ void f(long long n) {}", name="f", arrays=1)
        with pytest.raises(RuntimeError, match="f is a kernel for CUDA, which can't be used here: "):
            kernel(numpy.ones(2))
    for wrong in ({}, {"c": "int f;", "cuda": "int f;"}):
        with pytest.raises(TypeError, match="c= or cuda="):
            load_inline(name="f", arrays=1, **wrong)


def test_sources_of_kernels_for_cuda_are_in_the_wheel():
    root = pathlib.Path(__file__).parents[2]
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    packed = set()
    for package, patterns in settings["package-data"].items():
        place = root / settings["package-dir"].get(package, package)
        packed |= {file for pattern in patterns for file in place.glob(pattern)}
    wanted = {file for folder in ("plugins", "surface") for file in (root / folder).rglob("*.cu*")}
    assert wanted and wanted <= packed


def test_a_level_that_does_not_exist_is_told():
    program = "from plugrad import kernels; print(kernels.level())"
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PLUGRAD_NATIVE": "v9"}, capture_output=True, text=True
    )
    assert "PLUGRAD_NATIVE=v9 is none of 0, 1, base" in run.stderr and run.stdout.strip() == kernels.level()


# ---------------------------------------------------------------------------------------------------- BLAS


STEPS = {
    "rows": (lambda nn: nn.Linear(64, 160), (80, 64)),
    "rows of sequences": (lambda nn: nn.Linear(64, 160), (8, 16, 64)),
    "one row": (lambda nn: nn.Linear(512, 256), (1, 512)),
    "convolution": (lambda nn: nn.Conv2d(8, 16, 3), (8, 8, 16, 16)),
    "attention": (lambda nn: nn.TransformerEncoderLayer(64, 4, 160, dropout=0.0, batch_first=True), (8, 32, 64)),
    "LSTM": (lambda nn: nn.LSTM(40, 64, batch_first=True), (16, 12, 40)),
    "GRU": (lambda nn: nn.GRU(40, 64, batch_first=True), (16, 12, 40)),
}


@pytest.mark.parametrize("name", STEPS)
def test_no_large_product_of_a_step_is_left_to_threads_of_the_blas(name, monkeypatch):
    """They spin for some time after each product, where threads of kernels in C are to run."""
    make, shape = STEPS[name]
    layer, x, found, plain = make(torch.nn), torch.randn(*shape, requires_grad=True), [], numpy.matmul

    def step():
        result = layer(x)
        (result[0] if isinstance(result, tuple) else result).square().sum().backward()

    def matmul(a, b, **options):
        found.extend([("matmul", a.shape, b.shape)] * (max(a.size, b.size) > 9000))
        return plain(a, b, **options)

    def called(frame, event, function):
        one = getattr(function, "__self__", None)
        if event == "c_call" and function.__name__ == "dot" and isinstance(one, numpy.ndarray):
            found.append(("dot", frame.f_code.co_name, one.shape))

    step()
    monkeypatch.setattr(numpy, "matmul", matmul)
    before = sys.getprofile()
    sys.setprofile(called)
    try:
        step()
    finally:
        sys.setprofile(before)
    assert not found
