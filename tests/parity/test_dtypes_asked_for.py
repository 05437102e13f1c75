"""Reductions with `dtype=`: PyTorch's value and dtype, or type of error, for each pair of dtypes."""

from __future__ import annotations

import warnings

import pytest

import plugrad

torch = pytest.importorskip("torch")

REDUCTIONS = (
    "linalg.vector_norm", "linalg.matrix_norm", "linalg.norm", "norm", "sum", "mean", "nansum", "prod", "cumsum",
    "cumprod", "softmax", "log_softmax",
)
DTYPES = ("bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
ALONG = {"cumsum": (0,), "cumprod": (0,), "softmax": (0,), "log_softmax": (0,)}


def outcome(library, name, given, asked, values):
    function = library
    for part in name.split("."):
        function = getattr(function, part)
    input = library.tensor(values).to(getattr(library, given))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of complex values that lose their imaginary part
        try:
            result = function(input, *ALONG.get(name, ()), dtype=getattr(library, asked))
        except (RuntimeError, TypeError) as error:
            return type(error)
    return str(result.dtype), result.to(library.complex128).tolist()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_pair_of_dtypes(name):
    differ = []
    for given in DTYPES:
        for asked in DTYPES:
            values = [[1 + 1j, 2j], [0j, 1 - 3j]] if "complex" in given else [[1, 2], [0, 1]]
            expected, got = (outcome(library, name, given, asked, values) for library in (torch, plugrad))
            if isinstance(expected, type) or isinstance(got, type):
                same = expected is got
            else:
                same = expected[0] == got[0] and plugrad.allclose(
                    plugrad.tensor(expected[1]), plugrad.tensor(got[1]), rtol=1e-2 if "16" in asked + given else 1e-5
                )
            if not same:
                differ.append((given, asked, expected, got))
    assert not differ
