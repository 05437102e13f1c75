"""Callbacks for the end of a backward, and the names of PyTorch's C++ part that programs use around autograd."""

from __future__ import annotations

import gc

import pytest

import plugrad

torch = pytest.importorskip("torch")


def order_of_events(T, fails):
    """Return what happens in a backward within a backward, each of which queues a callback."""
    events = []
    engine = T.autograd.Variable._execution_engine

    def last():
        events.append("last")

    def end(name):
        events.append(name)
        if name == "outer":
            engine.queue_callback(last)

    class Inner(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            engine.queue_callback(lambda: end("inner"))
            events.append("in inner")
            return g

    class Outer(Inner):
        @staticmethod
        def backward(ctx, g):
            engine.queue_callback(lambda: end("outer"))
            with T.enable_grad():
                Inner.apply(T.ones(2, requires_grad=True)).sum().backward()
            events.append("in outer")
            if fails:
                raise ValueError("stop")
            return g

    x = T.ones(2, requires_grad=True)
    try:
        Outer.apply(x).sum().backward()
    except ValueError:
        events.append("error")
    (x * 2).sum().backward()
    events.append("after")
    return events


@pytest.mark.parametrize("fails", [False, True])
def test_callbacks_are_called_when_their_walk_ends(fails):
    assert order_of_events(plugrad, fails) == order_of_events(torch, fails)


def test_outside_of_backward_nothing_is_queued():
    for T in (plugrad, torch):
        with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
            T.autograd.Variable._execution_engine.queue_callback(print)


def test_names_of_the_engine():
    for T in (plugrad, torch):
        x = T.ones(2, requires_grad=True)
        reference = T._C._WeakTensorRef(x)
        assert isinstance((x * 2).grad_fn.next_functions[0][0], T._C._functions.AccumulateGrad)
        T._C._functions.UndefinedGrad()(x * 2).sum().backward()
        assert x.grad is None or not x.grad.any()
        assert not reference.expired()
        del x
        gc.collect()
        assert reference.expired()
        T._C._set_fwd_grad_enabled(False)
        assert not T.autograd.forward_ad._is_fwd_grad_enabled()
        T._C._set_fwd_grad_enabled(True)
        assert T.autograd.forward_ad._is_fwd_grad_enabled()
