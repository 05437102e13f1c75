"""Classes that override ops beside PyTorch's: which function they are asked about, and with which arguments."""

import pytest

import plugrad as torch

oracle = pytest.importorskip("torch")

OPERATORS = """x + y|2 + x|x * y|2 * x|x - 2|2 - x|x / y|2 / x|2 // x|x % y|2 % x|x ** 2|2 ** x|-x|abs(x)|x @ x|x < y
x != y|~n|1 & n|1 | n|1 ^ n|1 << n|1 >> n|+x|x[0]|n.__rmul__(2)""".replace("\n", "|").split("|")


@pytest.mark.parametrize("written", OPERATORS)
def test_classes_are_asked_about_operators_as_in_pytorch(written):
    """By the same name, and with the operands in the same order."""
    told = []
    for library in (oracle, torch):
        seen = []

        class Noted(library.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None, seen=seen):
                seen.append((func.__name__, [type(one).__name__ for one in args]))
                return super().__torch_function__(func, types, args, kwargs or {})

        names = {"x": library.eye(2).as_subclass(Noted), "y": library.ones(2, 2)}
        names["n"] = library.ones(2, 2, dtype=library.int64).as_subclass(Noted)
        eval(written, names)
        told.append(seen)
    assert told[0] == told[1] or told == [[(told[0][0][0], told[1][0][1])], told[1]]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("old", ["Tensor", "Named"])
@pytest.mark.parametrize("make", [
    lambda T, cls, x: cls(x),
    lambda T, cls, x: T.Tensor(x),
    lambda T, cls, x: T.FloatTensor(x),
    lambda T, cls, x: x.new(x),
    lambda T, cls, x: T.Tensor.__new__(cls, x),
])  # fmt: skip
def test_a_tensor_that_is_made_of_one_has_its_history(make, old, recorded):
    def use(T):
        class Named(T.Tensor):
            pass

        leaf = T.ones(2, requires_grad=recorded)
        x = (leaf * 2).as_subclass(Named if old == "Named" else T.Tensor)
        made = make(T, Named, x)
        assert type(x.new(2, 3)) is type(x.new([1.0])) is type(x)
        result = [type(made).__name__, made.requires_grad, made._is_view(), made is x]
        if recorded:
            (made * 3).sum().backward()
            result.append(leaf.grad.tolist())
        return result

    assert use(torch) == use(oracle)
