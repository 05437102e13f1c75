"""Pooling on CUDA by plugrad's own kernels, against the CPU's results."""

import functools

import numpy
import pytest

import plugrad as torch

F, inf = torch.nn.functional, numpy.inf
DTYPES = ["float32", "float64", "float16", "bfloat16"]
BOUNDS = {"float32": 1e-5, "float64": 1e-12, "float16": 5e-3, "bfloat16": 4e-2}


def results_of(compute, x, device, slope=None):
    """What `compute` gives on a device for a leaf, and the leaf's gradient."""
    leaf = x.to(device).detach().requires_grad_()
    found = compute(leaf)
    found = found if isinstance(found, tuple) else (found,)
    y = found[0]
    slope = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).reshape(y.shape) if slope is None else slope
    y.backward(slope.to(device, y.dtype))
    return [one.detach() for one in found] + [leaf.grad]


def agree(compute, x, slope=None):
    """Whether both devices give the same, in the same order of memory."""
    here, there = (results_of(compute, x, device, slope) for device in ("cpu", "cuda"))
    bound = BOUNDS[str(x.dtype).removeprefix("torch.")]
    for a, b in zip(here, there, strict=True):
        assert a.shape == b.shape and a.is_contiguous() == b.is_contiguous()
        torch.testing.assert_close(b.cpu(), a, rtol=bound, atol=bound, equal_nan=True)


SLIDING = [
    ((2, 3, 9), {"kernel_size": 2}), ((3, 9), {"kernel_size": 3, "stride": 1, "padding": 1}),
    ((2, 3, 8, 7), {"kernel_size": 2}), ((2, 3, 8, 7), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((2, 3, 8, 7), {"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0), "ceil_mode": True}),
    ((3, 5, 6), {"kernel_size": 5, "stride": 1, "padding": 2}), ((2, 1, 1, 1), {"kernel_size": 3, "padding": 1}),
    ((2, 2, 11, 10), {"kernel_size": 9, "stride": 1, "padding": 4}), ((0, 3, 8, 7), {"kernel_size": 2}),
    ((2, 2, 5, 6, 4), {"kernel_size": 2}), ((2, 2, 5, 6, 4), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 2, 5, 6, 4), {"kernel_size": 3, "stride": 1, "padding": 1, "ceil_mode": True}),
    ((1, 2, 7, 9), {"kernel_size": 2, "stride": 4, "ceil_mode": True}),
    ((1, 2, 7, 9), {"kernel_size": (7, 9)}), ((1, 2, 70, 9), {"kernel_size": (7, 9), "stride": 5, "padding": (3, 4)}),
]  # fmt: skip
DILATED = [
    ((2, 3, 9), {"kernel_size": 3, "dilation": 2}),
    ((2, 3, 9, 8), {"kernel_size": 3, "dilation": (2, 3), "padding": 1}),
    ((2, 2, 9, 8), {"kernel_size": (2, 3), "dilation": (3, 2), "stride": 1, "ceil_mode": True}),
    ((1, 2, 5, 6, 4), {"kernel_size": 2, "dilation": 2, "stride": 1, "padding": 1}),
    ((1, 1, 1), {"kernel_size": 2, "dilation": 2, "padding": 1}),
    ((1, 2, 20, 20), {"kernel_size": 9, "dilation": 2, "stride": 1, "padding": 4}),
]  # fmt: skip
FORMS = {
    "as it is": lambda x: x, "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "strided": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0), "expanded": lambda x: x[:1].expand(x.shape),
}  # fmt: skip


def dimensions(shape):
    return 1 if len(shape) < 4 and shape != (3, 5, 6) else min(len(shape) - 2, 3) if len(shape) > 3 else 2


def drawn(shape, dtype, steps=False):
    """Random elements, of which many are equal with `steps`."""
    torch.manual_seed(3)
    x = torch.randn(shape, dtype=torch.float64)
    return ((2 * x).round() if steps else x).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, options", SLIDING + DILATED)
def test_maxima(shape, options, dtype, launched):
    pool = getattr(F, f"max_pool{dimensions(shape)}d")
    for steps in (False, True):
        x = drawn(shape, dtype, steps)
        agree(lambda x: pool(x, **options), x)
        agree(lambda x: pool(x, **options, return_indices=True), x)
    if 0 not in shape:
        assert {"max_pool", "max_pool_places"} <= {*launched} and any("grad" in name for name in launched)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, options", SLIDING)
def test_means(shape, options, dtype, launched):
    n = dimensions(shape)
    pool, more = getattr(F, f"avg_pool{n}d"), [{"count_include_pad": False}, {}]
    for other in more if n == 1 else [*more, {"divisor_override": 3}]:
        agree(functools.partial(pool, **options, **other), drawn(shape, dtype))
    assert 0 in shape or {*launched} == {"avg_pool", "avg_unpool"}


ADAPTIVE = [
    ((2, 3, 9), 4), ((2, 3, 4), 9), ((2, 3, 8, 7), (1, 1)), ((2, 3, 8, 7), (3, 5)), ((3, 8, 7), (None, 2)),
    ((2, 3, 20, 30), 1), ((2, 3, 20, 30), (1, 4)), ((2, 2, 5, 6, 4), (2, 4, 3)), ((0, 3, 8, 7), (3, 5)),
    ((2, 1, 1, 1), 3),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, size", ADAPTIVE)
def test_nearly_equal_parts(shape, size, dtype, launched):
    n = 1 if isinstance(size, int) and len(shape) == 3 else len(size) if isinstance(size, tuple) else 2
    x = drawn(shape, dtype, steps=True)
    agree(lambda x: getattr(F, f"adaptive_avg_pool{n}d")(x, size), x)
    agree(lambda x: getattr(F, f"adaptive_max_pool{n}d")(x, size, return_indices=True), x)
    if 0 not in shape:
        assert launched[:3] == ["avg_pool", "avg_unpool", "max_pool_places"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape, options", [one for one in SLIDING if len(one[0]) == 4])
def test_other_orders_of_memory(shape, options, form):
    x = drawn(shape, "float64", steps=True)
    for pool in (F.max_pool2d, F.avg_pool2d):
        agree(lambda x, pool=pool: pool(FORMS[form](x), **options), x)
    agree(lambda x: F.max_pool2d(FORMS[form](x), **options, return_indices=True), x)


@pytest.mark.parametrize("options", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2}, {"kernel_size": 9}])
def test_infinities_and_nan(options):
    x = drawn((2, 3, 12, 11), "float32", steps=True)
    x[0, 0, :5], x[0, 1, 3], x[1, 0, 2:8, 2:9], x[1, 2, :, 4] = -inf, inf, float("nan"), float("nan")
    agree(lambda x: F.max_pool2d(x, **options, return_indices=True), x)
    agree(lambda x: F.max_pool2d(x, **options), x)
    agree(lambda x: F.avg_pool2d(x, **options), x)
    y = F.max_pool2d(x, **options)
    slope = torch.where(torch.arange(y.numel()).reshape(y.shape) % 3 == 0, inf, 1.0)
    agree(lambda x: F.max_pool2d(x, **options), drawn((2, 3, 12, 11), "float32", steps=True), slope)


def test_second_gradients():
    found = []
    for device in ("cpu", "cuda"):
        x = drawn((2, 3, 7, 8), "float64").to(device).requires_grad_()
        for pool in (F.max_pool2d, F.avg_pool2d):
            (g,) = torch.autograd.grad(pool(x.sin(), 3, 2, 1).pow(3).sum(), x, create_graph=True)
            found.append(torch.autograd.grad((g * g).sum(), x)[0].cpu())
    for here, there in zip(found[:2], found[2:]):
        torch.testing.assert_close(there, here)


def test_integers_and_what_the_kernels_do_not_serve():
    x = torch.arange(2 * 3 * 6).reshape(1, 2, 3, 6) * 7 % 11
    for dtype in (torch.int32, torch.int64, torch.uint8):
        found = [F.max_pool2d(x.to(device, dtype), 2, 1, return_indices=True) for device in ("cpu", "cuda")]
        for here, there in zip(*found):
            assert torch.equal(here, there.cpu())
    assert torch.equal(F.avg_pool2d(x, 2), F.avg_pool2d(x.cuda(), 2).cpu())


@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
@pytest.mark.parametrize("kernel", [3, 9])
def test_in_any_order_of_threads(pool, kernel, stand_in):
    found, x = [], torch.randn(2, 3, 9, 10)
    for order in (0, 1, 7, 99991):
        stand_in.set_order(order)
        try:
            found.append(results_of(lambda x: pool(x, kernel, 1, kernel // 2), x, "cuda"))
        finally:
            stand_in.set_order(0)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


@pytest.mark.parametrize("pool, backward", [
    (lambda x: F.max_pool2d(x, 2), 1), (lambda x: F.max_pool2d(x, 3, 2, 1), 2), (lambda x: F.max_pool2d(x, 5, 1, 2), 2),
    (lambda x: F.avg_pool2d(x, 3, 2, 1), 1), (lambda x: F.adaptive_avg_pool2d(x, 1), 1),
])  # fmt: skip
def test_how_many_kernels_are_launched(pool, backward, stand_in):
    x = torch.randn(2, 3, 9, 10).cuda().requires_grad_()
    counted = []
    for _ in range(2):
        before = stand_in.counts()["launches"]
        y = pool(x)
        between, g = stand_in.counts()["launches"], torch.ones_like(y)
        start = stand_in.counts()["launches"]
        torch.autograd.grad(y, x, g)
        counted = [between - before, stand_in.counts()["launches"] - start]
    assert counted == [1, backward]
