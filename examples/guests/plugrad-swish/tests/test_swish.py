"""The checks that follow from what the package declares, and one that only its author can know."""

import plugrad as torch
from plugrad.testing import conformance_tests

test_package = conformance_tests("plugrad-swish")


def test_beta_goes_from_linear_to_relu():
    x = torch.randn(9)
    assert torch.allclose(torch.swish(x, 0.0), x / 2)
    assert torch.allclose(torch.swish(x, 1e4), torch.relu(x), atol=1e-3)
