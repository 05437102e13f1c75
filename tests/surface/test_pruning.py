"""Pruning: PyTorch's masks, keys, hooks and errors."""

import io
import pickle
from importlib import import_module

import pytest

import plugrad
from support.outcomes import all_as_pytorch, fill, same_as_pytorch

WAYS = {
    "identity": (),
    "l1_unstructured": (3,),
    "ln_structured": (0.5, 2, -1),
    "random_unstructured": (0.3,),
    "random_structured": (1, 0),
    "custom_from_mask": ([[1.0, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 0]],),
}


def life(T, way, arguments):
    """Prune, differentiate, save, and make it last."""
    prune = import_module(f"{T.__name__}.nn.utils.prune")
    layer = fill(T.nn.Linear(3, 4))
    if way == "custom_from_mask":
        arguments = (T.tensor(arguments[0]),)
    assert getattr(prune, way)(layer, "weight", *arguments) is layer
    layer(T.ones(2, 3)).sum().backward()
    seen = [] if "random" in way else [layer.weight, layer.weight_mask, layer.weight_orig.grad]
    seen += [int((layer.weight == 0).sum()), list(layer.state_dict()), prune.is_pruned(T.nn.Sequential(layer))]
    file = io.BytesIO()
    T.save(layer.state_dict(), file)
    file.seek(0)
    other = prune.identity(T.nn.Linear(3, 4), "weight")
    other.load_state_dict(T.load(file))
    seen.append(bool((other(T.ones(2, 3)) == layer(T.ones(2, 3))).all()))
    prune.remove(layer, "weight")
    seen += [list(layer.state_dict()), prune.is_pruned(layer), int((layer.weight == 0).sum()), layer.weight.is_leaf]
    return [*seen, len(layer._forward_pre_hooks), [name for name, _ in layer.named_parameters()]]


@pytest.mark.parametrize("way", WAYS)
def test_ways(way):
    same_as_pytorch(life, way, WAYS[way])


def several(T):
    prune = import_module(f"{T.__name__}.nn.utils.prune")
    layer = fill(T.nn.Conv2d(2, 4, 2))
    prune.l1_unstructured(layer, "weight", 5, importance_scores=layer.weight.detach() ** 2)
    prune.ln_structured(layer, "weight", 2, 2, 0)
    seen = [layer.weight_mask]
    prune.random_unstructured(layer, "weight", 1)
    prune.random_structured(layer, "weight", 1, 0)
    (container,) = layer._forward_pre_hooks.values()
    seen += [int((layer.weight == 0).sum() > 16), [type(method).__name__ for method in container], len(container)]
    return [*seen, type(container[0]).__name__, container._tensor_name]


def everywhere(T):
    prune = import_module(f"{T.__name__}.nn.utils.prune")
    first, second = fill(T.nn.Linear(3, 4)), fill(T.nn.Linear(4, 2), 1)
    pairs = [(first, "weight"), (second, "weight"), (second, "bias")]
    prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=7)
    seen = [first.weight, second.weight, second.bias]
    scores = {(first, "weight"): T.zeros(4, 3)}
    prune.global_unstructured(pairs[:2], pruning_method=prune.L1Unstructured, importance_scores=scores, amount=0.5)
    return [*seen, int((first.weight == 0).sum()), int((second.weight == 0).sum())]


def single(T):
    prune, t = import_module(f"{T.__name__}.nn.utils.prune"), T.arange(1.0, 5.0)
    pick = prune.L1Unstructured(2)
    scores, mask = T.tensor([4.0, 3, 2, 1]), T.tensor([1.0, 1, 1, 0])
    return pick.prune(t), pick.prune(t, importance_scores=scores, default_mask=mask), len(prune.PruningContainer())


@pytest.mark.parametrize("case", [several, everywhere, single])
def test_as_in_pytorch(case):
    same_as_pytorch(case)


def refusals(T):
    prune, linear = import_module(f"{T.__name__}.nn.utils.prune"), T.nn.Linear
    for amount in (-1, 1.5, "x", None, 100, -0.5):
        yield lambda amount=amount: prune.l1_unstructured(linear(2, 2), "weight", amount)
        yield lambda amount=amount: prune.ln_structured(linear(2, 2), "weight", amount, 2, 0)
    yield lambda: prune.global_unstructured(3, pruning_method=prune.L1Unstructured, amount=7)
    pairs = [(linear(2, 2), "weight")]
    yield lambda: prune.global_unstructured(pairs, pruning_method=prune.LnStructured, amount=1, n=2)
    yield lambda: prune.global_unstructured(pairs, prune.L1Unstructured, importance_scores=[1], amount=1)
    yield lambda: prune.random_structured(linear(2, 2), "bias", 1, 0)
    yield lambda: prune.random_structured(linear(2, 2), "weight", 1, 5)
    yield lambda: prune.random_structured(linear(2, 2), "weight", 1, -5)
    yield lambda: prune.remove(linear(2, 2), "weight")
    yield lambda: prune.custom_from_mask(linear(2, 2), "weight", T.ones(3))
    yield lambda: prune.l1_unstructured(linear(2, 2), "weight", 1, T.ones(3))
    yield lambda: prune.l1_unstructured(linear(2, 2), "other", 1)
    yield lambda: prune.PruningContainer(prune.L1Unstructured(1))
    yield lambda: prune.PruningContainer(None)
    yield lambda: prune.BasePruningMethod()
    once = prune.identity(linear(2, 2), "weight")
    yield lambda: prune.random_structured(once, "weight", 1, -5)
    layer = linear(2, 2)
    yield lambda: prune.l1_unstructured(layer, "weight", 100)
    yield lambda: [sorted(layer.state_dict()), sorted(name for name, _ in layer.named_parameters())]  # as it was


def test_refusals():
    all_as_pytorch(refusals)


def test_pruned_modules_can_be_pickled():
    layer = plugrad.nn.utils.prune.l1_unstructured(plugrad.nn.Linear(3, 4), "weight", 3)
    again = pickle.loads(pickle.dumps(layer))
    assert (again(plugrad.ones(3)) == layer(plugrad.ones(3))).all()
