"""Kernels get what NumPy computes of one element, which is a number and no array: gradients of 0-d tensors are such."""

from __future__ import annotations

import warnings

import numpy
import pytest

import plugrad as torch
from plugrad import registry
from plugrad.testing.samples import samples_of

OURS = sorted(name for name, op in registry.ops.items() if op.provider.builtin and op.runs_on == "arrays")


def zero_dimensional(op):
    """Yield arguments of the op, as kernels get them, whose first tensor has one element and no dimension."""
    for dtype in (torch.float64, torch.complex128):
        try:
            samples = list(samples_of(op, dtype))
        except RuntimeError:  # one of the ops that make samples refuses this dtype
            continue
        for sample in samples:
            values = op.bind(*sample.args, **sample.kwargs)
            if isinstance(values[0], torch.Tensor) and values[0].ndim == 0:
                yield [value.detach()._raw if isinstance(value, torch.Tensor) else value for value in values]


def outcome(op, values):
    count = len(op.positional)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return op.kernels["*"](numpy, *values[:count], **dict(zip(op.keyword_only, values[count:])))
        except Exception as error:
            return error


@pytest.mark.parametrize("start", "abcdefghijklmnopqrstuvwxyz")
def test_kernels_take_numbers_where_they_take_an_element(start):
    for op in [registry.ops[name] for name in OURS if name.startswith(start)]:
        for values in zero_dimensional(op):
            number = [values[0][()], *values[1:]]
            expected, actual = outcome(op, values), outcome(op, number)
            if not isinstance(expected, Exception):
                assert not isinstance(actual, Exception), f"{op.name}{tuple(number)}: {actual!r}"
                numpy.testing.assert_equal(actual, expected, f"{op.name}{tuple(number)}")
