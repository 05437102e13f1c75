"""Kernels in C that choose, count, move and weigh elements against those of NumPy: ties, signed zeros, NaN."""

import itertools
import math

import numpy
import pytest

import plugrad as torch
from plugrad import kernels, registry

pytestmark = pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
LEVELS = kernels.levels() if kernels.level() else []
FLOATS = (numpy.float32, numpy.float64)
SPECIAL = (numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0, 1e-42, -1e-42, 1.0, 1.0)


def both(level, name, *args):
    """Return what the kernel in C, of a level, and the one in Python give."""
    record, call = registry.ops[name], kernels.module().kernels(level)[1]
    kernel = record.kernels["cpu"]
    with numpy.errstate(all="ignore"):
        return kernel.adapter(call[kernel.native], numpy, *args), record.kernels["*"](numpy, *args)


def same(ours, theirs) -> bool:
    """Whether results are in the same bits, but for those of NaN."""
    if isinstance(theirs, tuple):
        return all(map(same, ours, theirs))
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    numbers = ours == ours if ours.dtype.kind == "f" else numpy.ones(ours.shape, bool)
    return numpy.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f") and numpy.array_equal(
        numpy.signbit(ours[numbers]), numpy.signbit(theirs[numbers])
    )


def drawn(random, shape, dtype, kinds=5):
    """Numbers with many ties, and special ones among them."""
    x = random.integers(-kinds, kinds, shape).astype(dtype)
    return numpy.where(random.random(shape) < 0.3, random.choice(SPECIAL, shape), x).astype(dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [1, 2, 3, 16, 100, 257, 1500])
def test_medians(level, n):
    random = numpy.random.default_rng(n)
    for dtype, special, name in itertools.product(FLOATS, (False, True), ("median", "nanmedian")):
        x = drawn(random, (7, n), dtype) if special else random.normal(size=(7, n)).astype(dtype)
        x[3] = numpy.nan
        for given, dim, keep in ((x, 1, False), (x, 1, True), (x.T, 0, False), (x, 0, False), (x[:, ::-1], 1, True)):
            assert same(*both(level, name, given, dim, keep)), (dtype, special, name, dim, keep)
        assert same(*both(level, f"{name}_all", x))
        assert same(*both(level, f"{name}_all", x[:1]))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shape", [(1,), (5,), (300,), (3, 4), (2, 3, 40)])
def test_what_there_is_and_where(level, shape):
    random = numpy.random.default_rng(1)
    for dtype in FLOATS:
        x = drawn(random, shape, dtype)
        assert same(*both(level, "nonzero_rows", x))
        once = numpy.where(x == x, x, 7).astype(dtype) + dtype(0)  # NumPy has others in any order
        once.flat[0] = numpy.nan
        assert same(*both(level, "unique_parts", once))
        assert same(*both(level, "max_all", x)) and same(*both(level, "min_all", x))
        for wanted in ("bool", "uint8", "int8", "int32", "int64"):
            assert same(*both(level, "nonzero_rows", numpy.nan_to_num(x, posinf=3, neginf=0).astype(wanted)))
    labels = random.integers(0, 6, shape)
    assert same(*both(level, "one_hot", labels, 6)) and same(*both(level, "one_hot", labels, 9))
    assert same(*both(level, "bincount", labels.ravel())) and same(*both(level, "bincount", labels.ravel(), None, 20))
    call = kernels.module().kernels(level)[1]
    for wrong in (labels - 7, labels + 60):
        assert call["one_hot"](wrong, numpy.empty((*shape, 6), "int64")) is NotImplemented


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 9), (5, 16), (33, 100), (3, 5000), (4, 3, 17), (2, 40, 5)])
def test_extremes_and_their_places(level, shape):
    random = numpy.random.default_rng(3)
    for dtype, dim, keep in itertools.product(FLOATS, range(-len(shape), len(shape)), (False, True)):
        for x in (drawn(random, shape, dtype), drawn(random, shape, dtype, 1), random.normal(size=shape).astype(dtype)):
            for name in ("max", "min"):
                assert same(*both(level, name, x, dim, keep)), (name, dtype, dim, keep)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_moved(level):
    random = numpy.random.default_rng(2)
    for dtype in FLOATS:
        x = drawn(random, (2, 8, 6, 9), dtype)
        for dim, shift in itertools.product(range(-4, 4), (0, 1, -2, 5, 1000)):
            assert same(*both(level, "roll", x, shift, dim))
        assert same(*both(level, "pixel_shuffle", x, 2)) and same(*both(level, "pixel_shuffle", x, 1))
        assert same(*both(level, "pixel_unshuffle", x, 3))
        for sizes in itertools.product(((1, 1), (2, 3), (3, 3)), ((1, 1), (2, 1)), ((0, 0), (1, 2)), ((1, 1), (2, 3))):
            ours, theirs = both(level, "im2col", x, *sizes)
            assert same(ours, theirs), sizes
            with numpy.errstate(invalid="ignore"):
                assert same(*both(level, "col2im", ours, (6, 9), *sizes)), sizes
        for pad in ((1, 1, 1, 1), (3, 0, 0, 2), (-1, 2, 0, -2), (1, 2, 3, 0, 1, 1, 2, 0), (0, 40)):
            assert same(*both(level, "constant_pad_nd", x, pad, -0.0)), pad
        for pad, mode in itertools.product(((1, 1), (1, 2, 3, 0), (5, 0, 1, 4)), ("reflect", "replicate", "circular")):
            assert same(*both(level, "pad_copy", x, pad, mode)), (pad, mode)


def arrangements():
    """Return arrays of many types whose dimensions are in another order than their memory, or have gaps in it."""
    random = numpy.random.default_rng(0)
    shapes = (70, 33), (5, 40, 24), (3, 16, 17, 20), (2, 3, 4, 5, 70), (2048, 20), (1, 64, 1, 32)
    for shape, dtype in itertools.product(shapes, ("f4", "f8", "f2", "i1", "?", "i4", "i8", "c8")):
        whole = random.integers(0, 100, [n + 1 for n in shape]).astype(dtype)
        for order in [*itertools.permutations(range(len(shape)))][:: max(1, math.factorial(len(shape)) // 5)]:
            yield whole[tuple(slice(0, n) for n in shape)].transpose(order)
            yield whole[tuple(slice(1, None) for n in shape)].transpose(order)
        yield whole[..., ::2].transpose()
        yield whole[::-1].transpose()
        yield numpy.broadcast_to(whole, (3, *whole.shape)).swapaxes(0, 1)
    rows = numpy.arange(512 * 520.0).reshape(520, 512)
    yield from (rows.T, rows.astype("f4").T, rows[:, :500].T)
    blocks = numpy.arange(3 * 70001.0).reshape(3, 70001)  # rows of many blocks, some of which threads copy
    yield from (blocks, blocks[:, 1:], blocks[1:, :70000].astype("f4"), blocks[:, :513], blocks.ravel().astype("i1"))


@pytest.mark.parametrize("level", LEVELS)
def test_copies_in_another_order(level):
    arrange = kernels.module().kernels(level)[1]["arrange"]
    served = {}
    for array in arrangements():
        result = numpy.zeros(array.shape, array.dtype)
        if arrange(array, result) is None:
            served[array.dtype.char] = served.get(array.dtype.char, 0) + 1
            assert (result == array).all(), (array.shape, array.strides, array.dtype)
        else:
            assert not result.any()
    assert all(served.get(char, 0) > 5 for char in "fdeb?il"), served
    turned = numpy.zeros((4, 5), "f4").T
    assert arrange(turned, turned) is NotImplemented  # the result has no contiguous rows


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 400, 301), (70000, 2, 1), (1, 1, 100003), (2, 3, 5)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "c16"])
def test_arrays_that_threads_join(shape, dim, dtype):
    arrays = [numpy.arange(math.prod(shape)).reshape(shape).astype(dtype) for _ in range(3)]
    arrays[1] = arrays[1][(slice(None),) * dim + (slice(0, 1),)].copy() + 1
    tensors = [torch.from_numpy(array) for array in arrays]
    assert numpy.array_equal(torch.cat(tensors, dim).numpy(), numpy.concatenate(arrays, dim))
    assert numpy.array_equal(torch.stack(tensors[::2], dim).numpy(), numpy.stack(arrays[::2], dim))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int8, torch.complex128])
def test_long_copies(dtype):
    x = torch.arange(300 * 401).reshape(300, 401).to(dtype)
    for view in x, x.t(), x[:, 1:], x[1:, ::2], x.flip(0), x[:1].expand(90, 401), x.reshape(2, 150, 401).mT:
        assert torch.equal(view.clone(), view)
        assert 0 in view.stride() or view.clone().stride() == torch.from_numpy(view.numpy().copy("K")).stride()
        assert torch.equal(torch.empty_like(view).copy_(view), view)
        assert torch.equal(torch.zeros(view.shape, dtype=dtype).copy_(view), view)
    assert torch.equal(x.clone().copy_(x.clone()), x) and x.copy_(x) is x
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].copy_(x[:-1])


def test_gradients_that_are_copied():
    """Leaves that share one gradient, or see a part of it, each get memory of their own."""
    g = torch.randn(700, 300)
    x, y, z = (torch.randn(700, 300, requires_grad=True) for _ in range(3))
    (x + y).backward(g)
    torch.cat([z.t(), torch.zeros(1, 700)]).backward(torch.cat([g.t(), g.new_ones(1, 700)]))
    for leaf in x, y, z:
        assert torch.equal(leaf.grad, g) and leaf.grad.is_contiguous()
        leaf.grad.zero_()
    assert g.count_nonzero() == g.numel()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.complex64])
@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 2, 3, 1), (3, 1, 2, 0), (0, 3, 1, 2)])
def test_copies_of_tensors_in_another_order(order, dtype):
    """What is copied in C is in the order that the copies of small tensors have, which NumPy makes."""
    for shape in (16, 9, 12, 20), (2, 3, 2, 4):
        x = torch.arange(math.prod(shape)).reshape(shape).to(dtype).permute(order)
        expected = numpy.ascontiguousarray(x.float().numpy() if dtype is torch.bfloat16 else x.numpy())
        nhwc = x.clone(memory_format=torch.channels_last)
        assert nhwc.is_contiguous(memory_format=torch.channels_last)
        rows = expected.reshape(shape[order[0]], -1)
        copies = x.contiguous(), x.clone(memory_format=torch.contiguous_format), nhwc, x.clone()
        for copy, wanted in (*((copy, expected) for copy in copies), (x.reshape(len(x), -1), rows)):
            assert (copy.float() if dtype is torch.bfloat16 else copy).numpy().tobytes() == wanted.tobytes()
        assert copies[0].is_contiguous() and copies[1].is_contiguous() 
        flat = x.reshape(len(x), -1, shape[order[3]])
        joined = torch.cat([flat, flat.transpose(1, 2).contiguous().transpose(1, 2)], 1)
        assert joined.is_contiguous() and (joined[:, : flat.shape[1]] == flat).all()
        assert (joined[:, flat.shape[1] :] == flat).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "linear corners", "cubic", "linear antialias"])
def test_images_of_other_sizes(level, mode):
    random = numpy.random.default_rng(3)
    for dtype, size in itertools.product(FLOATS, ((5, 3), (1, 1), (11, 17), (6, 9))):
        x = random.normal(size=(2, 3, 6, 9)).astype(dtype)
        scales = (6 / size[0], 9 / size[1])
        bound = 8 * numpy.finfo(dtype).eps
        if mode.startswith("nearest"):
            x[0, 0, 0, :5] = SPECIAL[:5]
            assert same(*both(level, "resample", x, size, scales, mode))
        else:
            ours, theirs = both(level, "resample", x, size, scales, mode)
            assert numpy.allclose(ours, theirs, rtol=bound, atol=bound)
        g = random.normal(size=(2, 3, *size)).astype(dtype)
        ours, theirs = both(level, "resample_grad", g, x.shape, scales, mode)
        assert numpy.allclose(ours, theirs, rtol=8 * bound, atol=8 * bound)


@pytest.mark.parametrize("level", LEVELS)
def test_labelled_rows(level):
    random = numpy.random.default_rng(4)
    for dtype, reduction, ignored in itertools.product(FLOATS, ("none", "mean", "sum"), (-100, 2)):
        x, labels = random.normal(size=(9, 5)).astype(dtype), random.integers(0, 5, 9)
        x[labels == ignored] = numpy.nan
        ours, theirs = both(level, "nll", x, labels, None, ignored, reduction)
        assert numpy.allclose(ours, theirs, rtol=1e-6) and ours.shape == theirs.shape
        g = random.normal(size=theirs.shape).astype(dtype)
        ours, theirs = both(level, "nll_grad", g, labels, None, ignored, reduction, x.shape)
        assert numpy.allclose(ours, theirs, rtol=1e-6) and ours.dtype == dtype
    nothing = both(level, "nll", x, numpy.full(9, 3), None, 3, "mean")
    assert numpy.isnan(nothing).all()
    call = kernels.module().kernels(level)[1]
    assert call["nll"](x, numpy.full(9, 5), numpy.empty((), dtype), -100, 1) is NotImplemented


@pytest.mark.parametrize("level", LEVELS)
def test_gates_and_limits(level):
    random = numpy.random.default_rng(5)
    for dtype in FLOATS:
        x = numpy.concatenate([random.normal(size=3000) * 30, SPECIAL, [-88.0, 100.0, -104.0, 800.0, -800.0, 3e38]])
        x = x[: len(x) // 2 * 2].astype(dtype)
        ours, _ = both(level, "logsigmoid", x)
        with numpy.errstate(all="ignore"):
            wide = x.astype(numpy.longdouble)
            exact = numpy.minimum(wide, 0) - numpy.log1p(numpy.exp(-abs(wide)))
        with numpy.errstate(invalid="ignore"):
            off = abs(ours - exact) / numpy.spacing(abs(exact).astype(dtype))
        assert not (off[numpy.isfinite(off)] > 2).any() and numpy.array_equal(numpy.isnan(ours), numpy.isnan(x))
        ours, theirs = both(level, "glu", x.reshape(2, -1), 0)
        assert numpy.allclose(ours, theirs, rtol=4 * numpy.finfo(dtype).eps, atol=0, equal_nan=True)
        assert same(*both(level, "hardtanh", x, -1.5, 2.0)) and same(*both(level, "hardtanh", x, 0, 6))


@pytest.mark.parametrize("level", LEVELS)
def test_lists_in_the_place_of_arrays(level):
    call = kernels.module().kernels(level)[1]["sgd"]
    parameters = [numpy.ones((2, 3)), numpy.ones(5, "float32"), numpy.ones(0), numpy.ones((2, 2)).T]
    assert call(parameters, [numpy.ones_like(p) for p in parameters], 0.5, 0.0) == [3]
    assert all((p == 0.5).all() for p in parameters[:3]) and (parameters[3] == 1).all()
    apart = [numpy.ones(3), numpy.ones(6)[::2], numpy.ones(3)]
    assert call(apart, [numpy.ones(3)] * 3, 0.5, 0.0) == [1] and [p[0] for p in apart] == [0.5, 1, 0.5]
    fixed = numpy.ones(3)
    fixed.flags.writeable = False
    assert call([fixed, apart[0]], [numpy.ones(3)] * 2, 0.5, 0.0) == [0] and fixed[0] == 1 and apart[0][0] == 0
    one = [numpy.ones(3)]
    for wrong in ((one, [], 0.5, 0.0), (one, numpy.ones(3), 0.5, 0.0), (one, one, 0.5), ([None], [None], 0.5, 0.0)):
        assert call(*wrong) in (NotImplemented, [0])
    assert call([], [], 0.5, 0.0) == []


@pytest.mark.parametrize("level", LEVELS)
def test_arrays_whose_elements_stand_for_many(level):
    call = kernels.module().kernels(level)[1]
    one = numpy.broadcast_to(numpy.array([-1.0, 2.0]), (3, 2))
    assert numpy.array_equal(call["relu"](one), [[0, 2]] * 3)
    assert numpy.array_equal(call["relu_grad"](numpy.broadcast_to(1.0, (3, 2)), call["relu"](one)), [[0, 1]] * 3)
    target = numpy.lib.stride_tricks.as_strided(numpy.zeros(1), (4,), (0,))
    assert call["sgd"](target, numpy.ones(4), 0.5, 0.0) is NotImplemented and target[0] == 0


@pytest.mark.parametrize(
    "name, options", [("SGD", {"momentum": 0.9}), ("SGD", {}), ("Adam", {}), ("RMSprop", {}), ("Adagrad", {})]
)
def test_a_step_of_parameters_of_all_kinds(name, options, monkeypatch):
    """As one by one: of other types, layouts and sizes, among them none; some without a gradient."""

    def steps(lists):
        torch.manual_seed(0)
        leaves = [torch.randn(3, 4), torch.randn(4, 3).t(), torch.randn(0), torch.randn(5, dtype=torch.float64)]
        leaves += [torch.randn(()), torch.randn(2, 2), torch.randn(7), torch.randn(9)]
        leaves = [leaf.detach().requires_grad_() for leaf in leaves]
        optimizer = getattr(torch.optim, name)(leaves, lr=0.1, **options)
        kernel = type(optimizer).kernels["cpu"][1]
        monkeypatch.setattr(kernel, "lists", lists)
        for _ in range(3):
            for k, leaf in enumerate(leaves):
                leaf.grad = None if k == 5 else (leaf.detach() * 2 + k).clone()
            optimizer.step()
        return [leaf.detach().numpy().copy() for leaf in leaves]

    assert all(map(numpy.array_equal, steps(True), steps(False)))
