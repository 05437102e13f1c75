"""Calls with empty, odd or refused arguments: values, dtypes, shapes and the classes of errors are PyTorch's."""

from __future__ import annotations

import itertools
import warnings

import pytest

import plugrad

torch = pytest.importorskip("torch")

CALLS = {
    "masked reductions over no dimensions": """
        masked.prod(T.ones(2, 3), dim=()) | masked.prod(T.ones(2, 3), dim=[]) | masked.sum(T.ones(2, 3), dim=[])
        masked.prod(T.ones(2, 3, dtype=T.int32), dim=[]) | masked.prod(T.ones(2, 3), dim=[], mask=T.zeros(2, 3) > 0)
        masked.mean(T.ones(2, 3), dim=[]) | masked.amax(T.ones(2, 3), dim=[]) | masked.norm(T.ones(2, 3), 2, dim=[])""",
    "norms over other than one or two dimensions": """
        linalg.norm(T.ones(2, 3, 4), dim=(0, 1, 2)) | linalg.norm(T.ones(2, 3, 4), dim=())
        linalg.norm(T.ones(2, 3, 4), 2, dim=()) | linalg.norm(T.ones(2, 3), dim=(), keepdim=True)
        linalg.norm(T.ones(2, 3, 4), 2, dim=(0, 1, 2)) | linalg.vector_norm(T.ones(2, 3), dim=())""",
    "histograms": """
        histogram(T.ones(3), T.ones(1)) | histogram(T.ones(()), T.ones(0)) | histogram(T.ones(0), T.ones(3))
        histogram(T.ones(0), 3) | histogram(T.ones(0), 3, density=True) | histogram(T.ones(3), T.ones(2, 2))
        histogram(T.ones(3), T.ones(2, dtype=T.float64)) | histogram(T.ones(3) * 5, T.arange(3.0), density=True)
        histogram(T.ones(3), 0) | histogram(T.ones(3) * 5, 2, range=(1, 1)) | histogram(T.ones(3), 2, range=(1.0,))
        histogram(T.ones(3), 2, range=(1.0, 2, 3)) | histogram(T.ones(3, dtype=T.float16), 2)
        histogram(T.ones(3, dtype=T.bfloat16), 2) | histogram(T.ones(3), 2, weight=T.ones(2))""",
    "histograms of points": """
        histogramdd(T.ones(5, 0), []) | histogramdd(T.ones(5, 0), [], density=True) | histogramdd(T.ones(5, 0), 3)
        histogramdd(T.ones(7, 0, 3), 3) | histogramdd(T.ones(4, 2), [T.ones(3), T.ones(1)])
        histogramdd(T.ones(4, 2), [T.ones(3), T.ones(0)]) | histogramdd(T.ones(4, 2), [T.ones(3), T.ones(2, 2)])
        histogramdd(T.ones(4, 2), [T.ones(3), T.ones(2, dtype=T.float64)]) | histogramdd(T.ones(4, 2), [T.ones(3)])
        histogramdd(T.ones(4, 2), [2]) | histogramdd(T.ones(4), [2]) | histogramdd(T.ones(4, 2), [0, 2])
        histogramdd(T.ones(4, 2), 2, weight=T.ones(3)) | histogramdd(T.ones(4, 2), 2, weight=T.ones(4, 2))
        histogramdd(T.ones(4, 2), 2, range=(0, 1)) | histogramdd(T.ones(4, 2), 2, range=(0, 1, 1, 0))
        histogramdd(T.ones(4, 2), 2, range=(0, 1, 0, float('inf'))) | histogramdd(T.ones(4, 2, dtype=T.int32), 2)""",
    "counts": """
        bincount(T.tensor([1.0, 0.3])) | bincount(T.tensor([1 + 0j])) | bincount(T.tensor([True]))
        bincount(T.tensor([1, 2], dtype=T.uint8)) | bincount(T.tensor([]).half()) | bincount(T.tensor([-1]))
        histc(T.tensor([1.5, float('inf')])) | histc(T.tensor([float('nan')]))""",
}


def outcome(library, expression):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(f"T.{expression}", {"T": library})
        except Exception as error:
            return type(error).__name__
    return [one.detach().tolist() if isinstance(one, library.Tensor) else one for one in parts(result)], [
        (str(one.dtype), tuple(one.shape)) for one in parts(result) if isinstance(one, library.Tensor)
    ]


def parts(result) -> list:
    return [inner for one in result for inner in parts(one)] if isinstance(result, (tuple, list)) else [result]


def numbers(values) -> list:
    return list(itertools.chain(*map(numbers, values))) if isinstance(values, list) else [values]


@pytest.mark.parametrize("area, expression", [
    (area, one.strip()) for area, lines in CALLS.items() for line in lines.split("\n") for one in line.split(" | ")
    if one.strip()
])  # fmt: skip
def test_an_outcome_is_that_of_pytorch(area, expression):
    ours, theirs = outcome(plugrad, expression), outcome(torch, expression)
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs
    else:
        assert ours[1] == theirs[1]
        assert numbers(ours[0]) == pytest.approx(numbers(theirs[0]), rel=1e-5, abs=1e-6, nan_ok=True)


def test_addr_computes_in_the_dtype_of_all_three_operands():
    dtypes = ["bool", "uint8", "int64", "float16", "float32", "complex64"]
    for names in itertools.product(dtypes, repeat=3):
        results = []
        for library in (plugrad, torch):
            M, u, v = (library.ones(shape).to(getattr(library, one)) for shape, one in zip([(2, 3), 2, 3], names))
            results.append([library.addr(M, u, v), library.addr(M, u, v, beta=2, alpha=3)])
        for ours, theirs in zip(*results):
            assert (str(ours.dtype), ours.tolist()) == (str(theirs.dtype), theirs.tolist()), names
