"""Reductions of a tensor without dimensions along its one dimension: on the meta device as with data."""

from __future__ import annotations

import pytest
import torch

import plugrad

REDUCTIONS = "sum mean amax logsumexp norm nansum prod std var all argmax median mode".split()


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_single_number_is_reduced_on_the_meta_device(name, dim, keepdim):
    facts = []
    for library in (torch, plugrad):
        result = getattr(library.tensor(1.5, device="meta"), name)(dim=dim, keepdim=keepdim)
        results = result if isinstance(result, tuple) else (result,)
        facts.append([(tuple(one.shape), str(one.dtype), one.device.type) for one in results])
    assert facts[0] == facts[1]
