"""The checks that follow from what the package declares, and one that only its author can know."""

import pytest

import plugrad as torch
from plugrad.testing import conformance_tests

test_package = conformance_tests("plugrad-swiglu")


@pytest.mark.parametrize("size", [1, 16384, 16385, 100_000])
def test_every_part_is_computed(size):
    gate, value = torch.randn(2, size, dtype=torch.float64, requires_grad=True).unbind()
    torch.testing.assert_close(torch.swiglu(gate, value), torch.nn.functional.silu(gate) * value)
