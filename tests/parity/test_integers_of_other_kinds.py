"""Tensors of one integer and NumPy's integers stand for ints where they do in PyTorch: sizes, dimensions, indices."""

from __future__ import annotations

import enum
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import numpy as np
from misuse import Case, judge, reset
from misuse_calls import of_ops

import plugrad


class Place(enum.IntEnum):
    FIRST, SECOND = range(2)


KINDS = {"T.tensor(x)": int, "np.int64(x)": int, "[np.int64(i) for i in x]": list, "[T.tensor(i) for i in x]": list}
INDICES = {
    "integers of NumPy": lambda T: [np.int64(0), np.int64(1)],
    "one of them": lambda T: [np.int64(0), 1],
    "tensors, which are a tuple": lambda T: [T.tensor(0), T.tensor(1)],
    "bools of NumPy": lambda T: [np.bool_(True), np.bool_(False), np.bool_(True)],
    "many lists, which are one index": lambda T: [[0, 1]] * 40,
    "few lists, which are a tuple": lambda T: [[0, 1], [1, 0]],
    "with a slice": lambda T: [np.int64(0), slice(None)],
    "members of an Enum": lambda T: [Place.SECOND, 0],
    "a member of an Enum": lambda T: Place.SECOND,
    "a tuple with one": lambda T: (slice(None), Place.SECOND),
    "one beside a tensor": lambda T: (Place.SECOND, T.tensor([0, 1])),
}


def spoilt():
    """Return a case for each integer of a right call of each op, with a value of another kind in its place."""
    cases = {}
    for call in of_ops():
        for place, value in [*enumerate(call.args), *call.kwargs.items()]:
            if isinstance(value, (list, tuple)) and value and all(type(one) is int for one in value):
                kind = list
            else:
                kind = int if type(value) is int else None
            for source, wanted in KINDS.items():
                if kind is wanted:
                    cases.setdefault((call.name, place, source), Case(call, [(place, source)]))
    return cases


def test_integers_of_other_kinds_are_taken_where_pytorch_takes_them():
    cases, apart = spoilt(), []
    for case in cases.values():
        category, detail = judge(case)
        reset()
        if category in ("strict", "internal", "value", "type"):
            apart.append(f"{category} {case}: {detail}")
    assert len(cases) > 500
    assert not apart, "\n".join(apart)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("index", INDICES)
def test_lists_of_integers_of_numpy_are_indices(index):
    expected, actual = [T.arange(12.0).reshape(3, 4)[INDICES[index](T)].tolist() for T in (torch, plugrad)]
    assert actual == expected
    written = []
    for T in (torch, plugrad):
        x = T.arange(12.0).reshape(3, 4)
        x[INDICES[index](T)] = -1.0
        written.append(x.tolist())
    assert written[0] == written[1]


def test_a_median_along_a_dimension_that_a_tensor_says():
    for T in (torch, plugrad):
        values, places = T.arange(6.0).reshape(2, 3).median(T.tensor(1))
        assert (values.tolist(), places.tolist()) == ([1.0, 4.0], [1, 1])


def test_members_of_an_enum_are_integers():
    def done(T):
        x = T.arange(12.0).reshape(3, 4)
        x[Place.SECOND] = 7
        x[Place.FIRST, Place.SECOND] += 1
        return [x.tolist(), x.narrow(0, Place.SECOND, 1).tolist(), x[Place.SECOND :].shape]

    assert done(plugrad) == done(torch)
