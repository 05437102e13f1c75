"""The tuples that ops with several results return: made of sequences, mapped over, copied, as PyTorch's are."""

from __future__ import annotations

import copy
import pickle

import pytest

import plugrad

torch = pytest.importorskip("torch")

CASES = {
    "of a tuple": lambda T, a, b: T.return_types.max((a, b)),
    "of a list": lambda T, a, b: T.return_types.max([a, b]),
    "of a generator": lambda T, a, b: T.return_types.sort(one for one in (a, b)),
    "of three": lambda T, a, b: T.return_types.svd((a, b, a)),
    "with attributes": lambda T, a, b: T.return_types.max((a, b), {}),
    "of a tensor": lambda T, a, b: T.return_types.max(T.tensor([1, 2])),
    "mapped over": lambda T, a, b: [
        type(r)(map(T.square, r)) for r in (T.max(a, 0), T.linalg.slogdet(a), T.aminmax(a))
    ],
    "fields": lambda T, a, b: (T.return_types.max((a, b)).values, T.return_types.max((a, b))[1]),
    "counts": lambda T, a, b: [(c.n_fields, c.n_sequence_fields, c.n_unnamed_fields, c.__match_args__)
                               for c in (T.return_types.max, T.return_types.svd, T.return_types.linalg_slogdet)],
    "copies": lambda T, a, b: (copy.copy(T.max(a, 0)), copy.deepcopy(T.sort(a))),
    "files": lambda T, a, b: pickle.loads(pickle.dumps(T.max(a, 0))),
    "parts": lambda T, a, b: (T.max(a, 0)[:1], T.max(a, 0) + (1,)),
    "of one": lambda T, a, b: T.return_types.max((a,)),
    "of too many": lambda T, a, b: T.return_types.max((a, b, a)),
    "of a number": lambda T, a, b: T.return_types.max(3),
    "of nothing": lambda T, a, b: T.return_types.max(),
    "of a float tensor": lambda T, a, b: T.return_types.max(T.tensor(1.0)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_tuples_of_results_are_pytorchs(case):
    def outcome(T):
        try:
            return repr(CASES[case](T, T.eye(2) * 2, T.ones(2)))
        except TypeError as error:
            return type(error)

    assert outcome(plugrad) == outcome(torch)


def test_fields_one_by_one_make_one_too():
    a, b = plugrad.ones(2), plugrad.zeros(2)
    assert plugrad.return_types.max(a, b)._replace(values=b) == (b, b)
