"""Ops that put elements in order or search in an order, with NaN and infinities, in each floating dtype."""

from __future__ import annotations

import math

import pytest

import plugrad

torch = pytest.importorskip("torch")

nan, inf = math.nan, math.inf
VALUES = [[3, nan, -inf, 1, nan, 2, inf, -1.0, 1], [nan, nan], [1, nan], [nan, 1], [nan, 2, nan, 0.5, -0.5]]
MANY = [math.sin(i * i) if i % 7 else nan for i in range(60)]
CALLS = {
    "sort": lambda T, x: x.sort(stable=True),
    "falling": lambda T, x: x.sort(descending=True, stable=True),
    "argsort": lambda T, x: x.argsort(stable=True),
    "msort": lambda T, x: T.msort(x),
    "columns": lambda T, x: x[:, None].expand(-1, 2).sort(stable=True, dim=0),
    "topk": lambda T, x: x.topk(2).values,
    "least": lambda T, x: x.topk(2, largest=False).values,
    "kthvalue": lambda T, x: x.kthvalue(2).values,
    "median": lambda T, x: x.median(),
    "nanmedian": lambda T, x: x.nanmedian(),
    "unique": lambda T, x: T.unique(x, return_counts=True),
    "bucketize": lambda T, x: T.bucketize(x, T.tensor([0.0, 1, 2], dtype=x.dtype)),
    "searchsorted": lambda T, x: T.searchsorted(x.sort().values, x, right=True),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("values", VALUES[1:], ids=str)
def test_no_nan_equals_another(values, dtype):
    for shape in ((-1,), (-1, 1)):  # in which order, PyTorch leaves to chance
        given = (T.tensor(values, dtype=getattr(T, dtype)).reshape(shape) for T in (torch, plugrad))
        theirs, ours = (x.unique(dim=0) for x in given)
        assert list(ours.shape) == list(theirs.shape) and int(ours.isnan().sum()) == int(theirs.isnan().sum())


def plain(result):
    if isinstance(result, (tuple, list)):
        return [plain(part) for part in result]
    return repr(result.tolist()) if hasattr(result, "tolist") else result


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("values", [*VALUES, MANY], ids=lambda values: str(len(values)))
def test_nan_has_its_place(name, dtype, values):
    theirs, ours = (CALLS[name](T, T.tensor(values, dtype=getattr(T, dtype))) for T in (torch, plugrad))
    assert plain(ours) == plain(theirs)
