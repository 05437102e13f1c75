"""What the writers of in-place forms leave to the general path: other options, and every error."""

from __future__ import annotations

import pytest

import plugrad as torch

ZEROS = (0.0, 0.0)


@pytest.mark.parametrize("weight", [0.25, -0.25, 0.5, 0.7, 2.0, 0, 1, torch.tensor(0.7)])
def test_lerp_in_place_equals_lerp(weight):
    start, end = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 5.0])
    expected = torch.lerp(start, end, weight)
    assert torch.allclose(start.lerp_(end, weight), expected) and torch.allclose(start, expected)


def test_lerp_in_place_broadcasts_its_end():
    assert torch.zeros(2, 2).lerp_(torch.tensor([1.0, 2.0]), 0.25).tolist() == [[0.25, 0.5], [0.25, 0.5]]


@pytest.mark.parametrize(
    "write, message",
    [
        (lambda x: x.fill_(1j), "cannot be converted to type float32"),
        (lambda x: x.fill_(torch.ones(2)), "only supports 0-dimension value tensor"),
        (lambda x: x.copy_(torch.ones(3)), "must be broadcastable to the target"),
        (lambda x: x.lerp_(torch.ones(3), 0.25), "do not broadcast"),
        (lambda x: x.lerp_(torch.ones(2, 2), 0.25), "doesn't match the broadcast shape"),
    ],
)
def test_what_a_writer_refuses_is_explained(write, message):
    x = torch.zeros(2)
    with pytest.raises(RuntimeError, match=message):
        write(x)
    assert tuple(x.tolist()) == ZEROS
