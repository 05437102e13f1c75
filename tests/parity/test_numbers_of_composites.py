"""Ints of more than 64 bits: floats where PyTorch takes a float, refused where it takes a number."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from plugrad import overrides, registry

FAR = 10**30
CALLS = {
    "rms_norm": lambda T, F, x: F.rms_norm(x, (4,), None, FAR),
    "cosine_similarity": lambda T, F, x: F.cosine_similarity(x, x, 1, FAR),
    "pairwise_distance": lambda T, F, x: F.pairwise_distance(x, x, 2.0, eps=FAR),
    "poisson_nll_loss": lambda T, F, x: F.poisson_nll_loss(x, x, False, eps=FAR),
    "triplet_margin_loss": lambda T, F, x: F.triplet_margin_loss(x, x, x, margin=FAR),
    "margin_ranking_loss": lambda T, F, x: F.margin_ranking_loss(x[0], x[1], x[2], margin=FAR),
    "hinge_embedding_loss": lambda T, F, x: F.hinge_embedding_loss(x, x.sign(), margin=-FAR),
    "cosine_embedding_loss": lambda T, F, x: F.cosine_embedding_loss(x, x, T.ones(3), margin=FAR),
    "smooth_l1_loss": lambda T, F, x: F.smooth_l1_loss(x, -x, beta=FAR),
    "layer_norm": lambda T, F, x: F.layer_norm(x, (4,), None, None, FAR),
    "RMSNorm": lambda T, F, x: T.nn.RMSNorm(4, FAR, dtype=x.dtype)(x),
    "MarginRankingLoss": lambda T, F, x: T.nn.MarginRankingLoss(FAR)(x[0], x[1], x[2]),
}


class Watching(overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("watched", [False, True])
def test_ints_stand_for_floats_however_large_they_are(name, watched):
    def result(T):
        return CALLS[name](T, T.nn.functional, T.linspace(-1, 2, 12, dtype=T.float64).view(3, 4))

    expected = result(torch).detach().flatten().tolist()
    if watched:
        with Watching():
            found = result(plugrad)
    else:
        found = result(plugrad)
    assert found.detach().flatten().tolist() == pytest.approx(expected)


def composites(words):
    """Return (op, name) of all parameters of composites that take one kind of numbers."""
    kinds = [(op, op.known_kinds) for op in registry.ops.values() if op.family == "composite" and op.names]
    return [(op, name) for op, known in kinds for name, kind in known.items() if kind.words == words]


def test_no_composite_gets_an_int_that_its_ops_do_not_take():
    from plugrad.dispatch import arguments

    found = composites("float")
    assert len(found) > 20
    for op, name in found:
        values = [op.defaults.get(one) for one in op.parameters]
        values[op.index[name]] = FAR
        rest = {one for one in op.known_kinds if one != name}
        if all(op.known_kinds[one].fits(values[op.index[one]]) for one in rest):
            assert type(arguments.right(op, values)[op.index[name]]) is float


def test_a_number_that_is_no_float_is_refused_as_by_pytorch():
    for T in (torch, plugrad):
        x = T.ones(3, dtype=T.float64)
        for call in (lambda x=x: x * FAR, lambda x=x: x + FAR, lambda x=x, T=T: T.full((2,), FAR)):
            with pytest.raises(OverflowError, match="int too big to convert"):
                call()
        assert (x * (2**64 - 1)).sum().item() == 3 * 2.0**64


@pytest.mark.parametrize("value", ["1", None, 1j, [1.0]])
def test_what_is_no_float_is_refused_still(value):
    for T in (torch, plugrad):
        with pytest.raises((TypeError, RuntimeError)):
            T.nn.functional.margin_ranking_loss(T.ones(2), T.ones(2), T.ones(2), margin=value)
