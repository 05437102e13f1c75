"""dtypes: identity, promotion and limits, each compared with PyTorch for every type and combination."""

import copy
import itertools
import pickle

import ml_dtypes
import numpy
import pytest

from plugrad import limits
from plugrad.devices import dtypes

ALL = sorted({each.name for each in dtypes.ALL.values()})
REAL = [name for name in ALL if name not in ("bfloat16", "complex32")]
DEFAULTS = ["float16", "bfloat16", "float32", "float64"]


@pytest.fixture
def defaults(torch):
    """Set a default dtype here and in PyTorch, for the length of a test."""

    def choose(name):
        dtypes.set_default_dtype(dtypes.ALL[name])
        torch.set_default_dtype(getattr(torch, name))

    yield choose
    choose("float32")


def outcome(call):
    """Whatever a call returns, as text, or the class of what it raises."""
    try:
        return str(call())
    except (TypeError, RuntimeError) as error:
        return type(error).__name__


@pytest.mark.parametrize("name", sorted(dtypes.ALL))
def test_attributes(torch, name):
    ours, theirs = dtypes.ALL[name], getattr(torch, name)
    assert repr(ours) == str(ours) == repr(theirs)
    assert getattr(dtypes, name) is ours is dtypes.ALL[ours.name]
    for attribute in ("itemsize", "is_floating_point", "is_complex", "is_signed"):
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    for method in ("to_real", "to_complex"):
        assert outcome(getattr(ours, method)) == outcome(getattr(theirs, method)), method


@pytest.mark.parametrize("name", ALL)
def test_identity_survives_copies_and_pickles(name):
    each = dtypes.ALL[name]
    assert copy.copy(each) is copy.deepcopy(each) is each
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(each, protocol)) is each
    assert {each: 1}[each] == 1


def test_dtypes_are_immutable_and_not_constructible():
    with pytest.raises(TypeError, match="cannot create"):
        dtypes.dtype("float32")
    with pytest.raises(AttributeError, match="read-only"):
        dtypes.float32.itemsize = 2
    with pytest.raises(AttributeError, match="has no attribute 'shape'"):
        dtypes.float32.shape  # noqa: B018


@pytest.mark.parametrize("name", REAL)
def test_numpy_round_trip(name):
    each = dtypes.ALL[name]
    assert each.numpy == numpy.dtype(name) and each.numpy.itemsize == each.itemsize
    assert dtypes.from_numpy(each.numpy) is each
    assert dtypes.from_numpy(name) is dtypes.from_numpy(each.numpy.type) is each


def test_from_numpy_takes_equal_types_of_another_name():
    assert dtypes.from_numpy(numpy.dtype(numpy.longlong)) is dtypes.int64
    assert dtypes.from_numpy(numpy.dtype("=f4")) is dtypes.float32


def test_bfloat16_is_imported_when_needed():
    given = numpy.dtype(ml_dtypes.bfloat16)
    assert dtypes.from_numpy(given) is dtypes.bfloat16 and dtypes.bfloat16.numpy == given


def test_complex32_says_why_it_is_missing():
    with pytest.raises(NotImplementedError, match="complex32 is not supported.*complex64"):
        dtypes.complex32.numpy  # noqa: B018


@pytest.mark.parametrize("given", ["U3", "O", "M8[s]", "V4", "S2", numpy.longdouble])
def test_from_numpy_refuses(given):
    with pytest.raises(TypeError, match=r"can't convert np.ndarray of type .* types are: float16"):
        dtypes.from_numpy(numpy.dtype(given))


def test_from_numpy_refuses_foreign_byte_order():
    with pytest.raises(ValueError, match="byte order"):
        dtypes.from_numpy(numpy.dtype("f4").newbyteorder())


@pytest.mark.parametrize("first", ALL)
def test_promote_types_and_can_cast(torch, first):
    for second in ALL:
        ours = dtypes.ALL[first], dtypes.ALL[second]
        theirs = getattr(torch, first), getattr(torch, second)
        for function in ("promote_types", "can_cast"):
            expected = outcome(lambda: getattr(torch, function)(*theirs))  # noqa: B023
            for _ in range(2):  # the second answer comes from the cache
                assert outcome(lambda: getattr(dtypes, function)(*ours)) == expected, (function, second)  # noqa: B023


def test_promotion_errors():
    with pytest.raises(RuntimeError, match="attempted to promote Char and UInt16; convert one"):
        dtypes.promote_types(dtypes.int8, dtypes.uint16)
    with pytest.raises(TypeError, match=r"argument 'type2' \(position 2\) must be torch.dtype"):
        dtypes.promote_types(dtypes.int8, "int8")
    with pytest.raises(TypeError, match=r"can_cast\(\): argument 'from_' \(position 1\) must be"):
        dtypes.can_cast(1, dtypes.int8)
    with pytest.raises(ValueError, match="at least one operand"):
        dtypes.result_type()


def operands(torch):
    """Every kind of operand, as (ours, PyTorch's)."""
    for name in ALL:
        if name != "complex32":  # PyTorch warns about it
            each = getattr(torch, name)
            yield (dtypes.ALL[name], "dim"), torch.empty(1, dtype=each)
            yield (dtypes.ALL[name], "zero"), torch.empty((), dtype=each)
    for value in (True, 3, 2.5, 1j):
        yield (dtypes.SCALAR[type(value)], "scalar"), value


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_result_type_of_all_pairs(torch, defaults, default):
    defaults(default)
    for (a, theirs_a), (b, theirs_b) in itertools.product(operands(torch), repeat=2):
        expected = outcome(lambda: torch.result_type(theirs_a, theirs_b))  # noqa: B023
        for _ in range(2):
            assert outcome(lambda: dtypes.result_type(a, b)) == expected, (a, b)  # noqa: B023


def test_result_type_of_three_operands(torch):
    """PyTorch promotes more than two operands in `where` and `addcmul`; here on `meta`, without values."""
    named = ["bool", "uint8", "int64", "float32", "float64", "complex64"]
    for names in itertools.product(named, repeat=3):
        for ranks in (("dim", "zero", "zero"), ("zero", "dim", "dim"), ("zero", "zero", "dim"), ("dim",) * 3):
            ours = [(dtypes.ALL[name], rank) for name, rank in zip(names, ranks, strict=True)]
            theirs = [
                torch.empty((1,) if rank == "dim" else (), dtype=getattr(torch, name), device="meta")
                for name, rank in zip(names, ranks, strict=True)
            ]
            assert str(dtypes.result_type(*ours)) == str(torch.addcmul(*theirs).dtype), ours


def test_default_dtype_errors():
    for wrong in (dtypes.int32, dtypes.complex64):
        with pytest.raises(TypeError, match="^only floating-point types are supported as the default type"):
            dtypes.set_default_dtype(wrong)
    for wrong in ("float32", None, 3):
        with pytest.raises(TypeError, match="^invalid dtype object: only floating-point types"):
            dtypes.set_default_dtype(wrong)
    assert dtypes.get_default_dtype() is dtypes.float32


@pytest.mark.parametrize("info", ["finfo", "iinfo"])
@pytest.mark.parametrize("name", ALL)
def test_limits(torch, info, name):
    ours, theirs = getattr(limits, info), getattr(torch, info)
    expected = outcome(lambda: theirs(getattr(torch, name)))
    assert outcome(lambda: ours(dtypes.ALL[name])) == expected
    if expected == "TypeError":
        return
    ours, theirs = ours(dtypes.ALL[name]), theirs(getattr(torch, name))
    for attribute in dir(theirs):
        if not attribute.startswith("_"):
            assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    assert ours == type(ours)(dtypes.ALL[name]) != 3


def test_limits_of_the_default_and_of_no_dtype(defaults):
    defaults("float64")
    assert limits.finfo() == limits.finfo(dtypes.float64) != limits.finfo(dtypes.float32)
    with pytest.raises(TypeError, match=r"finfo\(\): argument 'type' .* must be torch.dtype, not int"):
        limits.finfo(3)
    with pytest.raises(TypeError, match=r"integer input type, not torch.float32; use torch.finfo"):
        limits.iinfo(dtypes.float32)
