"""Sequences of tensors that are lists of a class of one's own, or named tuples; numbers in the place of tensors."""

import collections

import pytest

import plugrad

torch = pytest.importorskip("torch")


class Listed(list):
    pass


Pair = collections.namedtuple("Pair", "first second")
JOINS = "cat stack vstack hstack dstack column_stack concat".split()


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("make", [lambda a, b: Listed([a, b]), Pair])
def test_joins_take_them_and_record(name, make):
    for T in (torch, plugrad):
        a, b = T.ones(2, 3, requires_grad=True), T.zeros(2, 3)
        result = getattr(T, name)(make(a, b))
        assert result.requires_grad and result.tolist() == getattr(T, name)([a, b]).tolist()
        result.sum().backward()
        assert a.grad.tolist() == T.ones(2, 3).tolist()


def test_modes_and_transforms_see_plain_lists():
    a, b = plugrad.ones(3, 2), plugrad.zeros(3, 2)
    assert plugrad.func.vmap(lambda x, y: plugrad.cat(Listed([x, y])))(a, b).shape == (3, 4)
    assert plugrad.compile(lambda x: plugrad.cat(Pair(x, x)), backend="numpy", fullgraph=True)(a).shape == (6, 2)
    assert plugrad.cat(Listed([a.half(), b])).dtype is plugrad.float32


@pytest.mark.parametrize("numbers", [(7, 2), (-7, 2), (7.5, 2), (-7.5, 2.0), (True, 2)])
@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
def test_quotients_of_two_numbers(numbers, mode):
    expected, actual = (T.div(*numbers, rounding_mode=mode) for T in (torch, plugrad))
    assert (str(actual.dtype), actual.tolist()) == (str(expected.dtype), expected.tolist())
