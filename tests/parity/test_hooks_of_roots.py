"""Which hooks run, and which gradients are kept, where a walk starts from tensors and goes to some inputs only."""

from __future__ import annotations

import itertools
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad

ROOTS = ["a", "c", "ab", "cd", "ce", "dd", "bd", "ed", "sa", "cc"]  # letters are tensors, see `shown`
TARGETS = ["a", "b", "c", "ac", "d", "s", "ad"]


def shown(T, roots, hooked, targets, kind, walk):
    """Return what a hook saw, the gradients that were returned, and those that tensors hold."""
    a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    c, d, log = a * 2, b * 3, []
    names = {"a": a, "b": b, "c": c, "d": d, "e": c * 4, "s": (a * 5).unbind(0)[0]}
    if kind == "retain":
        names[hooked].retain_grad()
    else:
        names[hooked].register_hook(lambda g: log.append(g.tolist()))
    starts, ends = [names[one] for one in roots], [names[one] for one in targets]
    ones = [T.ones_like(one) for one in starts]
    given = []
    if walk == "grad":
        given = T.autograd.grad(starts, ends, ones, allow_unused=True)
    else:
        T.autograd.backward(starts, ones, inputs=ends)
    held = [one.grad for one in names.values()]
    return log, *[[None if g is None else g.tolist() for g in gradients] for gradients in (given, held)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("walk", ["grad", "backward"])
@pytest.mark.parametrize("kind", ["hook", "retain"])
def test_hooks_where_a_walk_starts(kind, walk):
    for case in itertools.product(ROOTS, "abcde", TARGETS):
        assert shown(torch, *case, kind, walk) == shown(plugrad, *case, kind, walk), case
