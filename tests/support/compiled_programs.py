"""Compiled programs and models for the tests of compilers of arrays."""

from __future__ import annotations

import warnings

import pytest

import plugrad as torch
from plugrad import nn

F = nn.functional


_chosen = ["numpy"]


@pytest.fixture(autouse=True, params=["numpy", "native"])
def loudly(request):
    """Each test runs with each compiler; what runs op by op without the test's asking for it is an error."""
    _chosen[0] = request.param
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the compiler")
        yield request.param


def compiled(model, **options):
    return torch.compile(model, backend=_chosen[0], **options)


def programs(model):
    return model._compiled.arrays.known


def agree(one, other, label):
    """Assert that two results are the same; `label`, a text or a function that makes one, says which they are."""
    text = label if callable(label) else lambda: label
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        assert one == other, text()
        return
    assert one.dtype is other.dtype and one.shape == other.shape, text()
    one, other = one.detach(), other.detach()
    torch.testing.assert_close(one, other, rtol=2e-4, atol=1e-5, equal_nan=True, msg=lambda _: text())


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.3)
        self.out = nn.Linear(4 * 9, 3)

    def forward(self, x):
        # Right before a normalization the gradient of a bias would be nothing but rounding, which Adam makes large.
        x = F.max_pool2d(self.norm(F.relu(self.conv(x))), 2)
        return self.out(self.drop(x.flatten(1)))


def loss_of(model, x, t):
    y = model(x)
    return F.cross_entropy(y.reshape(-1, y.shape[-1]), t.reshape(-1))


def state_of(model, optimizer=None):
    state = [*model.state_dict().values(), *[p.grad for p in model.parameters()]]
    if optimizer is not None:
        state += [v for own in optimizer.state.values() for v in own.values() if isinstance(v, torch.Tensor)]
    return state
