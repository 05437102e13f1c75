"""Python's numbers beside tensors of small integers, and shapes beside tuples: results and errors are PyTorch's."""

import operator
import warnings

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

CASES = """
t.zeros(2, dtype=u).add(t.ones(2, dtype=u), alpha=-1)
t.zeros(2, dtype=u).sub(t.ones(2, dtype=u), alpha=-1)
t.rsub(t.ones(2, dtype=u), t.ones(2, dtype=u), alpha=-1)
t.zeros(2, dtype=u).add(1, alpha=300)
t.addcmul(t.zeros(2, dtype=u), t.ones(2, dtype=u), t.ones(2, dtype=u), value=-1)
t.addmm(t.zeros(2, 2, dtype=u), t.ones(2, 2, dtype=u), t.ones(2, 2, dtype=u), alpha=-1, beta=-1)
t.zeros(3, dtype=u).index_add(0, t.tensor([0]), t.ones(1, dtype=u), alpha=-1)
t.arange(-2, 2, dtype=u)
t.nn.functional.pad(t.ones(2, dtype=u), (1, 1), value=-1)
t.nn.functional.pad(t.ones(2, dtype=t.int64), (1, 1), value=1.5)
t.add(t.tensor([True]), t.tensor([True]), alpha=1.1)
t.where(t.tensor([True]), 7.0, 2 + 0.5j)
t.where(t.tensor([True]), 1j, 2j)
t.index_select(t.zeros(0, 3), 0, t.tensor([0]))
t.normal(t.zeros(120), t.ones(2, 3, 4, 5))
t.ones(1, 2, 2, 2).dim_order(ambiguity_check=True)
() + t.Size([1])
(2,) + t.Size([1])
2 * t.Size([1])
t.Size([1]) + (2,)
t.Size([1]) + [2]
[1] + t.Size([1])
""".strip().splitlines()


def outcome(text, module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(text, {"t": module, "u": module.uint8})
        except Exception as error:
            return type(error).__name__
    return (str(result.dtype), result.tolist()) if isinstance(result, module.Tensor) else repr(result)


@pytest.mark.parametrize("text", CASES)
def test_expression_is_as_in_pytorch(text):
    assert outcome(text, plugrad) == outcome(text, torch)


ARRAYS = [numpy.array([3], "int16"), numpy.ones(1), numpy.array(2.0), numpy.array([3, 2], "int8"), numpy.float64(2)]


@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # PyTorch's
@pytest.mark.parametrize("array", ARRAYS, ids=repr)
@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "ifloordiv", "imod", "ipow"])
@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_an_array_is_added_out_of_place_and_a_number_in_place(name, array, dtype):
    """`x += array` gives a new tensor of the type of both; of NumPy's numbers only the array is one."""
    results = []
    for library in (plugrad, torch):
        start = library.tensor([5], dtype=getattr(library, dtype))
        try:
            end = getattr(operator, name)(start, array)
        except RuntimeError:
            results.append(("RuntimeError", start.tolist()))
        else:
            results.append((end is start, start.tolist(), end.tolist(), str(end.dtype).partition(".")[2]))
    assert results[0] == results[1]


def test_a_size_leaves_sums_to_whoever_can_add_it():
    class Anything:
        def __radd__(self, other):
            return 42

    assert plugrad.Size([1]) + Anything() == torch.Size([1]) + Anything() == 42


def test_inputs_of_grad_may_be_any_iterable():
    x = plugrad.ones(2, requires_grad=True)
    (gradient,) = plugrad.autograd.grad((y for y in [(x * 2).sum()]), (p for p in [x]))
    assert gradient.tolist() == [2, 2]
