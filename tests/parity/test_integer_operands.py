"""Integers and bool beside each other and beside Python numbers: dtype, values and errors are PyTorch's."""

import operator
from functools import partial

import pytest

import plugrad

torch = pytest.importorskip("torch")

OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor, operator.eq, operator.ne,
    operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
NUMBERS = [0, 1, -1, 3, 127, 128, 255, 300, -129, 2**31, 1.0, 0.0, 2.5, True, False]
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64"]


def outcome(module, function, *operands):
    """Return dtype and values of a result, or the type of the error."""
    try:
        result = function(*[part(module) if callable(part) else part for part in operands])
    except Exception as error:
        return type(error)
    return str(result.dtype), result.tolist()


def tensor(values, dtype):
    return lambda module: module.tensor(values, dtype=getattr(module, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_beside_numbers_and_each_other(dtype):
    x = tensor([0, 1, 1, 5], dtype)
    others = [*NUMBERS, tensor([3, 1, 0, 5], dtype), tensor(2, dtype), tensor([1, 0, 2, 3], "int64")]
    limits = torch.iinfo(getattr(torch, dtype)) if dtype != "bool" else None
    held = range(limits.min, limits.max + 1) if limits else NUMBERS
    for function in OPERATORS:
        for first, second in [pair for other in others for pair in ((x, other), (other, x))]:
            if function in COMPARISONS and any(type(one) is int and one not in held for one in (first, second)):
                continue  # PyTorch compares with what is left of such a number
            for _ in range(2):  # the second time what the first one kept is used
                assert outcome(plugrad, function, first, second) == outcome(torch, function, first, second)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", ["sum", "prod", "all", "any", "amax", "argmin", "max", "cumsum", "neg", "abs", "nansum"]
)
def test_reductions_of_integers(name, dtype):
    for dim in ((), (0,), (-1,)):
        for shape in ([[3, 0], [1, 2]], [[1]], 1):
            ours = outcome(plugrad, partial(_reduced, plugrad, name, dim), tensor(shape, dtype))
            assert ours == outcome(torch, partial(_reduced, torch, name, dim), tensor(shape, dtype)), (dim, shape)


def _reduced(module, name, dim, x):
    result = getattr(module, name)(x, *dim)
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", ["float", "double", "long", "bool"])
def test_casts_that_change_nothing_give_the_tensor_itself(name):
    x = getattr(plugrad.tensor([1, 0]), name)()
    assert getattr(x, name)() is x and x.to(x.dtype) is x and x.to(x.dtype, copy=True) is not x
    y = plugrad.tensor([[1.0, 2.0]], requires_grad=True)
    assert y.float() is y and y.double().grad_fn is not None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["add_", "sub_", "mul_", "logical_or_"])
def test_integers_written_in_place(name, dtype):
    for other in (
        0,
        1,
        3,
        2.5,
        1.0,
        True,
        tensor([3, 1, 0], dtype),
        tensor(2, "int64"),
        tensor([1.5, 2, 3], "float32"),
    ):
        ours = outcome(plugrad, partial(_written, name), tensor([[0, 1, 1], [5, 2, 0]], dtype), other)
        assert ours == outcome(torch, partial(_written, name), tensor([[0, 1, 1], [5, 2, 0]], dtype), other), other


def _written(name, x, other):
    row, version = x[0], x._version
    getattr(x, name)(other)
    assert x._version == version + 1 and row.tolist() == x[0].tolist()
    return x
