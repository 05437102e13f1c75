"""The checks that follow from what the package declares, and what only its author can know: steps by hand."""

import plugrad as torch
from plugrad.testing import conformance_tests

test_package = conformance_tests("plugrad-lion")


def test_step_follows_the_sign():
    w = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    optimizer = torch.optim.Lion([w], lr=0.1, weight_decay=0.5)
    (3 * w[0] - w[1]).backward()
    optimizer.step()
    assert torch.allclose(w.detach(), torch.tensor([0.95 - 0.1, -1.9 + 0.1, 0.475]))


def test_they_minimise_together():
    w = torch.tensor([3.0, -4.0], requires_grad=True)
    optimizer = torch.optim.Lion([w], lr=0.2, betas=(0.5, 0.5))
    schedule = torch.optim.lr_scheduler.InverseSqrtLR(optimizer, warmup=10)
    loss = torch.nn.LogCoshLoss()
    for _ in range(300):
        optimizer.zero_grad()
        loss(w, torch.tensor([1.0, 1.0])).backward()
        optimizer.step()
        schedule.step()
    assert (w.detach() - 1).abs().max() < 0.2
    assert abs(schedule.get_last_lr()[0] - 0.2 * (10 / 301) ** 0.5) < 1e-12
