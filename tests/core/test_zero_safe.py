"""Safer numbers: no NaN from the branch not taken."""

from __future__ import annotations

import math

import numpy
import pytest

import plugrad as torch
from plugrad import autograd
from support.threads import elsewhere

INF, NAN = math.inf, math.nan


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def taken_by_mask(x):
    quotient = x / torch.tensor([0.0, 1.0])
    return quotient[torch.tensor([False, True])]


# name: (function of x, x, gradient of its sum). Derived by hand: the branch not taken contributes 0, and where the
# derivative at the point is a number of its own (a root at 0, the spread of a constant), the subgradient of least norm.
PROGRAMS = {
    "log in where": (lambda x: torch.where(x > 0, x.log(), 0.0), [-1.0, 0.0, 2.0], [0.0, 0.0, 0.5]),
    "quotient in where": (lambda x: torch.where(torch.tensor(False), x / 0, torch.ones(())), 3.0, 0.0),
    "quotient by x in where": (lambda x: torch.where(x != 0, 1 / x, 0.0), [0.0, 2.0], [0.0, -0.25]),
    "sine by x": (lambda x: torch.where(x == 0, 1.0, x.sin() / x), [0.0, 1.0], [0.0, math.cos(1) - math.sin(1)]),
    "quotient masked by index": (taken_by_mask, [1.0, 1.0], [0.0, 1.0]),
    "exp in where": (lambda x: torch.where(x < 0, x.exp(), 1.0), [-1.0, 0.0, 800.0], [math.exp(-1), 0.0, 0.0]),
    "softplus by where": (lambda x: torch.where(x > 20, x, x.exp().log1p()), [0.0, 1000.0], [0.5, 1.0]),
    "logarithm times mask": (lambda x: torch.where(x > 0, x * x.log(), 0.0), [0.0, 1.0], [0.0, 1.0]),
    "masked_fill": (lambda x: x.log().masked_fill(x <= 0, 0.0), [-1.0, 0.0, 4.0], [0.0, 0.0, 0.25]),
    "root times zero": (lambda x: x.sqrt() * 0, [0.0, 4.0], [0.0, 0.0]),
    "root in where": (lambda x: torch.where(x > 0, x.sqrt(), 0.0), [-4.0, 0.0, 4.0], [0.0, 0.0, 0.25]),
    "power in where": (lambda x: torch.where(x > 0, x**0.5, 0.0), [0.0, 4.0], [0.0, 0.25]),
    "power of negative base": (lambda x: torch.where(x > 0, x**0.5, 0.0), [-1.0, 1.0], [0.0, 0.5]),
    "arc cosine in where": (lambda x: torch.where(x.abs() < 1, x.acos(), 0.0), [1.0, 2.0, 0.0], [0.0, 0.0, -1.0]),
    "atan2 in where": (lambda x: torch.where(x != 0, torch.atan2(x, x), 0.0), [0.0, 1.0], [0.0, 0.0]),
    "norm at zero": (lambda x: (x * x).sum().sqrt(), [0.0, 0.0], [0.0, 0.0]),
    "norm of rows": (lambda x: (x * x).sum(1).sqrt(), [[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [0.6, 0.8]]),
    "own norm": (lambda x: x.norm(dim=1), [[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [0.6, 0.8]]),
    "square and root": (lambda x: (x**2).sqrt(), [0.0, -2.0], [0.0, -1.0]),
    "distance to itself": (lambda x: ((x[:, None] - x[None]) ** 2).sum(-1).sqrt(), [[1.0], [3.0]], [[-2.0], [2.0]]),
    "std of a constant": (lambda x: x.std(), [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]),
    "var of a constant": (lambda x: x.var(), [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]),
    "root of the variance": (lambda x: ((x - x.mean()) ** 2).mean().sqrt(), [2.0, 2.0], [0.0, 0.0]),
    "broadcast": (lambda x: torch.where(torch.tensor([[True], [True]]), x, x.log()[None] * x), [0.0, 2.0], [2.0, 2.0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_branch_not_taken_contributes_nothing(name):
    function, point, expected = PROGRAMS[name]
    x = leaf(point)
    result = function(x).sum()
    with autograd.zero_safe():
        (by_grad,) = autograd.grad(result, x, retain_graph=True)
        (recorded,) = autograd.grad(result, x, create_graph=True)
        result.backward()
    for grad in (by_grad, recorded.detach(), x.grad):
        numpy.testing.assert_allclose(grad.numpy(), expected, rtol=1e-12)


def test_some_of_these_are_nan_otherwise():
    for name in ("log in where", "quotient in where", "exp in where", "root times zero", "norm at zero"):
        function, point, _ = PROGRAMS[name]
        x = leaf(point)
        function(x).sum().backward()
        assert x.grad.isnan().any(), name


def test_real_nans_propagate():
    with autograd.zero_safe():
        for function, point in (
            (lambda x: x.log(), NAN),  # gradient 1 times derivative NaN
            (lambda x: (x * NAN).exp(), 1.0),  # the gradient itself is NaN
            (lambda x: x.sqrt() * 2, -1.0),
            (lambda x: torch.where(x < 0, x.sqrt(), 0.0), -1.0),  # the branch taken
        ):
            x = leaf(point)
            function(x).backward()
            assert math.isnan(x.grad.item())
        x = leaf([0.0, 1.0])
        (x.sqrt() * torch.tensor([INF, 1.0])).sum().backward()
        assert x.grad.tolist() == [INF, 0.5]  # infinite, and no product with 0


@pytest.mark.parametrize("name", ["log in where", "root in where", "exp in where", "quotient by x in where"])
def test_second_derivative(name):
    second = {"log in where": [0, 0, -0.25], "root in where": [0, 0, -1 / 32], "exp in where": [math.exp(-1), 0, 0],
              "quotient by x in where": [0, 0.25]}[name]  # fmt: skip
    function, point, _ = PROGRAMS[name]
    x = leaf(point)
    with autograd.zero_safe():
        (g,) = autograd.grad(function(x).sum(), x, create_graph=True)
        (h,) = autograd.grad(g.sum(), x)
    numpy.testing.assert_allclose(h.numpy(), second, rtol=1e-12)


def test_second_derivative_through_a_gradient_of_zero():
    x = leaf(2.0)
    with autograd.zero_safe():
        (g,) = autograd.grad((x**2 - 4) ** 2, x, create_graph=True)
        (h,) = autograd.grad(g, x)
    assert g.item() == 0 and h.item() == 32


def test_finite_gradients_stay_bit_for_bit():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3), torch.nn.Softplus())
    x, grads = torch.randn(4, 6), []
    for enabled in (False, True):
        model.zero_grad()
        with autograd.zero_safe(enabled):
            (model(x).log() * x[:, :3].exp()).pow(2).mean().backward()
        grads.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads))


@pytest.mark.parametrize("length", [1, 3, 63, 64, 65, 200])
def test_long_chains_are_safe_from_end_to_end(length):
    x = leaf([0.0, 1.0])
    y = x.sqrt()
    for _ in range(length):
        y = y * 1.0
    with autograd.zero_safe():
        torch.where(x > 0, y, 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.5]


def test_with_hooks_and_several_uses():
    x, seen = leaf([0.0, 4.0]), []
    root = x.sqrt()
    root.register_hook(lambda g: seen.append(g.tolist()))
    y = torch.where(x > 0, root + root.log(), 0.0) + x
    with autograd.zero_safe():
        y.sum().backward()
    assert seen == [[0.0, 1.5]]
    assert x.grad.tolist() == [1.0, 1.375]


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_other_dtypes(dtype):
    x = torch.tensor([0.0, 1.0], dtype=getattr(torch, dtype), requires_grad=True)
    with autograd.zero_safe():
        (x.sqrt() * torch.tensor([0.0, 1.0])).abs().sum().backward()
    assert x.grad.dtype is getattr(torch, dtype) and x.grad.tolist() == [0.0, 0.5]


def test_other_families_are_left_alone():
    class Log(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.log()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return torch.from_numpy(g.numpy() / x.detach().numpy())

    x = leaf([0.0, 2.0])
    with autograd.zero_safe(), numpy.errstate(all="ignore"):
        torch.where(x > 0, Log.apply(x), 0.0).sum().backward()
    assert math.isnan(x.grad[0].item()) and x.grad[1].item() == 0.5


def test_it_acts_where_backward_runs_and_in_its_thread():
    def gradient():
        x = leaf(0.0)
        (x.sqrt() * 0).backward()
        return x.grad.item()

    x = leaf(0.0)
    with autograd.zero_safe():
        y = x.sqrt() * 0
    y.backward()
    assert math.isnan(x.grad.item())
    with autograd.zero_safe():
        enabled, grad = elsewhere(lambda: (autograd.is_zero_safe_enabled(), gradient()))
        with autograd.zero_safe(False):
            assert math.isnan(gradient())
        assert gradient() == 0
    assert not enabled and math.isnan(grad)
    assert autograd.zero_safe()(gradient)() == autograd.zero_safe(gradient)() == 0
    autograd.set_zero_safe(True)
    try:
        assert autograd.is_zero_safe_enabled() and gradient() == 0
    finally:
        autograd.set_zero_safe(False)
    assert math.isnan(gradient())


def _reported_missing_targets():
    """Targets that are missing count for nothing, masked after the loss."""
    x, y = leaf([[0.0, 0.5]]), torch.tensor([[NAN, 0.0]], dtype=torch.float64)
    torch.square(x - y)[~torch.isnan(y)].sum().backward()
    return x.grad


def _reported_reassignment():
    x = leaf([0.0, 100.0])
    f = torch.log(torch.exp(10 * x) + 1)
    f[1] = 0
    f[:] = 0
    return torch.autograd.grad(f[1], x)[0]


def _reported_where(condition, one, other, values):
    x = leaf(values)
    torch.where(condition(x), one(x), other(x)).sum().backward()
    return x.grad


def _masked_by_finite(x):
    return torch.isfinite(x.log())


REPORTED = {  # what users of PyTorch reported as wrong, and what they expected
    "pytorch#187297": (lambda: _reported_where(lambda x: x > 0, torch.sqrt, lambda x: x, [-1.0, -4.0]), [1.0, 1.0]),
    "pytorch#156212": (
        lambda: _reported_where(lambda x: x <= 10, torch.exp, lambda x: torch.tensor(1), [1.0, NAN, 1e10]),
        [math.e, 0.0, 0.0],
    ),
    "pytorch#108618": (
        lambda: _reported_where(lambda x: x > 2, torch.log2, lambda x: 2 * x, [0.0, 2.0, 3.0]),
        [2.0, 2.0, 1 / (3 * math.log(2))],
    ),
    "pytorch#68425": (lambda: _reported_where(lambda x: x <= 0, torch.exp, lambda x: 1 + x, [1000.0]), [1.0]),
    "pytorch#52248": (lambda: _reported_where(_masked_by_finite, torch.log, lambda x: 3 * x, [0.0, 2.0]), [3.0, 0.5]),
    "pytorch#64305": (_reported_missing_targets, [[0.0, 1.0]]),
    "pytorch#17455": (_reported_reassignment, [0.0, 0.0]),
}


@pytest.mark.parametrize("name", REPORTED)
def test_what_was_reported_gives_the_expected_numbers(name):
    program, expected = REPORTED[name]
    assert program().isnan().any()
    with autograd.zero_safe():
        assert torch.allclose(program(), torch.tensor(expected, dtype=torch.float64))
