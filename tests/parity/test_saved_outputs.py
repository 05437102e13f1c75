"""Gradients of first derivatives by the outputs that an op or Function of several saved: they are the tensors' own."""

from __future__ import annotations

import gc
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from plugrad.graph.nodes import OutputSlot


def start(T):
    return T.tensor([[2.0, 0.5], [-0.25, 1.5]], dtype=T.float64, requires_grad=True)


def function(T, **how):
    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            marks = (y > 1).to(x.dtype)
            ctx.save_for_backward(*((y, x) if how.get("input") else (y,)))
            if how.get("marked"):
                ctx.mark_non_differentiable(marks)
            return y, marks if how.get("marked") else 2 * x

        @staticmethod
        def backward(ctx, g, h):
            y = ctx.saved_tensors[0]
            return g * y if how.get("marked") else g * y + 2 * h

    return Two.apply


OPS = {
    "Function": lambda T: function(T),
    "Function that saves an input, too": lambda T: function(T, input=True),
    "Function with a mark": lambda T: function(T, marked=True),
    "svd": lambda T: lambda x: T.linalg.svd(x, full_matrices=False),
    "eigh": lambda T: lambda x: T.linalg.eigh(x + x.mT),
    "qr": lambda T: T.linalg.qr,
    "slogdet": lambda T: lambda x: T.linalg.slogdet(x @ x.mT)[1:] * 2,
    "inv_ex": lambda T: T.linalg.inv_ex,
    "cholesky_ex": lambda T: lambda x: T.linalg.cholesky_ex(x @ x.mT + 1),
    "std_mean": lambda T: T.std_mean,
    "max": lambda T: lambda x: x.max(0),
}


@pytest.mark.parametrize("name", OPS)
def test_a_first_derivative_has_the_gradients_by_saved_outputs_that_pytorch_gives(name):
    def program(T, kept):
        x = start(T)
        outputs = [y for y in OPS[name](T)(x) if y.requires_grad]
        total = sum((y * y).sum() for y in outputs)
        (first,) = T.autograd.grad(total, x, create_graph=True)
        if not kept:  # what is gone has another edge when it is restored
            del outputs[1:], total
            gc.collect()
        found = T.autograd.grad((first * first).sum(), [*outputs, x], retain_graph=True, allow_unused=True)
        again = T.autograd.grad((first * first).sum(), [x, *outputs], allow_unused=True)
        return [None if one is None else one.tolist() for one in (*found, *again)]

    for kept in (True, False):
        expected, found = program(torch, kept), program(plugrad, kept)
        assert [one is None for one in found] == [one is None for one in expected]
        for one, other in zip(found, expected):
            assert one is None or flat([one]) == pytest.approx(flat([other]))


def flat(nested):
    return [value for item in nested for value in flat(item)] if isinstance(nested, list) else [nested]


def test_hooks_and_kept_gradients_of_a_saved_output_see_the_second_derivative():
    def program(T):
        x, seen = start(T), []
        y, _ = function(T)(x)
        y.retain_grad()
        y.register_hook(lambda g: seen.append(flat(g.tolist())))
        (first,) = T.autograd.grad(y.sum(), x, create_graph=True)
        (first * first).sum().backward()
        return *seen, flat(y.grad.tolist()), flat(x.grad.tolist())

    for found, expected in zip(program(plugrad), program(torch), strict=True):
        assert found == pytest.approx(expected)


def test_nothing_is_kept_of_outputs_that_are_gone():
    def kept():
        gc.collect()
        return sum(type(one) is OutputSlot for one in gc.get_objects())

    before = kept()
    for _ in range(5):
        x = start(plugrad)
        y, other = function(plugrad)(x)
        plugrad.autograd.grad(y.sum(), x, create_graph=True)[0].sum().backward()
        x.grad = None
    assert kept() > before
    del x, y, other
    assert kept() == before
