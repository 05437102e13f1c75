"""Ctrl-C while a module, or an average of models, is rebuilt: it is what it was or what it was to be, and works on."""

import pytest

import plugrad as torch
from plugrad.nn.utils import parametrizations, parametrize, prune
from plugrad.optim import swa_utils
from support.interrupts import interrupted
from support.modes import modes_on

X = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
MOST = 120


class Symmetric(torch.nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x


def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(2, 2)


def with_symmetric():
    return parametrize.register_parametrization(linear(), "weight", Symmetric())


def pruned():
    return prune.l1_unstructured(linear(), "weight", 1)


def pruned_twice():
    return prune.l1_unstructured(pruned(), "weight", 1)


def normed():
    return torch.nn.utils.weight_norm(linear())


def spectral():
    return torch.nn.utils.spectral_norm(linear())


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))


def lazy():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d(), torch.nn.LazyLinear(1))


CHANGES = {
    "parametrization": (linear, lambda m: parametrize.register_parametrization(m, "weight", Symmetric())),
    "no parametrization": (with_symmetric, lambda m: parametrize.remove_parametrizations(m, "weight")),
    "weight norm": (linear, parametrizations.weight_norm),
    "older weight norm": (linear, torch.nn.utils.weight_norm),
    "no older weight norm": (normed, torch.nn.utils.remove_weight_norm),
    "older spectral norm": (linear, torch.nn.utils.spectral_norm),
    "no older spectral norm": (spectral, torch.nn.utils.remove_spectral_norm),
    "pruning": (linear, lambda m: prune.l1_unstructured(m, "weight", 1)),
    "further pruning": (pruned, lambda m: prune.l1_unstructured(m, "weight", 1)),
    "no pruning": (pruned_twice, lambda m: prune.remove(m, "weight")),
    "double": (net, lambda m: m.double()),
    "half": (net, lambda m: m.half()),
    "eval": (net, lambda m: m.eval()),
    "requires_grad_": (net, lambda m: m.requires_grad_(False)),
}


def structure(module):
    """Return all that is to change in one step."""
    return [
        [(name, type(p).__name__, p.dtype, p.requires_grad) for name, p in module.named_parameters()],
        [(name, b.dtype) for name, b in module.named_buffers()],
        [(type(m).__name__, m.training, len(m._forward_pre_hooks)) for m in module.modules()],
        [(name, value.tolist()) for name, value in module.state_dict().items() if name != "weight_u"],
    ]


@pytest.mark.filterwarnings("ignore:.torch.nn.utils.weight_norm:FutureWarning")
@pytest.mark.parametrize("name", CHANGES)
def test_a_module_is_changed_or_not(name):
    prepare, change = CHANGES[name]
    module = prepare()
    before = structure(module)
    change(module)
    after = structure(module)
    assert before != after
    ends = set()
    for where, module, _ in interrupted(change, prepare, MOST):
        found = structure(module)
        assert found in (before, after) and not modes_on(), where
        ends.add(found == before)
        module(X.to(next(module.parameters()).dtype))
    assert ends == {True, False}


def test_lazy_layers_begin_at_the_next_call():
    for where, model, _ in interrupted(lambda model: model(X), lazy, MOST):
        model(X).sum().backward()
        assert [type(m).__name__ for m in model] == ["Linear", "BatchNorm1d", "Linear"], where
        assert [len(m._forward_pre_hooks) for m in model] == [0] * 3, where


def test_swapped_tensors_are_whole():
    wanted = [[0.0, 0.0, 0.0], [1.0, 1.0]]

    def prepare():
        return torch.ones(2), torch.zeros(3, dtype=torch.float64)

    for where, both, _ in interrupted(lambda both: torch.utils.swap_tensors(*both), prepare, MOST):
        assert sorted(one.tolist() for one in both) == wanted, where
        assert all((one.dtype is torch.float32) == (one.shape == (2,)) for one in both), where


def test_an_average_of_models_is_taken_or_not():
    def prepare():
        model = net()
        average = swa_utils.AveragedModel(model)
        average.update_parameters(model)
        for parameter in model.parameters():
            parameter.data.add_(1)
        return average, model

    average, model = prepare()
    before = structure(average)
    average.update_parameters(model)
    after = structure(average)
    for where, (average, _), _ in interrupted(lambda both: both[0].update_parameters(both[1]), prepare, MOST):
        assert structure(average) in (before, after), where


def test_new_statistics_leave_the_momenta():
    for error in None, MemoryError:
        for where, model, _ in interrupted(lambda m: swa_utils.update_bn([X, X], m), net, MOST, error=error):
            assert model.training and model[1].momentum == 0.1, where


def batch(momentum=0.5):
    return torch.nn.BatchNorm1d(2, momentum=momentum)


def moved():
    norm = batch()
    norm(X)
    return norm


def newer_spectral():
    module = parametrizations.spectral_norm(linear())
    module.parametrizations.weight.original.data[0] *= 3
    return module


def sobol():
    return torch.quasirandom.SobolEngine(2)


def scaler():
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    return scaler


STATISTICS = {
    "batch norm": (batch, lambda m: m(X), lambda m: m.buffers()),
    "batch norm, averages": (lambda: batch(None), lambda m: m(X), lambda m: m.buffers()),
    "instance norm": (
        lambda: torch.nn.InstanceNorm1d(2, track_running_stats=True), lambda m: m(X[None]),
        lambda m: (m.running_mean, m.running_var),
    ),
    "batch norm as a function": (
        lambda: (torch.zeros(2), torch.ones(2)),
        lambda both: torch.nn.functional.batch_norm(X, *both, training=True), tuple,
    ),
    "no statistics": (moved, lambda m: m.reset_running_stats(), lambda m: m.buffers()),
    "spectral norm": (spectral, lambda m: m(X), lambda m: (m.weight_u, m.weight_v)),
    "newer spectral norm": (newer_spectral, lambda m: m(X), lambda m: m.buffers()),
    "points": (sobol, lambda engine: engine.draw(3), lambda engine: (engine.quasi, torch.tensor(engine.num_generated))),
    "scale": (
        scaler, lambda one: one.load_state_dict({**one.state_dict(), "scale": 8.0, "_growth_tracker": 3}),
        lambda one: (one._scale, one._growth_tracker),
    ),
    "lists": (lambda: [torch.ones(2), torch.ones(3)], lambda ts: torch._foreach_mul_(ts, 2), tuple),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.torch.nn.utils.spectral_norm:FutureWarning")
@pytest.mark.parametrize("name", STATISTICS)
def test_what_is_written_together_is_written_or_not(name):
    prepare, change, written = STATISTICS[name]

    def values(one):
        return [t.tolist() for t in written(one)]

    def changed(one):
        change(one)
        return values(one)

    before, after = values(prepare()), changed(prepare())
    assert all(one != other for one, other in zip(before, after))
    ends = set()
    for where, one, _ in interrupted(change, prepare, 250):
        found = values(one)
        assert found in (before, after), where
        ends.add(found == before)
    assert ends == {True, False}


STEPS = {
    "Adafactor": lambda p: torch.optim.Adafactor(p),
    "Muon": lambda p: torch.optim.Muon(p),
    "SparseAdam": lambda p: torch.optim.SparseAdam(p),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_goes_by_parameters_is_taken_or_not(name):
    def prepare():
        parameters = [torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
        for p in parameters:
            p.grad = torch.eye(2).to_sparse() if name == "SparseAdam" else torch.eye(2)
        return parameters, STEPS[name](parameters)

    def values(prepared):
        return [p.tolist() for p in prepared[0]], str(prepared[1].state_dict())

    done = prepare()
    before = values(done)
    done[1].step()
    after = values(done)
    for where, prepared, _ in interrupted(lambda prepared: prepared[1].step(), prepare, 60):
        assert values(prepared) in (before, after), where


def test_a_step_that_one_gradient_stops_has_changed_nothing():
    parameters = [torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
    parameters[0].grad, parameters[1].grad = torch.eye(2), torch.eye(2).to_sparse()
    for make in torch.optim.Adafactor, torch.optim.Muon:
        with pytest.raises(RuntimeError, match="does not support sparse gradients"):
            make(parameters).step()
    assert [p.tolist() for p in parameters] == [[[1.0, 1.0], [1.0, 1.0]]] * 2


def test_a_parametrization_that_does_not_fit_leaves_the_weight():
    class Longer(torch.nn.Module):
        def forward(self, x):
            return torch.cat([x, x])

        def right_inverse(self, x):
            return x * 2

    layer = linear()
    before = structure(layer)
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer, "weight", Longer())
    assert structure(layer) == before


def test_further_pruning_that_is_refused_leaves_the_earlier():
    class Wrong(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            raise ArithmeticError("no mask")

    layer = pruned()
    before = structure(layer)
    with pytest.raises(ArithmeticError):
        Wrong.apply(layer, "weight")
    assert structure(layer) == before and isinstance(
        next(iter(layer._forward_pre_hooks.values())), prune.L1Unstructured
    )


@pytest.mark.parametrize("value", [5, {"exp_avg": "a"}, {"step": "a"}])
def test_a_state_that_is_none_is_refused_when_it_is_loaded(value):
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
    state = optimizer.state_dict()
    with pytest.raises(TypeError, match="must be Tensor|is a dict"):
        optimizer.load_state_dict({**state, "state": {0: value}})
    assert not optimizer.state


def with_gradients():
    module = linear()
    (module(X) * 1e3).sum().backward()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    scaler.scale(torch.ones(1))
    return module, optimizer, scaler


def with_a_step():
    module, optimizer, scaler = with_gradients()
    scaler.step(optimizer)
    return module, optimizer, scaler


OF_GRADIENTS = {
    "clipping by norm": (with_gradients, lambda m, o, s: torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)),
    "clipping by value": (with_gradients, lambda m, o, s: torch.nn.utils.clip_grad_value_(m.parameters(), 1.0)),
    "unscaling": (with_gradients, lambda m, o, s: s.unscale_(o)),
    "a new scale": (with_a_step, lambda m, o, s: s.update()),
    "parameters of a vector": (
        with_gradients,
        lambda m, o, s: torch.nn.utils.vector_to_parameters(torch.ones(6), m.parameters()),
    ),
}


@pytest.mark.parametrize("name", OF_GRADIENTS)
def test_all_gradients_or_parameters_are_changed_or_none(name):
    prepare, change = OF_GRADIENTS[name]

    def state(prepared):
        module, optimizer, scaler = prepared
        stage = scaler._per_optimizer_states[id(optimizer)]["stage"]
        return [(p.tolist(), p.grad.tolist()) for p in module.parameters()], scaler.state_dict(), stage

    prepared = prepare()
    before = state(prepared)
    change(*prepared)
    after = state(prepared)
    assert before != after
    for where, prepared, _ in interrupted(lambda prepared: change(*prepared), prepare, MOST):
        assert state(prepared) in (before, after), where
