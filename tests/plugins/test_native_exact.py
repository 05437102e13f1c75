"""Remainders, and halves from floats and back, in C: in the bits of NumPy and ml_dtypes, at every level."""

import ml_dtypes
import numpy
import pytest

import plugrad
from plugrad import kernels

pytestmark = pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
LEVELS = kernels.levels() if kernels.level() else []
HALVES = (numpy.float16, ml_dtypes.bfloat16)


def function(level, name):
    return kernels.module().kernels(level)[1][name]


def pairs(dtype):
    """Yield numbers and divisors: special ones with each other, of all magnitudes, multiples, and one beside many."""
    random, info, n = numpy.random.default_rng(0), numpy.finfo(dtype), 20_000
    special = [0.0, 1, 0.5, 3, 7.3, 1e10, 1e-10, numpy.inf, numpy.nan, info.max, info.tiny, info.smallest_subnormal]
    special = numpy.array([*special, *numpy.negative(special)], dtype)
    yield numpy.repeat(special, special.size), numpy.tile(special, special.size)
    of_all_sizes = random.normal(size=(2, n)) * 10.0 ** random.integers(-20, 20, (2, n))
    yield tuple(of_all_sizes.astype(dtype))
    divisors = random.normal(size=n).astype(dtype)
    for factors in random.integers(-2000, 2000, n).astype(dtype), random.integers(1, 1 << 22, n).astype(dtype):
        yield factors * divisors, divisors
    yield random.uniform(-9, 9, n + 3).astype(dtype), numpy.array([0.3], dtype)
    yield numpy.array([7.5], dtype), divisors


def remainder(x, z):
    result = numpy.remainder(x, z)
    return numpy.where(result == 0, numpy.copysign(result, numpy.broadcast_to(x, result.shape)), result)


@pytest.mark.parametrize(
    ("name", "exact"), {"fmod": numpy.fmod, "remainder": remainder, "floor_divide": numpy.floor_divide}.items()
)
@pytest.mark.parametrize("level", LEVELS)
def test_remainders(level, name, exact):
    for dtype in (numpy.float32, numpy.float64):
        for x, z in pairs(dtype):
            with numpy.errstate(all="ignore"):
                wanted = exact(x, z)
            actual = function(level, name)(x, z)
            assert numpy.array_equal(actual, wanted, equal_nan=True)
            counts = ~numpy.isnan(wanted)
            assert numpy.array_equal(numpy.signbit(actual)[counts], numpy.signbit(wanted)[counts])


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "float32"])
def test_remainders_beside_numbers_are_those_of_arrays(dtype):
    """Numbers come to the kernels as arrays of the type; those it can't hold, and floats beside integers, do not."""
    x, whole = plugrad.tensor([0, 1, 5, 77, 100], dtype=getattr(plugrad, dtype)), dtype != "float32"
    named = plugrad.fmod, plugrad.remainder, plugrad.floor_divide
    for call in (plugrad.Tensor.__mod__, plugrad.Tensor.__floordiv__, *named):
        for number in (7, 3, *(() if dtype == "uint8" else (-7,))):
            actual, wanted = call(x, number), call(x, plugrad.full_like(x, number))
            assert actual.dtype is x.dtype and plugrad.equal(actual, wanted)
        halved = call(x, 2.5)
        assert halved.dtype is plugrad.float32 and plugrad.equal(halved, call(x.float(), plugrad.tensor(2.5)))
        for wrong, error in ((0, RuntimeError), (1 << 70, OverflowError)):
            if wrong or whole:
                with pytest.raises(error):
                    call(x, wrong)
    assert plugrad.equal(7 % (x + 1), plugrad.full_like(x, 7) % (x + 1))


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("level", LEVELS)
def test_every_half_as_a_float(level, half):
    halves, floats = numpy.arange(1 << 16, dtype=numpy.uint16).view(half), numpy.empty(1 << 16, numpy.float32)
    assert function(level, "halve")(floats, halves, False) is None
    exact = halves.astype(numpy.float32)
    counts = ~numpy.isnan(exact)
    assert numpy.array_equal(floats.view(numpy.uint32)[counts], exact.view(numpy.uint32)[counts])
    assert numpy.isnan(floats[~counts]).all()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("level", LEVELS)
def test_floats_as_halves(level, half):
    """Any, each half with its neighbours among floats, and what lies in the middle between two halves."""
    random = numpy.random.default_rng(0)
    exact = numpy.arange(1 << 16, dtype=numpy.uint16).view(half).astype(numpy.float32)
    exact = exact[numpy.isfinite(exact)]
    with numpy.errstate(all="ignore"):
        middles = exact[:-1] * numpy.float32(0.5) + exact[1:] * numpy.float32(0.5)
    near = numpy.concatenate([exact, middles])
    near = (near.view(numpy.uint32)[:, None] + numpy.arange(-2, 3)).astype(numpy.uint32).ravel()
    floats = numpy.concatenate([near, random.integers(0, 1 << 32, 500_000).astype(numpy.uint32)]).view(numpy.float32)
    halves = numpy.empty(floats.size, half)
    assert function(level, "halve")(floats, halves, True) is None
    with numpy.errstate(all="ignore"):
        wanted = floats.astype(half)
    counts = ~numpy.isnan(floats)
    assert numpy.array_equal(halves.view(numpy.uint16)[counts], wanted.view(numpy.uint16)[counts])
    assert numpy.isnan(halves[~counts].astype(numpy.float32)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_conversions_of_tensors(dtype, torch):
    changes = lambda t: t, lambda t: t.transpose(0, -1) if t.ndim else t, lambda t: t[..., ::2] if t.ndim else t
    for shape in ((), (3,), (70,), (9, 11), (0, 5), (5, 1, 20)):
        x = numpy.random.default_rng(0).normal(size=shape).astype(numpy.float32) * 1000
        for change in changes:
            ours = change(plugrad.tensor(x)).to(getattr(plugrad, dtype))
            theirs = change(torch.tensor(x)).to(getattr(torch, dtype))
            assert ours.float().tolist() == theirs.float().tolist()
            assert (ours * 2).float().tolist() == (theirs * 2).float().tolist()
            assert not x.size or ours.stride() == theirs.stride()


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "group_norm"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rows_of_halves_are_computed_in_single_precision(dtype, name, torch):
    """By the same function in C as those of float32, and rounded once; what is not contiguous, too."""
    functions, random = plugrad.nn.functional, numpy.random.default_rng(0)
    x = (random.normal(size=(8, 8, 30)) * 3).astype(numpy.float32)
    x[0, 0, 0], x[1, 1] = numpy.inf, numpy.nan
    weight = random.normal(size=30).astype(numpy.float32)
    calls = {
        "softmax": lambda F, x, w: F.softmax(x, -1),
        "log_softmax": lambda F, x, w: F.log_softmax(x, 1),
        "layer_norm": lambda F, x, w: F.layer_norm(x, (30,), w, w),
        "group_norm": lambda F, x, w: F.group_norm(x, 4),
    }
    for change in (lambda t: t, lambda t: t.transpose(0, 1)):
        (half, w), (other, v) = (
            [change(t).to(getattr(library, dtype)) if t.ndim > 1 else t.to(getattr(library, dtype)) for t in made]
            for library, made in (
                (plugrad, [plugrad.tensor(x), plugrad.tensor(weight)]), (torch, [torch.tensor(x), torch.tensor(weight)])
            )
        )  # fmt: skip
        ours, wide = calls[name](functions, half, w), calls[name](functions, half.float(), w.float())
        theirs = calls[name](torch.nn.functional, other, v)
        assert ours.dtype == half.dtype
        assert numpy.array_equal(ours.float().numpy(), wide.to(half.dtype).float().numpy(), equal_nan=True)
        bound = torch.finfo(other.dtype).eps * 4
        assert torch.allclose(torch.tensor(ours.float().numpy()), theirs.float(), bound, bound, equal_nan=True)
