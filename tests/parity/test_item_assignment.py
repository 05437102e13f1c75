"""Item assignment and numbers that are written into tensors: every index with every value, as PyTorch has it."""

import warnings

import pytest

torch = pytest.importorskip("torch")

import plugrad  # noqa: E402

INDICES = {
    "an int": lambda T: 0, "a negative int": lambda T: -1, "an int out of bounds": lambda T: 5,
    "everything": lambda T: slice(None), "a step": lambda T: slice(0, 3, 2), "two ints": lambda T: (0, 1),
    "a column": lambda T: (slice(None), 1), "an ellipsis": lambda T: (..., 0), "two of them": lambda T: (..., ...),
    "a new dimension": lambda T: (None, 0), "None": lambda T: None, "True": lambda T: True, "False": lambda T: False,
    "no index": lambda T: (), "too many": lambda T: (0, 0, 0), "a list": lambda T: [0, 2],
    "a list of bools": lambda T: [True, False, True], "an int and a list": lambda T: (0, [1, 2]),
    "a 0-d tensor": lambda T: T.tensor(1), "a tensor": lambda T: T.tensor([0, 2]),
    "an int and a tensor": lambda T: (0, T.tensor([0, 2])), "tensors": lambda T: (T.tensor([0, 2]), T.tensor([1, 1])),
    "rows of a mask": lambda T: T.tensor([True, False, True]), "a mask": lambda T: T.ones(3, 4).bool(),
    "a mask of bytes": lambda T: T.tensor([1, 0, 1], dtype=T.uint8), "too short a mask": lambda T: T.tensor([True]),
    "a tensor out of bounds": lambda T: T.tensor([0, 7]), "a string": lambda T: "s",
}  # fmt: skip
VALUES = {
    "an int": lambda T: 1, "a float": lambda T: 2.7, "a bool": lambda T: True, "a complex number": lambda T: 1j,
    "NaN": lambda T: float("nan"), "infinity": lambda T: float("inf"), "too big for 8 bits": lambda T: 300,
    "a big fraction": lambda T: 1000.5, "a negative int": lambda T: -1, "a string": lambda T: "x",
    "None": lambda T: None, "a list": lambda T: [1, 2], "a scalar tensor": lambda T: T.tensor(7.0),
    "one element": lambda T: T.ones(1) * 7, "a row": lambda T: T.arange(4.0), "ints": lambda T: T.arange(4),
    "a row of many dimensions": lambda T: T.arange(4.0).reshape(1, 1, 1, 4), "doubles": lambda T: T.ones(4).double(),
    "two rows": lambda T: T.arange(8.0).reshape(2, 4), "a table": lambda T: T.arange(12.0).reshape(3, 4),
    "nothing": lambda T: T.ones(0),
}  # fmt: skip
DTYPES = ["float32", "int64", "int8", "uint8", "bool", "complex64", "float16", "bfloat16"]


def assigned(T, dtype, index, value, recorded):
    """The tensor after the assignment, and the gradients of what was there and of what was written; or the error."""
    leaf = T.zeros(3, 4, dtype=getattr(T, dtype), requires_grad=recorded)
    x = leaf * 1 if recorded else leaf
    source = written = VALUES[value](T)
    if recorded and isinstance(source, T.Tensor) and source.is_floating_point():
        source.requires_grad_()
        written = source * 1
    try:
        x[INDICES[index](T)] = written
    except Exception as error:
        return type(error).__name__
    results = [x.detach().tolist()]
    if recorded:
        (x * x.detach()).sum().backward()
        results += [leaf.grad.tolist(), getattr(source, "grad", None) is not None and source.grad.tolist()]
    return str(results)


# PyTorch refuses masks of bytes, which are deprecated, only where what is written has one element.
ONE_ELEMENT = {name for name, value in VALUES.items() if getattr(value(torch), "size", lambda: (1,))() in ((), (1,))}
# Of an index out of bounds and a value of a wrong shape it names the second.
SHAPES = {("a tensor out of bounds", "a table"), ("a tensor out of bounds", "nothing")}
# PyTorch looks at the value before it looks at the index, so of two mistakes it names the other one.
WRONG_INDICES = {"an int out of bounds", "too many", "a string", "too short a mask", "a tensor out of bounds"}
WRONG_VALUES = {
    "a complex number", "NaN", "infinity", "too big for 8 bits", "a big fraction", "a string", "None", "a list",
}  # fmt: skip


@pytest.mark.parametrize("dtype, recorded", [*((dtype, False) for dtype in DTYPES), ("float32", True)])
def test_item_assignment(dtype, recorded):
    different = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index in INDICES:
            for value in VALUES:
                expected = assigned(torch, dtype, index, value, recorded)
                actual = assigned(plugrad, dtype, index, value, recorded)
                if index == "a mask of bytes" and value in ONE_ELEMENT and expected == "RuntimeError":
                    continue
                if (index, value) in SHAPES and expected == "RuntimeError" and actual == "IndexError":
                    continue
                if index == "False" and value in WRONG_VALUES and expected == "RuntimeError":
                    continue  # nothing is written
                both = expected.endswith("Error") and index in WRONG_INDICES and value in WRONG_VALUES
                if expected != actual and not (both and actual.endswith("Error")):
                    different.append((index, value, expected[:60], actual[:60]))
    assert not different


WRITES = {
    "fill_": lambda T, x, v: x.fill_(v),
    "masked_fill": lambda T, x, v: T.masked_fill(x, x == 0, v),
    "masked_fill_": lambda T, x, v: x.masked_fill_(x == 0, v),
    "index_fill": lambda T, x, v: T.index_fill(x, 0, T.tensor([0]), v),
    "scatter": lambda T, x, v: T.scatter(x, 0, T.tensor([0]), v),
    "full": lambda T, x, v: T.full((2,), v, dtype=x.dtype),
    "full_like": lambda T, x, v: T.full_like(x, v),
    "new_full": lambda T, x, v: x.new_full((2,), v),
}  # fmt: skip
NUMBERS = [
    1, -1, -0.5, 128, 128.5, -129, 255, 256, -255, -256, 300.5, 1e6, 1e39, 1e309, float("nan"), -1e39, 1j, 2 + 0j,
    -1.5, 127.5, True, 2**40, 2**63,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", WRITES)
def test_numbers_fit_the_dtype_that_they_are_written_to(write):
    different = []
    for dtype in DTYPES:
        for number in NUMBERS:
            outcomes = []
            for T in (torch, plugrad):
                try:
                    outcomes.append(str(WRITES[write](T, T.zeros(2, dtype=getattr(T, dtype)), number).tolist()))
                except Exception as error:
                    outcomes.append(type(error).__name__)
            if outcomes == ["RuntimeError", "[inf, inf]"] and write[:11] == "masked_fill" and dtype == "float16":
                continue  # computed in float32
            if outcomes[0] != outcomes[1]:
                different.append((dtype, number, *outcomes))
    assert not different


@pytest.mark.parametrize("dtype", "int8 uint8 int32 int64 float16 bfloat16 float32 bool complex64".split())
def test_one_element_fills_what_a_mask_selects_if_it_fits(dtype):
    values = "300|1e10|-1|1.5|[300.]|float('inf')|float('nan')|1 + 1j|1 + 0j|[[1e300]], dtype=T.float64".split("|")
    for value in values:
        for index in ("T.tensor([True, False])", "T.ones(2, 3, dtype=T.bool)", "(T.tensor([True, False]), 0)"):
            for write in ("x[{}] = T.tensor({})", "x.index_put_((T.tensor([True, False]),), T.tensor({1}))"):
                told = []
                for T in (torch, plugrad):
                    x = T.zeros(2, 3, dtype=getattr(T, dtype))
                    try:
                        exec(write.format(index, value), {"x": x, "T": T})
                        told.append(str(x.tolist()))
                    except (RuntimeError, IndexError) as error:
                        told.append(type(error).__name__)
                assert told[0] == told[1], write.format(index, value)


def test_an_index_that_fails_when_it_is_asked_for_an_attribute_is_none():
    class Odd:
        def __getattr__(self, name):
            raise ZeroDivisionError(name)

    for library in plugrad, torch:
        with pytest.raises(IndexError, match="are valid indices"):
            library.ones(2)[Odd()] = 1
        with pytest.raises(IndexError, match="are valid indices"):
            library.ones(2)[Odd()]
