"""`plugrad.array_api`: the names, signatures and rules of the array API standard, by a sample of each."""

import inspect
import math

import numpy
import pytest

import plugrad as torch

xp = torch.array_api
NAMES = """
    arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros
    zeros_like astype can_cast finfo iinfo isdtype result_type abs acos acosh add asin asinh atan atan2 atanh
    bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos
    cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal
    log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative
    nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh
    trunc take take_along_axis matmul matrix_transpose tensordot vecdot broadcast_arrays broadcast_to concat expand_dims
    flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero
    searchsorted where unique_all unique_counts unique_inverse unique_values argsort sort cumulative_prod cumulative_sum
    max mean min prod std sum var all any diff e inf nan newaxis pi __array_namespace_info__ bool int8 int16 int32 int64
    uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
""".split()
LINALG = """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer
    pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift".split()


def test_all_names_are_there_and_are_functions_of_the_room():
    for space, names in ((xp, NAMES), (xp.linalg, LINALG), (xp.fft, FFT)):
        assert {*names} <= {*dir(space)} and {*names} - {"__array_namespace_info__"} <= {*space.__all__} | {"newaxis"}
        for name in names:
            one = getattr(space, name)
            assert not callable(one) or isinstance(one, type(torch.float32)) or one.__module__.startswith(xp.__name__)


@pytest.mark.parametrize("name, parameters", [
    ("sum", "x, /, *, axis=None, dtype=None, keepdims=False"), ("add", "x1, x2, /"), ("abs", "x, /"),
    ("clip", "x, /, min=None, max=None"), ("argsort", "x, /, *, axis=-1, descending=False, stable=True"),
    ("linspace", "start, stop, /, num, *, dtype=None, device=None, endpoint=True"),
    ("asarray", "obj, /, *, dtype=None, device=None, copy=None"),
    ("from_dlpack", "x, /, *, device=None, copy=None"), ("fft.rfftn", "x, /, *, s=None, axes=None, norm='backward'"),
])  # fmt: skip
def test_signatures_are_the_standards(name, parameters):
    function = xp
    for part in name.split("."):
        function = getattr(function, part)
    assert str(inspect.signature(function)) == f"({parameters})"


def test_tensors_name_their_namespace():
    x = torch.ones(2)
    assert x.__array_namespace__() is xp is x.__array_namespace__(api_version="2023.12")
    assert xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="2024.12"):
        x.__array_namespace__(api_version="2099.12")
    assert x.to_device("cpu") is x and x.to_device("meta").is_meta
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


def test_what_the_namespace_says_of_itself():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() == torch.device("cpu") and torch.device("cpu") in info.devices()
    assert info.default_dtypes()["integral"] is torch.int64
    assert info.dtypes(kind=("bool", "real floating")) == {
        "bool": torch.bool, "float32": torch.float32, "float64": torch.float64,
    }  # fmt: skip
    assert len(info.dtypes()) == 13


@pytest.mark.parametrize("one, other, result", [
    ("uint8", "int8", "int16"), ("uint16", "int16", "int32"), ("uint32", "int8", "int64"),
    ("uint8", "uint32", "uint32"), ("uint16", "uint64", "uint64"), ("float32", "complex128", "complex128"),
    ("float64", "complex64", "complex128"), ("int8", "int16", "int16"), ("int64", "int32", "int64"),
    ("bool", "uint16", "uint16"), ("uint32", "float32", "float32"),
])  # fmt: skip
def test_types_promote_by_the_standards_table(one, other, result):
    one, other, result = getattr(xp, one), getattr(xp, other), getattr(xp, result)
    assert xp.result_type(one, other) is result is xp.result_type(other, one)
    assert xp.add(xp.ones(2, dtype=one), xp.ones((), dtype=other)).dtype is result  # a 0-d array counts as any other
    assert xp.concat([xp.ones(1, dtype=other), xp.ones(1, dtype=one)]).dtype is result


def test_numbers_do_not_widen():
    assert xp.add(xp.ones(2, dtype=xp.int8), 1).dtype is xp.int8
    assert xp.multiply(2.0, xp.ones(2, dtype=xp.float32)).dtype is xp.float32
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    assert xp.where(xp.asarray([True, False]), 1.0, xp.zeros(2, dtype=xp.float64)).dtype is xp.float64
    with pytest.raises(TypeError, match="astype"):
        xp.result_type(xp.uint64, xp.int8)
    assert xp.can_cast(xp.uint8, xp.int16) and not xp.can_cast(xp.int8, xp.uint8)
    assert xp.can_cast(xp.uint32, xp.float32) and not xp.can_cast(xp.float32, xp.int64)


def test_casts_and_limits():
    with pytest.raises(TypeError, match="real"):
        xp.astype(xp.ones(1, dtype=xp.complex64), xp.float32)
    x = xp.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x is not xp.astype(x, xp.float32)
    assert xp.finfo(xp.complex128).dtype is xp.float64 and xp.finfo(x).bits == 32 and xp.iinfo(xp.uint8).max == 255
    assert xp.isdtype(xp.uint8, "integral") and xp.isdtype(xp.bool, (xp.int8, "bool"))
    with pytest.raises(ValueError, match="kind"):
        xp.isdtype(xp.bool, "boolean")


def test_sums_of_integers_are_as_wide_as_the_default():
    for dtype, wide in ((xp.uint8, xp.uint64), (xp.int8, xp.int64), (xp.float32, xp.float32)):
        x = xp.full((2, 3), 100, dtype=dtype)
        assert xp.sum(x).dtype is wide is xp.prod(x).dtype is xp.cumulative_sum(x, axis=0).dtype
        assert int(xp.sum(x)) == 600
    x = xp.ones((2, 3))
    assert xp.sum(x, axis=()).shape == (2, 3) and xp.sum(x, axis=(0, -1), keepdims=True).shape == (1, 1)
    assert xp.cumulative_sum(xp.asarray([1, 2]), include_initial=True).tolist() == [0, 1, 3]
    assert xp.cumulative_prod(x, axis=-1, include_initial=True).shape == (2, 4)
    with pytest.raises(IndexError, match="axis 2"):
        xp.max(x, axis=(2,))


@pytest.mark.parametrize("function, arguments, value", [
    ("floor_divide", (math.inf, 2.0), math.inf), ("floor_divide", (3.0, -math.inf), -0.0),
    ("remainder", (-0.0, 2.0), 0.0), ("remainder", (0.0, -2.0), -0.0), ("sign", (math.nan,), math.nan),
    ("round", (2.5,), 2.0), ("atan2", (-0.0, -0.0), -math.pi), ("pow", (math.nan, 0.0), 1.0), ("sqrt", (-0.0,), -0.0),
    ("hypot", (math.inf, math.nan), math.inf), ("logaddexp", (-math.inf, -math.inf), -math.inf),
])  # fmt: skip
def test_special_values(function, arguments, value):
    result = getattr(xp, function)(*[xp.asarray(one, dtype=xp.float64) for one in arguments]).item()
    assert str(result) == str(value)  # -0.0 and 0.0 are different texts, nan and nan the same


def test_shapes_sets_and_indices():
    x = xp.reshape(xp.arange(6), (2, 3))
    assert xp.concat([x, x], axis=None).shape == (12,) and xp.flip(x).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert xp.expand_dims(x, 1).shape == (2, 1, 3) and len(xp.unstack(x, axis=1)) == 3
    with pytest.raises(ValueError, match="size 3"):
        xp.squeeze(x, 1)
    with pytest.raises(ValueError, match="copy"):
        xp.reshape(xp.matrix_transpose(x), (6,), copy=False)
    values = xp.asarray([3.0, 1.0, math.nan, 3.0, math.nan])
    every = xp.unique_all(values)
    assert every.values.shape == (4,) and every.indices.tolist()[:2] == [1, 0] and every.counts.tolist()[:2] == [1, 2]
    assert every._fields == ("values", "indices", "inverse_indices", "counts")
    assert xp.repeat(x, xp.asarray([1, 2], dtype=xp.int8), axis=0).shape == (3, 3)
    assert xp.take(x, xp.asarray([2, 0]), axis=1).tolist() == [[2, 0], [5, 3]]
    assert xp.arange(3, 0).shape == (0,) and xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.searchsorted(xp.asarray([1.0, 2.0]), xp.asarray([1.0]), side="right").tolist() == [1]
    assert [one.shape for one in xp.meshgrid(xp.arange(2), xp.arange(3))] == [(3, 2), (3, 2)]


def test_linear_algebra_and_transforms_agree_with_numpy():
    a = numpy.random.default_rng(0).normal(size=(4, 3, 3))
    x = xp.asarray(a)
    for name, options in (("inv", {}), ("svdvals", {}), ("trace", {"offset": 1}), ("matrix_norm", {}), ("outer", None)):
        if options is None:
            mine, theirs = xp.linalg.outer(x[0, 0], x[0, 1]), numpy.outer(a[0, 0], a[0, 1])
        else:
            mine, theirs = getattr(xp.linalg, name)(x, **options), getattr(numpy.linalg, name)(a, **options)
        numpy.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-9)
    numpy.testing.assert_allclose(xp.fft.rfft(x, axis=0, norm="ortho").numpy(), numpy.fft.rfft(a, axis=0, norm="ortho"))
    solved = xp.linalg.solve(x, xp.ones(3, dtype=xp.float64))
    numpy.testing.assert_allclose((x @ solved[..., None]).numpy(), numpy.ones((4, 3, 1)), rtol=1e-9)
    assert xp.vecdot(xp.asarray([1, 2]), xp.asarray([3, 4])).item() == 11


def test_gradients_flow_through_the_namespace():
    x = torch.ones(3, requires_grad=True)
    xp.sum(xp.multiply(xp.exp(x), 2.0)).backward()
    assert x.grad.allclose(2 * torch.ones(3).exp())
