"""Parameters without gradient: the report names them, and where the path from the loss to them ends."""

from __future__ import annotations

import re
import warnings

import numpy
import pytest

import plugrad as torch
from plugrad import autograd

F = torch.nn.functional


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return None


def under_no_grad(h):
    with torch.no_grad():
        return h * 2


# How a hidden layer is used: what the report says of the parameters before it.
MISTAKES = {
    "detach": (lambda h: h.detach(), r"ends in detach\(\) at test_missing\.py:\d+"),
    "data": (lambda h: h.data.relu(), r"ends in \.data at test_missing\.py:\d+"),
    "argmax": (lambda h: F.one_hot(h.argmax(1), 4).float(), r"ends in argmax at .*: argmax has no gradient"),
    "compare": (lambda h: (h > 0).float(), r"ends in gt at .*: gt has no gradient"),
    "integers": (lambda h: h.long().float(), r"its result is torch\.int64, and only floating point"),
    "no_grad": (under_no_grad, r"ends in mul at .*: it ran under no_grad\(\)"),
    "numpy": (lambda h: torch.from_numpy(numpy.tanh(h.detach().numpy())), r"detach\(\) at .*: numpy\(\) made"),
    "tensor": (lambda h: torch.tensor(h.tolist()), r"ends in tolist\(\) at .*plain values"),
    "item": (lambda h: torch.full((5, 4), h.mean().item()), r"ends in item\(\) at .*plain values"),
    "None": (NoGradient.apply, "the backward of NoGradientBackward returned None"),
    "not used": (lambda h: torch.ones(5, 4), "the loss does not depend on the result"),
}


class Net(torch.nn.Module):
    def __init__(self, use):
        super().__init__()
        self.first, self.last, self.use = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2), use

    def forward(self, x):
        return self.last(self.use(self.first(x)))


@pytest.mark.parametrize("name", MISTAKES)
def test_where_the_path_to_a_parameter_ends(name):
    use, pattern = MISTAKES[name]
    model = Net(use)
    with autograd.trace_breaks() as trace:
        loss = model(torch.ones(5, 3)).sum()
    reasons = autograd.explain_missing(loss, model, trace)
    assert [one.name for one in reasons] == ["first.weight", "first.bias"]
    for _, why in reasons:
        assert re.search(pattern, why), why
    assert all(p.grad is None for p in model.parameters())
    with pytest.warns(UserWarning, match="(?s)2 parameter.*first.weight"):
        loss.backward(report=model)
    assert [p.grad is None for p in model.parameters()] == [True, True, False, False]


def test_nothing_is_missing():
    model = Net(torch.relu)
    loss = model(torch.ones(5, 3)).pow(2).mean()
    assert autograd.explain_missing(loss, model) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss.backward(report=model)
    assert autograd.explain_missing(loss, model) == []  # the graph was used up: `.grad` tells


def test_without_a_trace_the_report_says_how_to_get_one():
    model = Net(lambda h: h.detach())
    model.last.bias.requires_grad_(False)
    reasons = dict(autograd.explain_missing(model(torch.ones(5, 3)), model))
    assert set(reasons) == {"first.weight", "first.bias", "last.bias"}
    assert "trace_breaks" in reasons["first.weight"] and "requires_grad is False" in reasons["last.bias"]
    with torch.no_grad():
        loss = model(torch.ones(5, 3)).sum()
    assert "the loss itself has no history" in dict(autograd.explain_missing(loss, model))["last.weight"]


def test_tracing_leaves_nothing_behind():
    own = {name: torch.Tensor.__dict__.get(name) for name in ("detach", "data", "item", "tolist", "_shared")}
    with autograd.trace_breaks(), autograd.trace_breaks():
        assert torch.Tensor.__dict__["detach"] is not own["detach"]
    assert {name: torch.Tensor.__dict__.get(name) for name in own} == own
