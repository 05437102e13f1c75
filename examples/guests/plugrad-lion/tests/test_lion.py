"""Lion against a by-hand step, and the tests that plugrad derives from the loss."""

import pytest
from plugrad_lion.loss import log_cosh_loss

import plugrad as torch
from plugrad.testing import cases


@pytest.mark.parametrize("case", list(cases(log_cosh_loss)), ids=str)
def test_loss(case):
    case()


def test_step_follows_the_sign():
    w = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    optimizer = torch.optim.Lion([w], lr=0.1, weight_decay=0.5)
    (3 * w[0] - w[1]).backward()
    optimizer.step()
    assert torch.allclose(w.detach(), torch.tensor([0.95 - 0.1, -1.9 + 0.1, 0.475]))


def test_it_minimises():
    w = torch.tensor([3.0, -4.0], requires_grad=True)
    optimizer = torch.optim.Lion([w], lr=0.05, betas=(0.5, 0.5))
    loss = torch.nn.LogCoshLoss()
    for _ in range(200):
        optimizer.zero_grad()
        loss(w, torch.tensor([1.0, 1.0])).backward()
        optimizer.step()
    assert (w.detach() - 1).abs().max() < 0.2
