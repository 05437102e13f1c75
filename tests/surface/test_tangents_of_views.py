"""Views that were made before their base got a tangent have their part of it in every op, as in PyTorch."""

import gc
import itertools

import pytest

import plugrad

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit")


@pytest.fixture(autouse=True, scope="module")
def few_objects():
    """Views are found among all objects that the garbage collector knows: those of other tests are set aside."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


MAKE = [lambda b: b[1:], lambda b: b.view(2, 2), lambda b: b[1:][1:], lambda b: b.unbind()[2:][0].expand(3)]
WRITE = [
    lambda b, d: b.copy_(d),
    lambda b, d: b.add_(d),
    lambda b, d: b[1:].mul_(d[1:]),
    lambda b, d: b.__setitem__(slice(0, 4), d),
]
USE = [
    lambda v: v,
    lambda v: v * 2,
    lambda v: 2 - v,
    lambda v: v.sum(),
    lambda v: v.clone(),
    lambda v: v @ v,
    lambda v: v[0:],
]


def tangent(module, make, write, use):
    forward = module.autograd.forward_ad
    with forward.dual_level():
        base = module.ones(4)
        view = make(base)
        write(base, forward.make_dual(module.full((4,), 3.0), module.arange(4.0)))
        found = forward.unpack_dual(use(view)).tangent
        return None if found is None else found.tolist()


@pytest.mark.parametrize("make", range(len(MAKE)))
def test_a_view_follows_its_base(make):
    for write, use in itertools.product(WRITE, USE):
        ours, theirs = (tangent(module, MAKE[make], write, use) for module in (plugrad, torch))
        assert ours == theirs and theirs is not None


def test_the_level_leaves_nothing_behind():
    base = plugrad.ones(4)
    view = base[1:]
    before = view._type
    with plugrad.autograd.forward_ad.dual_level():
        base.add_(plugrad.autograd.forward_ad.make_dual(plugrad.ones(4), plugrad.ones(4)))
        assert view._type is not before
    assert view._type is before
