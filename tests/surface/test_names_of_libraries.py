"""Small things that libraries import: weak dictionaries, contexts that decorate, questions to transforms, seeds."""

from __future__ import annotations

import contextlib
import copy
import gc

import numpy
import pytest

import plugrad as torch
from plugrad.utils import weak
from plugrad.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager, context_decorator


def test_weak_dictionaries_go_by_identity():
    x, y = torch.ones(2), torch.ones(2)
    notes = weak.WeakIdKeyDictionary({x: 1})
    notes[y] = 2
    assert (notes[x], notes[y], len(notes), torch.ones(2) in notes, 3 in notes) == (1, 2, 2, False, False)
    other = copy.copy(notes)
    del notes[y]
    assert dict(notes.items())[x] == 1 and len(other) == 2
    del x
    gc.collect()
    assert len(notes) == 0 and len(other) == 1
    with pytest.raises(KeyError):
        notes[y]


def test_references_to_tensors():
    x = torch.ones(2)
    ref = weak.TensorWeakRef(x)
    assert ref() is x
    del x
    gc.collect()
    assert ref() is None
    with pytest.raises(AssertionError, match="expected torch.Tensor"):
        weak.TensorWeakRef(3)


class Noting(_NoParamDecoratorContextManager):
    log: list = []

    def __enter__(self):
        self.log.append("in")

    def __exit__(self, *error):
        self.log.append("out")


def test_contexts_decorate_functions_and_generators():
    @Noting
    def double(x):
        return 2 * x

    @Noting()
    def count():
        yield 1
        yield 2

    Noting.log.clear()
    assert double(3) == 6 and Noting.log == ["in", "out"]
    assert list(count()) == [1, 2] and Noting.log == ["in", "out"] * 4  # never between two of its values
    assert context_decorator(lambda: Noting(), lambda: 5)() == 5 and len(Noting.log) == 10
    assert context_decorator(contextlib.nullcontext(), lambda: 5)() == 5
    with pytest.raises(AssertionError, match="pass one of them"):
        context_decorator(Noting(), lambda: 5)
    with pytest.raises(RuntimeError, match="Cannot decorate classes"):
        context_decorator(lambda: contextlib.nullcontext(), int)
    with pytest.raises(NotImplementedError), _DecoratorContextManager():
        pass


def test_what_is_asked_of_tensors_in_transforms():
    from plugrad._C import _functorch
    from plugrad.fx.experimental.proxy_tensor import get_proxy_mode

    seen = []
    torch.func.vmap(lambda x: seen.append(_functorch.is_batchedtensor(x)) or x)(torch.ones(2, 3))
    assert not any(seen) and get_proxy_mode() is None
    x = torch.ones(2)
    assert _functorch.get_unwrapped(x) is x and _functorch.maybe_get_level(x) == -1
    with pytest.raises(NotImplementedError, match="write torch.func.vmap"):
        _functorch._add_batch_dim(x, 0, 1)


def test_scripts_leave_classes_as_they_are_and_may_resize():
    @torch.jit.script
    class Pair:
        def __init__(self, a: int):
            self.a = a

    assert Pair(3).a == 3

    def like(x, y):
        z = torch.zeros(0)
        return z.resize_as_(x).copy_(y)

    assert torch.jit.script(like)(torch.ones(2), torch.full((2,), 5.0)).tolist() == [5, 5]


class Drawn(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return numpy.random.rand()


def test_workers_draw_the_numbers_of_numpy_that_pytorchs_do():
    oracle = pytest.importorskip("torch")
    found = []
    for library in (oracle, torch):
        library.manual_seed(0)
        data = library.utils.data.DataLoader(Drawn(), batch_size=2, num_workers=2)
        found.append([batch.tolist() for batch in data])
    assert found[0] == found[1]


def test_dictionaries_by_identity_are_joined_and_copied():
    a, b = torch.ones(1), torch.ones(1)
    x, y = weak.WeakIdKeyDictionary({a: [1]}), weak.WeakIdKeyDictionary({b: 2, a: 3})
    assert dict((x | y).items()) == {a: 3, b: 2} and dict(({b: 2} | x).items()) == {a: [1], b: 2}
    copied = copy.deepcopy(x)
    assert copied[a] == [1] and copied[a] is not x[a] and a in copied
    x |= {b: 4}
    assert len(x) == 2 and x[b] == 4
    with pytest.raises(TypeError):
        x | 3
