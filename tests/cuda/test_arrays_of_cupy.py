"""CuPy against NumPy, so that a fault of what CuPy runs on does not look like one of ours."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

RANDOM = numpy.random.default_rng(5)
FLOATS = ["float16", "float32", "float64"]
NUMBERS = ["bool", "int8", "uint8", "int16", "int32", "int64", *FLOATS, "complex64", "complex128"]
ULPS = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-14, "complex64": 2e-6, "complex128": 1e-14, "bfloat16": 2e-2}


def values(shape, dtype):
    """Return an array with values of either sign where the type has them."""
    made = RANDOM.standard_normal(shape) * 3
    if numpy.dtype(dtype).kind == "c":
        made = made + 1j * RANDOM.standard_normal(shape)
    if numpy.dtype(dtype).kind == "u":
        made = abs(made)
    return made.astype(dtype)


def same(found, expected, dtype=None):
    """Assert that an array of CuPy has the type, shape and values of NumPy's."""
    expected = numpy.asarray(expected)
    found = found.get()
    assert found.dtype == (dtype or expected.dtype) and found.shape == expected.shape
    error = ULPS.get(found.dtype.name, 0)
    wide = "complex128" if expected.dtype.kind == "c" else "float64"
    if expected.dtype.kind in "fcV":
        numpy.testing.assert_allclose(found.astype(wide), expected.astype(wide), rtol=error, atol=error)
    else:
        numpy.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_creation_and_copies(cupy, dtype):
    x = values((3, 4), dtype)
    same(cupy.asarray(x), x)
    same(cupy.asarray(x.T), x.T)
    same(cupy.asarray(x)[::-1, 1::2], x[::-1, 1::2])
    same(cupy.ascontiguousarray(cupy.asarray(x)[:, ::-1]), x[:, ::-1])
    same(cupy.full((2, 3), 1, dtype), numpy.full((2, 3), 1, dtype))
    same(cupy.concatenate([cupy.asarray(x)] * 2, 1), numpy.concatenate([x, x], 1))
    if dtype != "bool":
        same(cupy.arange(5, dtype=dtype), numpy.arange(5, dtype=dtype))
    assert cupy.empty((0, 3), dtype).get().shape == (0, 3)


def test_casts(cupy):
    x = numpy.array([-2.7, -1, 0, 0.4, 3.9])
    for source in NUMBERS:
        for target in NUMBERS:
            if "complex" not in source and not (source[0] != "u" and target == "uint8"):
                given = abs(x).astype(source) if source == "uint8" else x.astype(source)
                same(cupy.asarray(given).astype(target), given.astype(target))


UNARY = (
    "negative absolute exp log1p sqrt tanh sin cos arctan floor ceil sign square reciprocal expm1 cbrt log2 isnan"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument(cupy, name):
    for dtype in ("float16", "float32", "float64"):
        x = values((4, 5), dtype)
        if name in ("sqrt", "log1p", "log2", "reciprocal"):
            x = abs(x) + numpy.array(0.1, dtype)
        same(getattr(cupy, name)(cupy.asarray(x)), getattr(numpy, name)(x))
    if name in ("exp", "sqrt", "tanh", "sin", "negative", "absolute"):
        x = values((7,), "complex64")
        same(getattr(cupy, name)(cupy.asarray(x)), getattr(numpy, name)(x))


BINARY = "add subtract multiply divide maximum fmod power less equal logical_and arctan2 floor_divide remainder".split()


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arguments(cupy, name):
    a, b = abs(values((4, 1), "float32")) + 1, abs(values((5,), "float32")) + 1
    same(getattr(cupy, name)(cupy.asarray(a), cupy.asarray(b)), getattr(numpy, name)(a, b))
    a, b = (abs(values(n, "int32")) % 5 + 1 for n in ((4, 1), (5,)))
    same(getattr(cupy, name)(cupy.asarray(a), cupy.asarray(b)), getattr(numpy, name)(a, b))


def test_types_are_promoted_as_in_numpy(cupy):
    for first in NUMBERS:
        for second in ("bool", "int16", "float16", "float64", "complex64"):
            a, b = numpy.ones(2, first), numpy.ones(2, second)
            same(cupy.asarray(a) * cupy.asarray(b), a * b)
    assert (cupy.ones(2, "float32") * 2.5).dtype == "float32" and (cupy.ones(2, "int8") * 2).dtype == "int8"


REDUCTIONS = "sum prod max min mean any all argmax argmin std var".split()


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    "shape, axis", [((7,), None), ((3, 5), 0), ((3, 5), 1), ((2, 700), 1), ((700, 2), 0), ((2, 3, 4), (0, 2))]
)
def test_reductions(cupy, name, shape, axis):
    if name.startswith("arg") and isinstance(axis, tuple):
        return  # these take one axis
    x = values(shape, "float64") / 3
    same(getattr(cupy, name)(cupy.asarray(x), axis=axis), getattr(numpy, name)(x, axis=axis))
    if shape != (2, 700):
        x = values(shape, "int32")
        same(getattr(cupy, name)(cupy.asarray(x), axis=axis), getattr(numpy, name)(x, axis=axis))


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64", "complex64"])
def test_scans(cupy, dtype):
    for shape, axis in (((9,), 0), ((3, 5), 1), ((1500,), 0), ((4, 3), 0)):
        x = values(shape, dtype)
        found = cupy.cumsum(cupy.asarray(x), axis).get()
        numpy.testing.assert_allclose(found, numpy.cumsum(x, axis), rtol=1e-4, atol=1e-3)
    x = values((2, 5), dtype)
    numpy.testing.assert_allclose(cupy.cumprod(cupy.asarray(x), 1).get(), numpy.cumprod(x, 1), rtol=1e-5)


def test_indexing(cupy):
    x = values((5, 6), "float32")
    given, rows, mask = cupy.asarray(x), numpy.array([4, 0, 0, -1]), x > 0
    same(given[cupy.asarray(rows)], x[rows])
    same(given[cupy.asarray(rows), 2], x[rows, 2])
    same(given[:, cupy.asarray(rows)], x[:, rows])
    same(given[cupy.asarray(mask)], x[mask])
    same(cupy.take(given, cupy.asarray(rows), 1), numpy.take(x, rows, 1))
    same(cupy.where(cupy.asarray(mask), given, 0), numpy.where(mask, x, 0))
    same(cupy.stack(cupy.nonzero(cupy.asarray(mask))), numpy.stack(numpy.nonzero(mask)))
    for index, value in (((slice(1, 4), 2), 7), ((rows, 1), 3), (mask, -1), ((Ellipsis, slice(None, None, -2)), 9)):
        expected, found = x.copy(), cupy.asarray(x)
        expected[index] = value
        items = index if isinstance(index, tuple) else (index,)
        found[tuple(cupy.asarray(item) if isinstance(item, numpy.ndarray) else item for item in items)] = value
        same(found, expected)


def test_additions_at_places_that_repeat(cupy):
    for dtype in ("int32", "float32", "float64", "float16"):
        expected, places = numpy.zeros(4, dtype), numpy.array([0, 2, 2, 2, 3, 0])
        found = cupy.asarray(expected)
        numpy.add.at(expected, places, numpy.arange(6).astype(dtype))
        cupy.add.at(found, cupy.asarray(places), cupy.arange(6).astype(dtype))
        same(found, expected)


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_sorting(cupy, dtype):
    x = RANDOM.permutation(40).reshape(4, 10).astype(dtype)
    given = cupy.asarray(x)
    for axis in (0, 1):
        same(cupy.sort(given, axis), numpy.sort(x, axis))
        same(cupy.argsort(given, axis), numpy.argsort(x, axis))
    found, places = (one.get() for one in cupy.unique(cupy.asarray(x.ravel() % 7), return_inverse=True))
    numpy.testing.assert_array_equal(found[places], x.ravel() % 7)
    same(cupy.searchsorted(cupy.sort(given.ravel()), given.ravel()), x.ravel().astype("int64"))
    same(cupy.lexsort(cupy.stack([given[0], given[0] % 3])), numpy.lexsort(numpy.stack([x[0], x[0] % 3])))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "float16", "int32"])
def test_products_of_matrices(cupy, dtype):
    error = 1e-2 if dtype == "float16" else 1e-5

    def check(function, *arrays):
        found = function(*map(cupy.asarray, arrays)).get()
        numpy.testing.assert_allclose(found, function(*arrays), rtol=error, atol=error)

    a, b = values((3, 4), dtype), values((4, 5), dtype)
    for left, right in ((a, b), (a, a.T), (b.T, a.T), (a, b[:, 0]), (a[0], b)):
        check(lambda x, y: x @ y, left, right)
    if dtype != "float16":  # of which CuPy has no batched products
        check(lambda x, y: x @ y, values((2, 3, 4), dtype), values((2, 4, 2), dtype))


def test_brain_floating_point(cupy):
    x = values((3, 4), "float32").astype(ml_dtypes.bfloat16)
    given = cupy.asarray(x)
    same(given, x)
    same(given.astype("float32"), x.astype("float32"))
    same(given + given, x + x)
    same(cupy.exp(given), numpy.exp(x))
    same(given > 0, x > 0)
    numpy.testing.assert_allclose(given.sum().get().astype("f8"), x.astype("f8").sum(), rtol=2e-2)


def test_infinities_and_nan(cupy):
    x = numpy.array([numpy.inf, -numpy.inf, numpy.nan, 0.0, -0.0, 1e-30], "float32")
    same(cupy.isnan(cupy.asarray(x)), numpy.isnan(x))
    same(cupy.maximum(cupy.asarray(x), 1), numpy.maximum(x, numpy.float32(1)))
    same(cupy.signbit(cupy.asarray(x)), numpy.signbit(x))
    same(cupy.asarray(x).max(), x.max())
    with numpy.errstate(all="ignore"):
        same(1 / cupy.asarray(x), 1 / x)


def test_special_functions(cupy):
    import cupyx.scipy.special as found
    import scipy.special as right

    x = numpy.linspace(-0.999, 0.999, 41)
    for name in "erf erfc erfinv ndtri gammaln i0 i1 k0 k1e erfcx log_ndtr".split():
        given = x + 2 if name in ("gammaln", "k0", "k1e") else x * 4 if name in ("i0", "i1") else x
        given = {"ndtri": (x + 1.1) / 2.2, "erfcx": x * 20}.get(name, given)
        result = getattr(found, name)(cupy.asarray(given)).get()
        numpy.testing.assert_allclose(result, getattr(right, name)(given), rtol=1e-10, atol=1e-13)
