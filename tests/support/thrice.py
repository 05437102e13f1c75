"""The op `thrice`, for tests that register one again and again, whatever comes in between."""

import contextlib

import plugrad as torch
from plugrad.extend import register, unary, unregister


def thrice():
    """Return the record of a new op, after one that was registered before is taken back."""

    @unary()
    def thrice(xp, input):
        return 3 * input

    @thrice.vjp
    def thrice_vjp(F, g):
        return 3 * g

    if hasattr(torch, "thrice"):
        unregister(torch.thrice.__op__)
    return thrice


def check(op, where) -> None:
    """Register the op unless it is there, as a whole, and assert that it works in all of its forms."""
    if not hasattr(torch, "thrice"):
        assert not hasattr(torch.ones(1), "thrice"), where
        register(op)
    x = torch.ones(2, requires_grad=True)
    assert hasattr(x, "thrice"), where
    x.thrice().sum().backward()
    assert x.grad.tolist() == [3.0, 3.0], where
    assert torch.thrice(torch.ones(1)).tolist() == [3.0], where
    assert x.detach().thrice_().tolist() == [3.0, 3.0], where


@contextlib.contextmanager
def taken_back():
    """Leave no such op behind."""
    try:
        yield
    finally:
        unregister(torch.thrice.__op__)
