"""Which of equal elements topk, kthvalue, mode and their relatives take, and in which order: PyTorch's CPU is asked."""

from __future__ import annotations

import numpy
import pytest

import plugrad
from plugrad import registry

torch = pytest.importorskip("torch")

CALLS = {
    "topk": lambda T, x, k: T.topk(x, k),
    "smallest": lambda T, x, k: T.topk(x, k, largest=False),
    "in any order": lambda T, x, k: T.topk(x, k, sorted=False),
    "kthvalue": lambda T, x, k: T.kthvalue(x, k),
    "columns": lambda T, x, k: T.topk(x.t(), k, 0),
    "kthvalue of columns": lambda T, x, k: T.kthvalue(x.t(), k, 0, True),
    "mode": lambda T, x, k: T.mode(x),
    "mode of columns": lambda T, x, k: T.mode(x.t(), 0, True),
    "median": lambda T, x, k: T.median(x, -1),
    "nanmedian": lambda T, x, k: T.nanmedian(x, -1),
    "max": lambda T, x, k: T.max(x, -1),
    "argmin": lambda T, x, k: T.argmin(x, -1),
    "cummax": lambda T, x, k: T.cummax(x, -1),
}


def rows(n, special):
    random = numpy.random.default_rng(n)
    values = random.integers(0, max(2, n // 5), (4, n)) * 1.0
    values[3] = random.integers(0, 2, n)
    if special:
        values[0] = random.choice([0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1.0], n)
    return values.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 17, 40, 130, 700])
def test_as_pytorch(n, dtype):
    for special in (False, True) if "float" in dtype else (False,):
        values = rows(n, special)
        theirs, ours = (T.tensor(values).to(getattr(T, dtype)) for T in (torch, plugrad))
        for name, call in CALLS.items():
            if special and "mode" in name:
                continue  # PyTorch's sorts with a comparison that NaN breaks
            for k in {1, (n + 1) // 3 or 1, n}:
                expected, actual = call(torch, theirs, k), call(plugrad, ours, k)
                pairs = [(expected, actual)] if name == "argmin" else zip(expected, actual, strict=True)
                for one, other in pairs:
                    assert str(one.tolist()) == str(other.tolist()), (name, k, special)


@pytest.mark.parametrize("n", [2, 17, 60, 700])
def test_without_kernels_in_c(n):
    """The kernels in Python choose as those in C, which are as PyTorch's."""
    random = numpy.random.default_rng(n)
    for x in (random.integers(0, 3, (3, n)) * 1.0, random.integers(0, 1 + n // 3, (3, n)), random.normal(size=(3, n))):
        for name, *rest in (
            ("topk", 1), ("topk", (n + 1) // 2), ("topk", n, -1, False), ("topk", n // 2, -1, True, False),
            ("kthvalue", n // 2), ("kthvalue", n, 1, True), ("mode",),
        ):
            expected = registry.ops[name].kernels["*"](numpy, x, *rest)
            actual = getattr(plugrad, name)(plugrad.tensor(x), *rest)
            for one, other in zip(expected, actual, strict=True):
                assert numpy.array_equal(one, other.numpy()), (name, rest)


def test_rows_that_drive_the_pivots_astray():
    """Where quicksort would take quadratic time a heap goes on; organ pipes and such drive it there."""
    n = 3000
    half = numpy.arange(n // 2)
    for row in (numpy.concatenate([half, half[::-1]]), numpy.arange(n) // 7, numpy.arange(n)[::-1] // 5, killer(n)):
        for name, rest in (("topk", (n // 2,)), ("topk", (n,)), ("kthvalue", (n // 3,)), ("mode", ())):
            theirs = getattr(torch, name)(torch.tensor(row * 1.0), *rest)
            ours = getattr(plugrad, name)(plugrad.tensor(row * 1.0), *rest)
            assert theirs[1].tolist() == ours[1].tolist(), (name, row[:10])


def killer(n):
    """A row on which each median of three is one of the smallest (Musser 1997)."""
    half = n // 2
    row = numpy.empty(n, "int64")
    odd = numpy.arange(1, half + 1)
    row[:half] = numpy.where(odd % 2 == 1, odd, half + odd - 1)
    row[half:] = 2 * odd
    return row


def test_integers_that_no_float_tells_apart():
    values = [2**60, 2**60 + 1, 2**60, 2**60 + 1, -(2**63), 2**63 - 1] * 3
    for call in ("topk", "kthvalue", "mode"):
        rest = () if call == "mode" else (4,)
        theirs, ours = (getattr(T, call)(T.tensor(values), *rest) for T in (torch, plugrad))
        assert [one.tolist() for one in theirs] == [one.tolist() for one in ours]


@pytest.mark.parametrize("dim", [0, 1, -2, 2])
@pytest.mark.parametrize("keepdim", [False, True])
def test_results_lie_in_memory_as_pytorchs(dim, keepdim):
    calls = (lambda x: x.kthvalue(2, dim, keepdim), lambda x: x.mode(dim, keepdim), lambda x: x.topk(2, dim))
    for call in calls:
        expected, actual = (call(T.arange(24.0).reshape(2, 3, 4)) for T in (torch, plugrad))
        assert [one.stride() for one in expected] == [one.stride() for one in actual]


@pytest.mark.parametrize("call", ["x.topk(1, 5)", "x.kthvalue(1, 5)", "x.kthvalue(1, -4)", "x.mode(7)"])
def test_dimensions_that_are_not_there_are_told(call):
    words = []
    for T in (torch, plugrad):
        with pytest.raises(IndexError) as caught:
            eval(call, {"x": T.zeros(2, 3, 4)})
        words.append(str(caught.value))
    assert words[0] == words[1]


def test_gradients_go_where_pytorchs_go():
    for T in (torch, plugrad):
        x = T.tensor([1.0, 1, 0, 1, 0, 0, 1, 1], requires_grad=True)
        (x.topk(3)[0] * T.tensor([1.0, 2, 4])).sum().backward()
        x.kthvalue(2)[0].backward()
        if T is torch:
            expected = x.grad.tolist()
    assert x.grad.tolist() == expected
