"""Which element stands for a window: ties, NaN, infinities, padding, windows that overlap or leave gaps, as PyTorch."""

import math

import numpy
import pytest

import plugrad

pytorch = pytest.importorskip("torch")

CASES = 60
NAN, INF = float("nan"), float("inf")


def geometry(random, n):
    """Draw sizes, and what a pooling takes; no window lies in padding alone, where PyTorch reads foreign memory."""
    kernel = random.integers(1, 4, n)
    dilation = numpy.where(random.random(n) < 0.2, 2, 1)
    padding = numpy.where(dilation == 1, random.integers(0, kernel // 2 + 1), 0)
    length = random.integers(1, 8, n) + dilation * (kernel - 1)
    options = dict(kernel_size=kernel, stride=random.integers(1, 4, n), padding=padding, dilation=dilation)
    return length.tolist(), {name: values.tolist() for name, values in options.items()}


def results(T, x, n, options):
    x = T.from_numpy(x.copy()).requires_grad_()
    y = getattr(T.nn.functional, f"max_pool{n}d")(x, **options)
    y, *places = y if isinstance(y, tuple) else (y,)
    y.backward(T.arange(1.0, y.numel() + 1, dtype=y.dtype).reshape(y.shape))
    return [y.detach().numpy(), x.grad.numpy(), *(place.numpy() for place in places)]


@pytest.mark.parametrize("lead", [(2, 3), (5,), (70, 2)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_element_that_stands_for_a_window(n, lead):
    random = numpy.random.default_rng(n)
    pools = [[0, 1, 2, -1], [0, 1, NAN], [NAN, -INF, -INF, -INF], [INF, -INF, 1], [-INF], [NAN]]
    for _ in range(CASES):
        length, options = geometry(random, n)
        options |= {"ceil_mode": bool(random.random() < 0.4), "return_indices": bool(random.random() < 0.5)}
        pool = pools[random.integers(len(pools))]
        x = random.choice(numpy.array(pool, random.choice(["f4", "f8"])), size=(*lead, *length))
        for ours, theirs in zip(results(plugrad, x, n, options), results(pytorch, x, n, options), strict=True):
            numpy.testing.assert_array_equal(ours, theirs, err_msg=f"{x.shape} {options}")


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("order", [math.inf, -math.inf])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_powers_without_end(n, order, ceil_mode):
    """Windows of infinite order have the largest or the smallest size of their elements."""
    results = []
    for T in (pytorch, plugrad):
        x = (T.arange(150.0) * 7 % 31 - 15).view(1, *[2, 3, 5, 5][-n - 1 :], -1).flatten(-2).requires_grad_()
        y = getattr(T.nn.functional, f"lp_pool{n}d")(x, order, 2, None, ceil_mode)
        y.sum().backward()
        results.append((y.tolist(), x.grad.tolist()))
    assert results[0] == results[1]
