"""Initialisers against PyTorch's: values, distributions, errors, gains."""

from __future__ import annotations

import numpy
import pytest

import plugrad
from plugrad import nn

torch = pytest.importorskip("torch")

INITS = [
    ("constant_(t, 0.3)", (3, 4)),
    ("ones_(t)", (3,)),
    ("zeros_(t)", (3,)),
    ("eye_(t)", (3, 5)),
    ("dirac_(t)", (4, 3, 3)),
    ("dirac_(t, 2)", (4, 2, 3, 3)),
    ("dirac_(t)", (2, 2, 1, 2, 3)),
]


@pytest.mark.parametrize("text, shape", INITS)
def test_init_values(text, shape):
    weights = [
        eval(f"init.{text}", {"init": module.nn.init, "t": module.nn.Parameter(module.empty(shape))})
        for module in (torch, plugrad)
    ]
    assert weights[1].is_leaf and weights[1].requires_grad
    numpy.testing.assert_array_equal(weights[1].detach().numpy(), weights[0].detach().numpy(), strict=True)


@pytest.mark.parametrize(
    "text",
    [
        "uniform_(t, -1, 2)", "normal_(t, 1, 3)", "xavier_uniform_(t, 2)", "xavier_normal_(t)",
        "kaiming_uniform_(t, 1)",
        "kaiming_uniform_(t, mode='fan_out', nonlinearity='relu')", "kaiming_normal_(t, nonlinearity='tanh')",
        "trunc_normal_(t, 0.5, 2, -1, 3)", "orthogonal_(t, 2)", "sparse_(t.reshape(1200, 10), 0.25)",
    ],
)  # fmt: skip
def test_init_distribution(text):
    quantiles = []
    for module in (torch, plugrad):
        module.manual_seed(0)
        with module.no_grad():
            tensor = module.empty(30, 40, 10)
            filled = eval(f"init.{text}", {"init": module.nn.init, "t": tensor})
        quantiles.append(numpy.quantile(filled.detach().numpy(), numpy.linspace(0.02, 0.98, 25)))
    numpy.testing.assert_allclose(quantiles[1], quantiles[0], atol=0.06 * numpy.ptp(quantiles[0]))


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (5, 5), (3, 2, 4)])
def test_orthogonal(shape):
    matrix = nn.init.orthogonal_(plugrad.empty(shape, dtype=plugrad.float64)).reshape(shape[0], -1)
    small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    assert plugrad.allclose(small @ small.T, plugrad.eye(small.shape[0], dtype=plugrad.float64))


@pytest.mark.parametrize(
    "text",
    [
        "eye_(t(2))", "dirac_(t(2))", "dirac_(t(3, 2, 2), 2)", "calculate_gain('foo')",
        "calculate_gain('leaky_relu', True)",
        "xavier_uniform_(t(2))", "kaiming_uniform_(t(2, 2), mode='x')", "orthogonal_(t(2))", "sparse_(t(2), 0.1)",
    ],
)  # fmt: skip
def test_init_errors(text):
    errors = []
    for module in (torch, plugrad):
        with pytest.raises(ValueError) as caught:
            eval(f"init.{text}", {"init": module.nn.init, "t": module.empty})
        errors.append(str(caught.value))
    assert errors[1].startswith(errors[0][:30])


def test_gains():
    for name in ("linear", "conv1d", "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert nn.init.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain("leaky_relu", 0.2)


def test_old_names_warn():
    with pytest.warns(FutureWarning, match="xavier_uniform_"):
        nn.init.xavier_uniform(plugrad.empty(2, 3))
