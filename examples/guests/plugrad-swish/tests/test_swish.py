"""The tests that plugrad derives from the op, and one for the layer."""

import pytest
from plugrad_swish import swish

import plugrad as torch
from plugrad.testing import cases, gradcheck


@pytest.mark.parametrize("case", list(cases(swish)), ids=str)
def test_op(case):
    case()


def test_layer_learns_beta():
    layer = torch.nn.Swish(beta=1.5).double()
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(layer, (x,))
    assert list(layer.state_dict()) == ["beta"]
