"""Numbers that compiled programs make of tensors: returned ones are captured, all others run as they are written."""

from __future__ import annotations

import math
import warnings

import numpy
import pytest

import plugrad as torch
from plugrad import nn
from support.compiled_programs import agree, compiled, loudly, programs  # noqa: F401

X = [torch.tensor([1.0, 2.0, 4.0]) * n for n in (1, 2, -3)]
RETURNED = {
    "a float": lambda x: x.sum().item(),
    "an int": lambda x: (x > 1).sum().item(),
    "a bool": lambda x: (x > 1).any().item(),
    "an element": lambda x: x[1].item(),
    "of half precision": lambda x: x.half().sum().item(),
    "of bfloat16": lambda x: x.bfloat16().sum().item(),
    "a complex number": lambda x: (x * 1j).sum().item(),
    "of an argument": lambda x: (x.sum().item(), x[:1].item()),
    "beside its tensor": lambda x: (lambda y: (y, y.item(), y.item()))(x.sum()),
    "twice": lambda x: [x.sum().item()] * 2,
    "nested": lambda x: {"loss": x.mean().item(), "rest": [x.max().item(), (x * 2, 3)]},
    "before it is written": lambda x: (lambda y: (y.item(), y.mul_(2).item(), y))(x.sum()),
    "by an array": lambda x: x.sum().numpy().item(),
    "with a history": lambda x: (x * W).sum().item(),
    "of a gradient": lambda x: torch.autograd.grad((x * W).sum(), W)[0].sum().item(),
}
W = nn.Parameter(torch.ones(3))
USED = {
    "in a sum": lambda x: x.sum().item() + 1,
    "from the right": lambda x: 1 - x.sum().item(),
    "as a factor": lambda x: x * x.sum().item(),
    "in a comparison": lambda x: x * 2 if x.sum().item() > 10 else x,
    "whether it is one": lambda x: 5 if x.sum().item() == 7 else 6,
    "as a condition": lambda x: 1 if x.sum().item() else 2,
    "by math": lambda x: math.isnan(x.sum().item()) or math.floor(x.sum().item()),
    "by NumPy": lambda x: float(numpy.float64(x.sum().item()) * 2),
    "as a float": lambda x: float(x.sum()),
    "as a rounded number": lambda x: round(x.sum().item()),
    "as a text": lambda x: f"{x.sum().item():.1f}",
    "as a key": lambda x: {x.sum().item(): 1},
    "as a size": lambda x: torch.ones((x > 1).sum().item()),
    "as an index": lambda x: x[(x > 100).sum().item()],
    "as a number to fill with": lambda x: torch.full((2,), x.sum().item()),
    "as an attribute": lambda x: x.sum().item().real,
    "as a list": lambda x: x.tolist(),
}


def alike(one, other):
    assert type(one) is type(other), (one, other)
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other):
            alike(a, b)
    elif isinstance(one, dict):
        assert [*one] == [*other]
        alike([*one.values()], [*other.values()])
    else:
        agree(one, other, "result")


@pytest.mark.parametrize("name", RETURNED)
def test_returned_numbers_are_captured(name):
    function = RETURNED[name]
    call = compiled(function, fullgraph=True)
    for x in X:
        alike(call(x.clone()), function(x.clone()))
    assert len(programs(call)) == 1


@pytest.mark.parametrize("name", USED)
def test_numbers_that_are_used_run_as_written(name):
    function = USED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = compiled(function)
        for x in X[:2]:
            alike(call(x), function(x))
    with pytest.raises(RuntimeError, match="values are looked at|a Python number is made"):
        compiled(function, fullgraph=True)(X[0])


def test_an_array_of_numpy_is_no_result():
    with pytest.raises(RuntimeError, match="a result is an array of NumPy, which is new at each call: return tensors"):
        compiled(lambda x: x.sum().numpy(), fullgraph=True)(X[0])


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.Linear(3, 1), None

    def forward(self, x):
        y = self.inner(x)
        self.last = y.mean().item()
        return y


def test_a_number_that_a_module_remembers():
    one = Remembering()
    other = Remembering()
    other.load_state_dict(one.state_dict())
    call = compiled(other)
    for x in X:
        agree(call(x), one(x), "result")
        assert math.isclose(one.last, other.last, rel_tol=1e-5)


def test_a_step_of_training_returns_its_loss():
    def steps(run):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        x, t = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])

        def step():
            optimizer.zero_grad()
            y = model(x)
            loss = nn.functional.cross_entropy(y, t)
            loss.backward()
            optimizer.step()
            return loss.item(), (y.argmax(1) == t).sum().item()

        step = run(step)
        return [step() for _ in range(5)]

    for (loss, right), (other, count) in zip(steps(lambda f: compiled(f, fullgraph=True)), steps(lambda f: f)):
        assert math.isclose(loss, other, rel_tol=1e-5) and right == count
