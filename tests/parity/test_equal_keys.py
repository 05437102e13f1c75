"""1, 1.0, True and Decimal(1) are equal: a call with one of them is not answered by what another one has left."""

from __future__ import annotations

from decimal import Decimal

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

SIZES = {
    "a float": [1.0], "a bool": (True,), "a list of a bool": [True], "a decimal": [Decimal(1)], "mixed": (1.0, 1),
    "a float of NumPy": [numpy.float32(1)], "an array": [numpy.array(1)], "an int of NumPy": [numpy.int64(1)],
    "a bool behind": (1, True), "None": [None], "text": ["a"], "a row": [[1]], "ints": (1, 1),
}  # fmt: skip
CALLS = {
    "conv2d, stride": lambda T, x, size: T.nn.functional.conv2d(x, T.ones(3, 2, 3, 3), stride=size),
    "conv2d, padding": lambda T, x, size: T.nn.functional.conv2d(x, T.ones(3, 2, 3, 3), padding=size),
    "conv2d, dilation": lambda T, x, size: T.nn.functional.conv2d(x, T.ones(3, 2, 3, 3), dilation=size),
    "transposed": lambda T, x, size: T.nn.functional.conv_transpose2d(x, T.ones(2, 1, 2, 2), stride=size, padding=size),
    "avg_pool2d": lambda T, x, size: T.nn.functional.avg_pool2d(x, size),
    "avg_pool2d, stride": lambda T, x, size: T.nn.functional.avg_pool2d(x, 1, size),
    "max_pool2d": lambda T, x, size: T.nn.functional.max_pool2d(x, size),
    "max_pool2d, stride": lambda T, x, size: T.nn.functional.max_pool2d(x, 2, size, size),
}


def outcome(T, call, size):
    try:
        return CALLS[call](T, T.arange(72.0).view(1, 2, 6, 6), size).tolist()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("call", CALLS)
def test_sizes_that_are_equal_to_others(call, size):
    for right in (1, (1,), (1, 1)):  # which leave what there is to be met
        assert outcome(plugrad, call, right) == outcome(torch, call, right)
    assert outcome(plugrad, call, SIZES[size]) == outcome(torch, call, SIZES[size])
