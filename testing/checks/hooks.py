"""Checks of hooks on ops: they observe, and change nothing."""

from __future__ import annotations

import contextlib
import io

import plugrad
import plugrad.extend
from plugrad.testing.calls import Skip, same_bits
from plugrad.testing.checks import documents
from plugrad.testing.checks.guesses import required
from plugrad.testing.samples import Maker


def checks(cls) -> dict:
    """Return the checks of a hook class by name."""
    return documents.checks(cls) | {"transparency": transparency, "removal": removal}


def _built(cls):
    names = required(cls)
    if names:
        raise Skip(f"nothing to check it with: its argument {names[0]!r} has no default")
    return cls()


def _program() -> list:
    """Return results and gradients of a few ops: plain ones, a view, one with several results, a composite."""
    x = Maker("watched")(3, 4)
    values, places = plugrad.nn.functional.tanhshrink(x * 2).t().max(0)
    mixed = plugrad.cat([x.exp(), x.sigmoid() - x / 3]).softmax(1) @ x.clone().clamp_(min=0).t()
    ((values * values).sum() + mixed[1:].mean()).backward()
    plugrad.manual_seed(0)
    drawn = plugrad.cat([plugrad.rand(2), plugrad.nn.functional.dropout(plugrad.ones(9)), plugrad.rand(2)])
    return [values.detach(), places, mixed.detach(), x.grad, drawn]


def transparency(cls, device):
    """Ops and their backward give the same under it as without it."""
    expected = _program()
    with contextlib.redirect_stdout(io.StringIO()), _built(cls):
        actual = _program()
    names = ("result", "second result", "third result", "gradient", "random number")
    for what, one, other in zip(names, actual, expected, strict=True):
        assert same_bits(one, other), f"watched by it, a {what} is another"


def removal(cls, device):
    """After its block, left by an error or not, it is gone."""
    inside, everywhere = _built(cls), _built(cls)
    raised = False
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            with inside:
                _ = plugrad.ones(2) * 2 + 1 / 0
        except ZeroDivisionError:
            raised = True
        everywhere.install()
        everywhere.remove()
    still = [hook.active for hook in (inside, everywhere)]
    if still[0]:
        plugrad.extend.OpHook.__exit__(inside)  # the next check is to run without it
    if still[1]:
        plugrad.extend.OpHook.remove(everywhere)
    assert not any(still), "it is still there after its block"
    assert raised, "an error raised in its block is lost: `__exit__` returns something true"
