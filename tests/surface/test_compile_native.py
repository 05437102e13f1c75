"""The compiler "native": random programs of arrays, whole steps of training, and what it says of itself."""

from __future__ import annotations

import copy
import os
import random

import numpy
import pytest

import plugrad as torch
from plugrad import kernels, nn
from plugrad.kernels import inline
from support.compiled_programs import Convolutional, agree, loss_of, state_of
from support.random_array_programs import program_of

F = nn.functional
needs_c = pytest.mark.skipif(kernels.why_none() is not None, reason="there are no kernels in C")


def compiled(model, **options):
    return torch.compile(model, backend="native", fullgraph=True, **options)


def same_bits(one, other):
    """Whether arrays are the same, whatever NaN."""
    return one.dtype == other.dtype and one.shape == other.shape and numpy.array_equal(one, other, equal_nan=one.dtype.kind == "f")


@needs_c
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_have_the_bits_of_numpy(seed):
    run, arguments = program_of(random.Random(seed))
    expected = run(*[a.clone() for a in arguments])
    call = compiled(run)
    for _ in range(2):
        given = [a.clone() for a in arguments]
        actual = call(*given)
        assert len(actual) == len(expected)
        for number, (one, other) in enumerate(zip(actual, expected)):
            label = f"seed {seed}, result {number}:\n{torch.compiler.explain(call)}"
            assert same_bits(one.numpy(), other.numpy()), f"{label}\n{one}\n{other}"
