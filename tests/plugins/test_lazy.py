"""Layers that learn sizes from their first input: as PyTorch's, and as the same layers with sizes written out."""

import copy
import inspect
import pickle
import random

import pytest

import plugrad
from plugrad import nn
from plugrad.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

torch = pytest.importorskip("torch")

# A lazy constructor's arguments, the learnt size, and an input's shape.
LAYERS = [
    ("Linear", (4,), {}, 3, (2, 3)),
    ("Linear", (4,), {"bias": False}, 3, (3,)),
    ("Conv1d", (4, 2), {}, 3, (2, 3, 5)),
    ("Conv2d", (4, (2, 3)), {"stride": 2, "padding": 1, "padding_mode": "reflect"}, 2, (2, 2, 5, 6)),
    ("Conv3d", (4, 2), {"groups": 2, "bias": False}, 2, (2, 3, 4, 5)),
    ("ConvTranspose1d", (4, 2), {}, 3, (2, 3, 5)),
    ("ConvTranspose2d", (4, 2), {"stride": 2, "output_padding": 1}, 3, (3, 4, 4)),
    ("ConvTranspose3d", (4, 2), {"bias": False}, 2, (1, 2, 3, 3, 3)),
    ("BatchNorm1d", (), {}, 3, (4, 3)),
    ("BatchNorm2d", (1e-3, 0.2), {"affine": False}, 3, (4, 3, 2, 2)),
    ("BatchNorm3d", (), {"track_running_stats": False, "bias": False}, 2, (4, 2, 2, 2, 2)),
    ("InstanceNorm1d", (), {"affine": True, "track_running_stats": False}, 3, (2, 3, 5)),
    ("InstanceNorm2d", (), {"affine": False, "track_running_stats": True}, 3, (2, 3, 5, 5)),
    ("InstanceNorm3d", (), {"affine": True, "track_running_stats": True, "momentum": 0.3}, 2, (2, 2, 3, 3, 3)),
]


def lazy_of(library, name, args, options):
    return getattr(library.nn, f"Lazy{name}")(*args, **options)


def equal_states(one, other):
    ours, theirs = one.state_dict(), other.state_dict()
    return list(ours) == list(theirs) and all(plugrad.equal(ours[key], theirs[key]) for key in ours)


@pytest.mark.parametrize(("name", "args", "options", "size", "shape"), LAYERS)
def test_a_lazy_layer_is_pytorchs_and_becomes_the_ordinary_one(name, args, options, size, shape):
    ours, theirs = (lazy_of(library, name, args, options) for library in (plugrad, torch))
    assert list(inspect.signature(type(ours)).parameters) == list(inspect.signature(type(theirs)).parameters)
    assert repr(ours) == repr(theirs)
    assert [*map(repr, ours.state_dict().values())] == [*map(repr, theirs.state_dict().values())]
    plugrad.manual_seed(3)
    eager = getattr(nn, name)(size, *args, **options)
    plugrad.manual_seed(3)
    x = plugrad.ones(shape)
    assert plugrad.equal(ours(x), eager(x)) and equal_states(ours, eager)
    theirs(torch.ones(shape))
    assert type(ours) is type(eager) and repr(ours) == repr(theirs)
    assert not {"_initialize_hook", "_load_hook"} & vars(ours).keys() and not ours._forward_pre_hooks


class Network(nn.Module):
    """Uses its layers in another order than it makes them, and random numbers in between."""

    def __init__(self, lazy):
        super().__init__()
        self.last = nn.LazyLinear(2) if lazy else nn.Linear(5, 2)
        self.convolution = nn.LazyConv2d(4, 3) if lazy else nn.Conv2d(3, 4, 3)
        self.norm = nn.LazyBatchNorm2d() if lazy else nn.BatchNorm2d(4)
        self.middle = nn.LazyLinear(5) if lazy else nn.Linear(36, 5)
        self.calls = 0

    def forward(self, x, *, scale):
        self.calls += 1
        print("called")
        x = nn.functional.dropout(self.norm(self.convolution(x)), 0.5, self.training)
        return self.last(self.middle(x.flatten(1) * scale))


def network(lazy):
    plugrad.manual_seed(0)
    return Network(lazy)


def test_a_seeded_lazy_model_equals_the_eager_one_and_the_dry_run_leaves_no_trace(capsys):
    x = plugrad.arange(2.0 * 3 * 5 * 5).reshape(2, 3, 5, 5)
    eager = network(False)
    expected, numbers = eager(x, scale=2.0), plugrad.get_rng_state()
    lazy, drawn = network(True), random.getstate()
    capsys.readouterr()
    assert plugrad.equal(lazy(x, scale=2.0), expected)
    assert equal_states(lazy, eager) and lazy.norm.num_batches_tracked == 1
    assert plugrad.equal(plugrad.get_rng_state(), numbers) and random.getstate() == drawn
    assert lazy.calls == 1 and capsys.readouterr().out == "called\n"


def test_materialize_initialises_without_running():
    x, lazy, eager = (2, 3, 5, 5), network(True), network(False)
    plugrad.manual_seed(0)
    assert nn.lazy.materialize(lazy, x, scale=1.0) is lazy
    assert equal_states(lazy, eager) and lazy.norm.num_batches_tracked == 0 and lazy.calls == 0
    assert not any(value.is_meta for value in lazy.state_dict().values())


def test_hooks_are_called_once_and_may_change_what_a_lazy_layer_gets():
    seen = []
    model = nn.Sequential(nn.LazyLinear(3), nn.Sequential(nn.LazyLinear(2)))
    model[1].register_forward_pre_hook(lambda module, args: seen.append(1) or (plugrad.ones(2, 7),))
    assert model(plugrad.ones(2, 4)).shape == (2, 2)
    assert seen == [1] and model[1][0].in_features == 7


def test_a_model_that_reads_values_initialises_each_layer_when_it_is_reached():
    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.LazyLinear(3), nn.LazyLinear(4)

        def forward(self, x):
            return self.b(x) if x.sum().item() > 0 else self.a(x)

    model = Reading()
    assert model(plugrad.ones(2, 5)).shape == (2, 4) and type(model.a) is nn.LazyLinear
    with pytest.raises(RuntimeError, match="call it once on a batch instead"):
        nn.lazy.materialize(Reading(), (2, 5))


class Center(nn.modules.lazy.LazyModuleMixin, nn.Module):
    """A third party's layer, whose values depend on those of the first input."""

    def __init__(self):
        super().__init__()
        self.mean = UninitializedBuffer()

    def initialize_parameters(self, x):
        self.mean.materialize(x.shape[1:])
        self.mean.copy_(x.mean(0))

    def forward(self, x):
        return x - self.mean


def test_third_parties_layers_are_lazy_by_the_mixin():
    x = plugrad.tensor([[1.0, 2.0], [3.0, 6.0]])
    model = nn.Sequential(Center(), nn.LazyLinear(2))
    model(x)
    assert model[0].mean.tolist() == [2.0, 4.0] and type(model[0]) is Center and type(model[0].mean) is plugrad.Tensor

    class Forgetful(Center):
        def initialize_parameters(self, x):
            pass

    with pytest.raises(RuntimeError, match="has not been fully initialized"):
        Forgetful()(x)
    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for Bare"):
        type("Bare", (nn.modules.lazy.LazyModuleMixin, nn.Module), {})()(x)


def test_states_are_saved_and_loaded_uninitialised_or_not():
    lazy = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    eager = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert is_lazy(lazy.state_dict()["0.weight"]) and is_lazy(lazy.state_dict()["1.running_mean"])
    lazy.load_state_dict(copy.deepcopy(lazy).state_dict())
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        eager.load_state_dict(lazy.state_dict())
    with pytest.raises(RuntimeError, match="Unexpected key"):
        lazy.load_state_dict({**eager.state_dict(), "more": plugrad.ones(1)})
    assert [type(value).__name__ for value in lazy.parameters()] == ["UninitializedParameter"] * 4  # all or nothing
    lazy.load_state_dict(eager.state_dict())
    assert not lazy[0].has_uninitialized_params() and equal_states(lazy, eager)
    x = plugrad.ones(2, 3)
    assert plugrad.equal(lazy(x), eager(x)) and lazy[0].in_features == 3


@pytest.mark.parametrize("again", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_are_as_lazy(again):
    first = nn.LazyConv2d(4, 3).half()
    copied = again(first)
    assert is_lazy(copied.weight) and copied.weight is not first.weight and copied.weight.dtype is plugrad.half
    assert copied.float()(plugrad.ones(1, 2, 3, 3)).shape == (1, 4, 1, 1)
    assert is_lazy(first.weight) and type(again(copied)) is nn.Conv2d


def test_what_is_uninitialised_can_only_be_moved_cast_and_given_a_shape():
    parameter = UninitializedParameter()
    uses = plugrad.empty_like, lambda p: p.numel(), lambda p: p + p, lambda p: plugrad.add(p, p), lambda p: p.sum()
    for use in uses:
        with pytest.raises(ValueError, match="uninitialized parameter"):
            use(parameter)
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        parameter.shape  # noqa: B018
    module = nn.LazyLinear(2)
    with pytest.raises(RuntimeError, match="share memory on an uninitialized"):
        module.share_memory()
    module.double().to("meta")
    assert (module.weight.dtype, module.weight.device.type) == (plugrad.float64, "meta")
    parameter.materialize(3, dtype=plugrad.float64)
    assert type(parameter) is nn.Parameter and parameter.requires_grad and (parameter + 1).dtype is plugrad.float64


def optimizers():
    values = (getattr(plugrad.optim, name) for name in dir(plugrad.optim))
    return [one for one in values if inspect.isclass(one) and issubclass(one, plugrad.optim.Optimizer)][1:]


@pytest.mark.parametrize("kind", [one for one in optimizers() if one is not plugrad.optim.Optimizer])
def test_every_optimizer_takes_uninitialised_parameters_and_goes_on_when_they_have_values(kind):
    if kind.__name__ in ("SparseAdam", "Muon"):
        pytest.skip("takes sparse gradients, or matrices, only")
    lazy, eager = UninitializedParameter(), nn.Parameter(plugrad.ones(3))
    steps = []
    for parameter in (lazy, eager):
        optimizer = kind([parameter], lr=0.1)
        if kind.__name__ != "LBFGS":
            optimizer.step()
        if is_lazy(parameter):
            parameter.materialize((3,))
            nn.init.ones_(parameter)
        parameter.grad = plugrad.arange(3.0)
        optimizer.step(lambda: 1.0)
        steps.append(parameter.detach().clone())
    assert plugrad.equal(*steps)


def test_a_parameter_prints_as_pytorchs():
    assert str(nn.Parameter(plugrad.ones(1))) == str(torch.nn.Parameter(torch.ones(1)))
