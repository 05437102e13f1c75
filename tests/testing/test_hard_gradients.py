"""Gradients that are hard to judge: close to poles, of what saturates, and backwards that are wrong now and then."""

import math

import numpy
import pytest

import plugrad as torch
from plugrad.testing import check
from plugrad.testing.gradients.checker import gradient_function
from support.formulas import custom


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("place", [[1e-8, 1.0], [1e-6, 1e3], [1e-9], [1e-12, 1.0]])
def test_close_to_a_pole_at_zero(place, fast):
    x = torch.tensor(place, dtype=torch.float64, requires_grad=True)
    for function in (lambda x: 1 / x, lambda x: x**-2, lambda x: 1 / x.sin()):
        assert check(function, (x,), fast_mode=fast).status == "PASS"
    wrong = custom(lambda x: 1 / x, lambda g, x: -1.001 * g / x / x)
    assert check(wrong, (x,), fast_mode=fast).status == "FAIL"


@pytest.mark.parametrize("fast", [False, True])
def test_right_gradients_close_to_other_poles_are_not_blamed(fast):
    for function, place in (
        (lambda x: 1 / (x - 1), [1 + 1e-8, 2.0]),
        (torch.tan, [math.pi / 2 - 1e-9, 1.0]),
        (torch.digamma, [-1 + 1e-7, 0.5]),
        (lambda x: (1 / x).sum(), [1e-8, *([1.5] * 200)]),
    ):
        x = torch.tensor(place, dtype=torch.float64, requires_grad=True)
        assert check(function, (x,), fast_mode=fast).status in ("PASS", "INCONCLUSIVE")


def test_right_second_gradients_of_what_saturates_are_not_blamed():
    """1 - tanh(x)**2 at 12 is a staircase of roundings, flat close by."""
    random = numpy.random.default_rng(3)
    for _ in range(4):
        x, w = (torch.from_numpy(random.normal(scale=s, size=(3, 3))).requires_grad_() for s in (6.0, 1.0))
        gradient, arguments = gradient_function(lambda x, w: 1e6 * torch.tanh(x @ w), (x, w))
        assert check(gradient, arguments).status != "FAIL"


@pytest.mark.parametrize("period", [2, 3, 4])
def test_a_backward_that_is_wrong_now_and_then(period):
    calls = []

    def backward(g, x):
        calls.append(1)
        return g * x.cos() * (1.01 if len(calls) % period == 0 else 1)

    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    verdict = check(custom(torch.sin, backward), (x,))
    assert verdict.status == "FAIL" and "not reentrant" in verdict.message


def test_a_backward_that_is_wrong_for_a_grad_output_with_gaps():
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    wrong = custom(torch.sin, lambda g, x: g * x.cos() * (1 if g.is_contiguous() else 1.01))
    verdict = check(wrong, (x,))
    assert verdict.status == "FAIL" and "not contiguous" in verdict.message


@pytest.mark.parametrize("call", [torch.prod, lambda x: x.prod(0), lambda x: x.cumprod(0)[-1], torch.masked.prod])
@pytest.mark.parametrize("tiny", [0.0, -3.9e-17, 1e-200])
def test_second_gradients_of_products_next_to_zero(call, tiny):
    x = torch.tensor([-0.21, tiny, 1.7], dtype=torch.float64, requires_grad=True)
    second = torch.autograd.functional.hessian(call, x)
    expected = [[0, 1.7, tiny], [1.7, 0, -0.21], [tiny, -0.21, 0]]
    torch.testing.assert_close(second, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)
