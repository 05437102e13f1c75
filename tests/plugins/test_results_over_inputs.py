"""In-place forms whose kernels in C write over the first array: the bits of the result, overlaps, and refusals."""

import numpy
import pytest

import plugrad as torch
from plugrad import kernels, registry
from plugrad.testing import samples_of

pytestmark = pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
OVER = sorted(op.name for op in map(registry.op, registry.ops) if hasattr(op.kernels.get("cpu"), "over") and op.inplace)
DTYPES = (numpy.float32, numpy.float64)


def arrays_of(op, sample, dtype):
    """Return a sample's arguments as a kernel gets them."""
    values = [value.detach().to(torch.float64) if torch.is_tensor(value) and value.is_floating_point() else value
              for value in op.bind(*sample.args, **sample.kwargs)]  # fmt: skip
    raw = [value.numpy() if torch.is_tensor(value) else value for value in values]
    raw = [one.astype(dtype, order="C") if getattr(one, "dtype", None) == "f8" else one for one in raw]
    return raw[: len(op.positional)], dict(zip(op.keyword_only, raw[len(op.positional) :], strict=True))


def test_ops_that_write_over_their_input():
    assert {"add", "clamp", "lerp", "addcmul", "addcdiv", "masked_fill", "exp", "sigmoid", "floor"} & {*OVER} == {
        "clamp", "lerp", "addcmul", "addcdiv", "masked_fill", "exp", "sigmoid", "floor",
    }  # fmt: skip


@pytest.mark.parametrize("name", OVER)
def test_bits_over_the_input(name):
    op = registry.op(name)
    kernel, served = op.kernels["cpu"], 0
    for sample in samples_of(op):
        for dtype in DTYPES:
            (first, *rest), options = arrays_of(op, sample, dtype)
            if getattr(first, "dtype", None) != dtype:
                continue
            expected, before = kernel(numpy, first, *rest, **options), first.copy()
            result = kernel.over(numpy, first, *rest, **options)
            served += result is first
            numpy.testing.assert_array_equal(first, expected if result is first else before)
    assert served


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "true_divide"])
@pytest.mark.parametrize("parts", [(slice(1, None), slice(-1)), (slice(-1), slice(1, None)), (slice(4), slice(2, 6))])
def test_operands_that_overlap(name, parts):
    """Each element follows from what the operand held before anything was written."""
    base = torch.arange(1.0, 9.0)
    write, read = (base.numpy()[part] for part in parts)
    expected = getattr(numpy, name)(write, read)
    function = torch.ones(1)._type.functions.over(name)
    assert function(write, read) is write
    numpy.testing.assert_array_equal(write, expected)


def test_what_is_refused_is_not_written():
    function = kernels.native_function("addcmul", lambda *call: NotImplemented, over=True)
    x, y = numpy.arange(8.0), numpy.ones(6)
    for first, second in ((x[:6], x[2:]), (x[::2][:3], y[:3]), (x[:6].astype("f2"), y), (x[:3], y)):
        before = first.copy()
        assert function(first, second, second, 2.0) is NotImplemented
        numpy.testing.assert_array_equal(first, before)
    x.flags.writeable = False
    assert function(x[:6], y, y, 2.0) is NotImplemented
    assert function(numpy.ones(6), y, y, 2.0).tolist() == [3.0] * 6
    with pytest.raises(TypeError):
        kernels.module().over(len, None, 0)


@pytest.mark.parametrize("alpha", [0.5, -3, 0, float("inf"), float("nan")])
@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (4, 3)])
def test_sums_with_a_factor(alpha, shape):
    """`add` and `sub` with `alpha`: as a product and a sum, which may be rounded once."""
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
    for name, sign in (("add", 1), ("sub", -1)):
        expected = x + sign * alpha * y
        torch.testing.assert_close(getattr(x, name)(y, alpha=alpha), expected, equal_nan=True)
        written = x.clone()
        assert getattr(written, f"{name}_")(y, alpha=alpha) is written
        torch.testing.assert_close(written, expected, equal_nan=True)
        wide = getattr(x.expand(2, *shape).clone(), f"{name}_")(y, alpha=alpha)
        torch.testing.assert_close(wide, expected.expand(2, *shape), equal_nan=True)


@pytest.mark.parametrize("call", [
    lambda x: x.add_(x, alpha=True), lambda x: x.add_(torch.ones(3), alpha=1j),
    lambda x: x.add_(torch.ones(2), alpha=2),
    lambda x: x.float().add_(torch.ones(3), alpha=1e300), lambda x: x.long().sub_(x.long(), alpha=0.5),
])  # fmt: skip
def test_factors_that_are_refused(call):
    x = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        call(x)
    assert x.tolist() == [1.0] * 3
    assert x._version == 0


def test_an_operand_with_a_history_is_recorded():
    """Operands of forms with options, too, and of those that are composites out of place."""
    for write in (lambda x, y: x.add_(y, alpha=2), lambda x, y: x.div_(y), lambda x, y: x.addcdiv_(y, y + 1)):
        y = torch.full((3,), 2.0, requires_grad=True)
        x = torch.ones(3)
        write(x, y).sum().backward()
        assert y.grad is not None and x.grad_fn is not None
