"""Compare values, and make random tensors: `torch.testing.assert_close` and `torch.testing.make_tensor`."""

from __future__ import annotations

import math
import numbers
import warnings

import numpy

import plugrad
from plugrad.arguments import checked
from plugrad.testing.tensors import is_float, is_float_dtype

_EXACT = "iO"  # NumPy's kinds of signed integers and of Python's numbers

# Default (rtol, atol) by dtype name, about eps ** 0.5 and a little slack, as PyTorch documents them.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def _dtype_name(dtype) -> str:
    return str(dtype).rsplit(".", 1)[-1]


def default_tolerances(*inputs) -> tuple:
    """Return the loosest default (rtol, atol) of some tensors or dtypes; (0, 0) for integers and bools.

    >>> import plugrad as torch
    >>> default_tolerances(torch.float32, torch.int64)
    (1.3e-06, 1e-05)
    """
    pairs = [TOLERANCES.get(_dtype_name(getattr(item, "dtype", item)), (0.0, 0.0)) for item in inputs]
    return max(rtol for rtol, _ in pairs), max(atol for _, atol in pairs)


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg="") -> None:
    """Compare values with older programs' tolerances; `assert_close` is preferred.

    What is no tensor is made one, and dtypes may differ. Gives a FutureWarning, as in PyTorch.
    """
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please "
        "use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, plugrad.Tensor):
        actual = plugrad.tensor(actual)
    if not isinstance(expected, plugrad.Tensor):
        expected = plugrad.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        known = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}
        both = [known.get(value.dtype.name, TOLERANCES.get(value.dtype.name, (0, 0))) for value in (actual, expected)]
        rtol, atol = max(both[0][0], both[1][0]), max(both[0][1], both[1][1])
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, check_stride=False,
        msg=msg or None,
    )  # fmt: skip


@checked(atol="float?", rtol="float?")
def assert_close(
    actual,
    expected,
    *,
    allow_subclasses=True,
    rtol=None,
    atol=None,
    equal_nan=False,
    check_device=True,
    check_dtype=True,
    check_layout=True,
    check_stride=False,
    msg=None,
) -> None:
    """Assert that ``|actual - expected| <= atol + rtol * |expected|``, elementwise.

    Args:
        actual, expected: tensors, numbers, None, NumPy arrays, or sequences and mappings of them.
        allow_subclasses: whether tensors of related types may be compared.
        rtol, atol: tolerances, both or none; by default those of the dtypes, see `default_tolerances`.
        equal_nan: whether nan equals nan.
        check_device, check_dtype, check_layout, check_stride: what else must agree. Values of different
            devices or dtypes are compared after moving to the CPU and promoting.
        msg: message of the error, or a function of the default message.

    Raises AssertionError naming the greatest differences and where they are, ValueError for one tolerance
    without the other, and TypeError for values that cannot be compared.

    >>> import plugrad as torch
    >>> assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    >>> assert_close(1, 2)
    Traceback (most recent call last):
    ...
    AssertionError: Scalars are not equal!
    <BLANKLINE>
    Expected 2 but got 1.
    Absolute difference: 1
    Relative difference: 0.5
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    checks = {"device": check_device, "dtype": check_dtype, "layout": check_layout, "stride": check_stride}
    comparison = _Comparison(rtol, atol, equal_nan, checks, allow_subclasses)
    try:
        comparison.compare(actual, expected, "")
    except AssertionError as error:
        if msg is None:
            raise
        raise AssertionError(msg(str(error)) if callable(msg) else msg) from None


# What sparse tensors of each layout consist of, besides values.
_PARTS = {
    "torch.sparse_coo": ("COO", "_indices"), "torch.sparse_csr": ("CSR", "crow_indices", "col_indices"),
    "torch.sparse_csc": ("CSC", "ccol_indices", "row_indices"),
    "torch.sparse_bsr": ("BSR", "crow_indices", "col_indices"),
    "torch.sparse_bsc": ("BSC", "ccol_indices", "row_indices"),
}  # fmt: skip


class _Comparison:
    """One call of `assert_close`: its options, and a method for each type of value."""

    __slots__ = ("rtol", "atol", "equal_nan", "checks", "subclasses")

    def __init__(self, rtol, atol, equal_nan, checks, subclasses):
        self.rtol, self.atol, self.equal_nan, self.checks, self.subclasses = (
            rtol,
            atol,
            equal_nan,
            checks,
            subclasses,
        )

    def compare(self, actual, expected, where):
        if _is_sequence(actual) and _is_sequence(expected):
            return self._sequences(actual, expected, where)
        if isinstance(actual, dict) and isinstance(expected, dict):
            return self._mappings(actual, expected, where)
        if actual is None or expected is None:
            if actual is not expected:
                raise AssertionError(_at(f"None mismatch: {actual} is not {expected}", where))
        elif isinstance(actual, bool) and isinstance(expected, bool):
            if actual is not expected:
                raise AssertionError(_at(f"Booleans mismatch: {actual} is not {expected}", where))
        elif isinstance(actual, numbers.Number) and isinstance(expected, numbers.Number):
            self._numbers(actual, expected, where)
        else:
            self._tensors(self._tensor(actual, expected, where), self._tensor(expected, actual, where), where)
        return None

    def _sequences(self, actual, expected, where):
        if len(actual) != len(expected):
            lengths = f"{len(actual)} != {len(expected)}"
            raise AssertionError(_at(f"The length of the sequences mismatch: {lengths}", where))
        for i, pair in enumerate(zip(actual, expected, strict=True)):
            self.compare(*pair, f"{where}[{i}]")

    def _mappings(self, actual, expected, where):
        missing, more = sorted(map(str, expected.keys() - actual)), sorted(map(str, actual.keys() - expected))
        if missing or more:
            text = "The keys of the mappings do not match:\n"
            text += f"Missing keys in the actual mapping: {missing}\n"
            text += f"Additional keys in the actual mapping: {more}"
            raise AssertionError(_at(text, where))
        for key in actual:
            self.compare(actual[key], expected[key], f"{where}[{key!r}]")

    def _numbers(self, actual, expected, where):
        if self.checks["dtype"] and type(actual) is not type(expected):
            raise AssertionError(_at(f"The (d)types do not match: {type(actual)} != {type(expected)}.", where))
        rtol, atol = self._tolerances(_number_dtype(actual), _number_dtype(expected))
        if actual == expected or (self.equal_nan and actual != actual and expected != expected):
            return
        apart = abs(actual - expected)
        if math.isfinite(abs(expected)) and apart <= atol + rtol * abs(expected):
            return
        relative = apart / abs(expected) if expected else math.inf
        absolute = _allowed(f"Absolute difference: {apart}", atol, rtol, atol)
        relative = _allowed(f"Relative difference: {relative}", rtol, rtol, atol)
        head = _headline("Scalars", rtol, atol)
        raise AssertionError(_at(f"{head}Expected {expected} but got {actual}.\n{absolute}\n{relative}", where))

    def _tensor(self, value, other, where):
        if not self.subclasses and type(value) is not type(other):
            raise TypeError(_at(f"Tensor types do not match: {type(value)} and {type(other)}", where))
        if isinstance(value, plugrad.Tensor):
            return value
        scalar = isinstance(value, numpy.generic) and isinstance(other, plugrad.Tensor)
        if isinstance(value, (numpy.ndarray, numpy.generic)) and not scalar:
            return plugrad.from_numpy(numpy.array(value))
        raise TypeError(
            _at(
                f"No comparison pair was able to handle inputs of type {type(value)} and {type(other)}; pass "
                "tensors, numbers, NumPy arrays, None, or sequences and mappings of them",
                where,
            )
        )

    def _tolerances(self, *dtypes):
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and (not numpy.isscalar(value) or isinstance(value, (str, bytes))):
                raise TypeError(f"assert_close(): argument '{name}' must be float, not {type(value).__name__}")
        return (self.rtol, self.atol) if self.rtol is not None else default_tolerances(*dtypes)

    def _tensors(self, actual, expected, where):
        if tuple(actual.shape) != tuple(expected.shape):
            shapes = f"{tuple(actual.shape)} != {tuple(expected.shape)}"
            raise AssertionError(_at(f"The values for attribute 'shape' do not match: {shapes}.", where))
        for name in ("layout", "device", "dtype", "stride"):
            if self.checks[name]:
                one, other = getattr(actual, name, None), getattr(expected, name, None)
                one, other = (one(), other()) if name == "stride" else (one, other)
                if one != other:
                    text = f"The values for attribute '{name}' do not match: {one} != {other}."
                    raise AssertionError(_at(text, where))
        rtol, atol = self._tolerances(actual.dtype, expected.dtype)
        if actual.layout is expected.layout and str(actual.layout) in _PARTS:
            return self._sparse(actual, expected, rtol, atol, where)
        return self._elements("Tensor-likes", actual, expected, rtol, atol, where)

    def _sparse(self, actual, expected, rtol, atol, where):
        """Compare what is stored: how many entries, their places, and their values."""
        kind, *indices = _PARTS[str(actual.layout)]
        if actual.is_sparse and actual.is_coalesced() is not expected.is_coalesced():
            actual, expected = actual.coalesce(), expected.coalesce()
        for what, method in (("sparse dimensions", "sparse_dim"), ("specified values", "_nnz")):
            counts = [getattr(one, method)() for one in (actual, expected)]
            if counts[0] != counts[1]:
                text = f"The number of {what} in sparse {kind} tensors does not match: {counts[0]} != {counts[1]}"
                raise AssertionError(_at(text, where))
        for name in indices:
            pair = [getattr(one, name)() for one in (actual, expected)]
            self._elements(f"Sparse {kind} {name.strip('_')}", *pair, 0, 0, where)
        values = [one._values() if one.is_sparse else one.values() for one in (actual, expected)]
        self._elements(f"Sparse {kind} values", *values, rtol, atol, where)

    def _elements(self, what, actual, expected, rtol, atol, where):
        one, other = _comparable(actual), _comparable(expected)
        with numpy.errstate(all="ignore"):
            if object in (one.dtype, other.dtype):  # large integers, for which NumPy has no isfinite
                close = numpy.asarray(abs(one - other) <= atol + rtol * abs(other), dtype=bool)
            else:
                close = numpy.isclose(one, other, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        if not close.all():
            raise AssertionError(_at(_mismatch(what, one, other, close, rtol, atol), where))


def _comparable(tensor):
    """Return a tensor as an array in which differences are exact or, for floats, rounded as in its own dtype."""
    tensor = tensor.detach().cpu().to_dense()
    if is_float(tensor):
        return (tensor.float() if tensor.dtype is plugrad.bfloat16 else tensor).numpy(force=True)
    array = tensor.numpy(force=True)
    if array.dtype == bool:
        return array.astype("int8")
    return array.astype(object if array.dtype.itemsize == 8 and _huge(array) else "int64")


def _huge(array) -> bool:
    """Whether integers are too large for exact differences in float64 or int64."""
    return bool(array.size) and (int(array.max()) > 2**52 or int(array.min()) < -(2**52))


def _is_sequence(value) -> bool:
    return isinstance(value, (tuple, list))


def _number_dtype(number):
    if isinstance(number, complex):
        return plugrad.complex128
    return plugrad.float64 if isinstance(number, float) else plugrad.int64


def _at(text, where) -> str:
    return f"{text}\n\nThe failure occurred for item {where}" if where else text


def _headline(what, rtol, atol) -> str:
    return f"{what} are not {'equal' if rtol == 0 and atol == 0 else 'close'}!\n\n"


def _allowed(text, tolerance, rtol, atol) -> str:
    return text if rtol == 0 and atol == 0 else f"{text} (up to {tolerance} allowed)"


def _mismatch(what, actual, expected, close, rtol, atol) -> str:
    """Word how two arrays differ: how many elements, by how much, and where most."""
    wrong = int(close.size - close.sum())
    lines = [f"Mismatched elements: {wrong} / {close.size} ({wrong / close.size:.1%})"]
    with numpy.errstate(all="ignore"):
        apart = abs(actual - expected)
        scale = abs(expected).astype("float32") if apart.dtype.kind in _EXACT else abs(expected)
        relative = numpy.where(close, 0, apart.astype(scale.dtype) / scale)
        apart = numpy.where(close, 0, apart).astype(float)
    for name, values, tolerance in (("absolute", apart, atol), ("relative", relative, rtol)):
        flat = int(numpy.nanargmax(values)) if not numpy.isnan(values).all() else 0
        if numpy.isnan(values).any():
            flat = int(numpy.flatnonzero(numpy.isnan(values))[0])
        index = tuple(int(i) for i in numpy.unravel_index(flat, values.shape))
        greatest = values.reshape(-1)[flat]
        exact = name == "absolute" and numpy.asarray(actual).dtype.kind in _EXACT
        greatest = int(greatest) if exact else float(greatest)
        lines.append(_allowed(f"Greatest {name} difference: {greatest} at index {index}", tolerance, rtol, atol))
    return _headline(what, rtol, atol) + "\n".join(lines)


def make_tensor(
    *shape,
    dtype,
    device,
    low=None,
    high=None,
    requires_grad=False,
    noncontiguous=False,
    exclude_zero=False,
    memory_format=None,
):
    """Return random numbers, uniform in [low, high), seeded by `plugrad.manual_seed`.

    Args:
        shape: the sizes, or one sequence of them.
        dtype, device: of the tensor; device None is the default one.
        low, high: bounds, cut to what the dtype can hold; by default [-9, 9), integers [-9, 10), unsigned
            ones [0, 10), bools both values. Complex numbers have both parts in them.
        requires_grad: for float and complex dtypes.
        noncontiguous: return every second element of a larger tensor.
        exclude_zero: replace zeros by the smallest number, or by 1 for integers and bools.
        memory_format: layout of the tensor.

    Raises ValueError for an empty interval or options that exclude each other, TypeError for an unknown
    dtype.

    >>> import plugrad as torch
    >>> make_tensor(2, 3, dtype=torch.float32, device="cpu", low=0).shape
    torch.Size([2, 3])
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    if not isinstance(dtype, plugrad.dtype):
        raise TypeError(f"The requested dtype {dtype!r} is not supported by make_tensor(); write torch.float32, ...")
    if device is not None:
        plugrad.device(device)  # which refuses what is none
    name = _dtype_name(dtype)
    floating = is_float_dtype(dtype)
    if not isinstance(requires_grad, bool):
        raise RuntimeError(f"requires_grad must be a bool, not {type(requires_grad).__name__}")
    if requires_grad and not floating:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    low, high = _bounds(dtype, name, low, high)
    if low == high:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 "
            "and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
    elif floating and math.isfinite(high) and low < high - abs(high) * plugrad.finfo(dtype).eps:
        high -= abs(high) * plugrad.finfo(dtype).eps  # so that no number is rounded to what lies outside
    noncontiguous = noncontiguous and math.prod(shape) > 1
    drawn = (*shape[:-1], 2 * shape[-1]) if noncontiguous else shape
    random = numpy.random.default_rng(int(plugrad.randint(0, 2**31 - 1, (1,), device="cpu").item()))
    if not floating:
        values = random.integers(low, high, drawn, dtype="uint64" if name == "uint64" else "int64")
    elif dtype.is_complex:
        values = random.uniform(low, high, drawn) + 1j * random.uniform(low, high, drawn)
    else:
        values = (
            low + (high - low) * random.random(drawn)
            if math.isfinite(high - low)
            else random.uniform(-1, 1, drawn) * high
        )
    if exclude_zero:
        values = numpy.where(values == 0, plugrad.finfo(dtype).tiny if floating else 1, values)
    device = plugrad.get_default_device() if device is None else device
    result = plugrad.from_numpy(numpy.asarray(values)).to(dtype).to(device)
    if noncontiguous:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.contiguous(memory_format=memory_format)
    return result.requires_grad_() if requires_grad else result


def _bounds(dtype, name, low, high):
    """Return the interval to draw from: the defaults of the dtype, and what the dtype can hold."""
    if name == "bool":
        lowest, highest, least, most = 0, 2, 0, 2
    elif is_float_dtype(dtype):
        limits = plugrad.finfo(dtype)
        lowest, highest, least, most = limits.min, limits.max, -9, 9
    else:
        limits = plugrad.iinfo(dtype)
        lowest, highest, least, most = (
            limits.min,
            limits.max + (name not in ("int64", "uint64")),
            max(-9, limits.min),
            10,
        )
    low, high = least if low is None else low, most if high is None else high
    if low != low or high != high:
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    floating = is_float_dtype(dtype)
    if low >= high and not (floating and low == high):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < lowest or low >= highest:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{lowest}, {highest})"
        )
    low, high = min(max(low, lowest), highest), min(max(high, lowest), highest)
    return (low, high) if floating else (math.ceil(low), math.ceil(high))
