"""Items of data sets at several indices, and batches of sequences of any class: plugrad and PyTorch side by side."""

from __future__ import annotations

import collections
import importlib

import pytest

import plugrad
import plugrad.utils.data

torch = pytest.importorskip("torch")
importlib.import_module("torch.utils.data")


class Batched(list):
    """A data set that reads several items at once, and can lose some of them."""

    lost = 0

    def __getitems__(self, indices):
        return [self[i] * 10 for i in indices][self.lost :]


class Lossy(Batched):
    lost = 1


EXPRESSIONS = """
D.StackDataset([1, 2, 3], B).__getitems__([0, 2])
D.StackDataset(a=[1, 2, 3], b=B).__getitems__([2])
D.StackDataset([1, 2, 3], L).__getitems__([0, 2])
D.StackDataset(a=L).__getitems__([0, 2])
D.StackDataset()
D.StackDataset([1], a=[1])
D.Subset(B, [2, 0]).__getitems__([0, 1])
D.Subset([1, 2, 3], [2, 0]).__getitems__([0, 1])
list(D.DataLoader(D.StackDataset([1, 2, 3], B), batch_size=2))
list(D.DataLoader(D.Subset(B, [2, 0]), batch_size=2))
D.default_collate([range(2), range(2, 4)])
D.default_collate([collections.deque([1, 2])])
D.default_collate([collections.UserList([1, 2]), collections.UserList([3, 4])])
D.default_collate([collections.OrderedDict(a=1), collections.OrderedDict(a=2)])
D.default_collate([collections.ChainMap(dict(a=1)), collections.ChainMap(dict(a=2))])
D.default_collate([(1, 2), (3, 4)])
D.default_collate([{1}, {2}])
D.default_collate([[1, 2], [3]])
D.default_convert(range(2))
D.default_convert(["a", 1.5, (2, None)])
""".strip().splitlines()


def outcome(expression, T):
    try:
        names = {"D": T.utils.data, "B": Batched([1, 2, 3]), "L": Lossy([1, 2, 3]), "collections": collections}
        return repr(eval(expression, names))
    except Exception as error:
        return error


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_same_on_both(expression):
    theirs, ours = outcome(expression, torch), outcome(expression, plugrad)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)) and str(ours)[:15] == str(theirs)[:15], f"{theirs!r}\n{ours!r}"
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_fused_updates_take_floating_point_parameters_only(name):
    for T in (torch, plugrad):
        parameter = T.nn.Parameter(T.ones(2, dtype=T.complex64))
        with pytest.raises(RuntimeError, match="fused=True. requires all the params to be floating point"):
            optimizer = getattr(T.optim, name)([parameter], fused=True)  # PyTorch says it at the first step
            parameter.grad = T.ones_like(parameter)
            optimizer.step()
