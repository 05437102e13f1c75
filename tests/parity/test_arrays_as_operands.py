"""Python's operators between a tensor and an array or number of NumPy's: where PyTorch gives a tensor, plugrad does."""

from __future__ import annotations

import operator
import warnings

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

OPERATORS = (
    "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq lt le gt ge "
    "iadd isub imul itruediv ifloordiv ipow imatmul iand ilshift"
).split()
COMPARISONS = "eq lt le gt ge".split()
ARRAYS = {
    "float32": numpy.ones(2, "float32"), "float64": numpy.full(2, 2.0), "int64": numpy.array([1, 2]),
    "int8": numpy.array([1, 2], "int8"), "reversed": numpy.arange(1, 5)[::-2], "matrix": numpy.ones((2, 2)),
    "0-d": numpy.array(3.0), "0-d int": numpy.array(3), "empty": numpy.ones(0), "complex": numpy.full(2, 1j),
    "bool": numpy.array([True, True]),
    "number": numpy.float64(2), "number 32": numpy.float32(0.1), "int number": numpy.int64(3),
    "nan": numpy.float64("nan"), "bool number": numpy.bool_(True),
}  # fmt: skip
TENSORS = {
    "float32": lambda T: T.ones(2), "int64": lambda T: T.tensor([1, 2]), "int8": lambda T: T.tensor([1, 2]).to(T.int8),
    "0-d": lambda T: T.tensor(0.1), "grad": lambda T: T.tensor([0.1, 2], requires_grad=True),
    "half": lambda T: T.ones(2).half(), "matrix": lambda T: T.ones(3, 2).t(), "empty": lambda T: T.ones(0),
}  # fmt: skip


def answer(name, T, array, tensor, left):
    """What an operator returns, as a dtype and numbers; the error that it raises."""
    operands = (array.copy(), tensor(T)) if left else (tensor(T), array.copy())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = getattr(operator, name)(*operands)
    except Exception as error:
        return error
    if not isinstance(result, T.Tensor):
        return TypeError(f"no tensor: {result!r}")
    return str(result.dtype), result.requires_grad, result.detach().numpy()


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_with_arrays(name, left):
    wrong, compared = {}, 0
    for (kind, array), (other, tensor) in ((a, t) for a in ARRAYS.items() for t in TENSORS.items()):
        theirs, ours = (answer(name, T, array, tensor, left) for T in (torch, plugrad))
        if isinstance(theirs, Exception) or left and isinstance(array, numpy.ndarray) and name not in COMPARISONS:
            continue  # PyTorch mostly refuses an array on the left, where plugrad computes
        compared += 1
        same = numpy.allclose(ours[2], theirs[2], 1e-6, 0, True) if ours[:2] == theirs[:2] else False
        if not same or ours[2].shape != theirs[2].shape:
            wrong[kind, other] = theirs, ours
    assert not wrong and (compared > 8 or left), wrong


def test_an_array_in_a_product_keeps_the_gradient():
    x = plugrad.ones(2, 3, requires_grad=True)
    (x @ numpy.arange(3.0, dtype="float32")).sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 2.0]] * 2


def test_the_other_operand_of_a_product_is_asked():
    class Right:
        def __rmatmul__(self, other):
            return "asked"

    assert plugrad.ones(2) @ Right() == torch.ones(2) @ Right() == "asked"
    for T in (plugrad, torch):
        with pytest.raises(TypeError):
            T.ones(2) @ 3
        with pytest.raises(TypeError):
            3 @ T.ones(2)
