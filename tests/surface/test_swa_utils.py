"""Averages of weights: PyTorch's numbers, keys, statistics and errors."""

import copy
import pickle
import warnings

import pytest

import plugrad
from support.outcomes import all_as_pytorch, fill, same_as_pytorch

FUNCTIONS = {
    "plain": lambda U: {},
    "ema": lambda U: {"avg_fn": U.get_ema_avg_fn(0.9)},
    "ema lists": lambda U: {"multi_avg_fn": U.get_ema_multi_avg_fn(0.9)},
    "swa": lambda U: {"avg_fn": U.get_swa_avg_fn()},
    "swa lists": lambda U: {"multi_avg_fn": U.get_swa_multi_avg_fn()},
    "one's own": lambda U: {"avg_fn": lambda average, value, count: average * 0.5 + value * count},
}


def average(T, functions, use_buffers):
    model = T.nn.Sequential(T.nn.Linear(3, 2), T.nn.BatchNorm1d(2), T.nn.Linear(2, 2).double())
    options = FUNCTIONS[functions](T.optim.swa_utils)
    averaged = T.optim.swa_utils.AveragedModel(fill(model), use_buffers=use_buffers, **options)
    seen = [list(averaged.state_dict()), repr(averaged), [p.requires_grad for p in averaged.parameters()]]
    for seed in range(1, 4):
        averaged.update_parameters(fill(model, seed))
    seen += [averaged.state_dict(), averaged.module[:2](T.arange(6.0).reshape(2, 3).sin()), averaged.n_averaged.dtype]
    other = T.optim.swa_utils.AveragedModel(model)
    other.load_state_dict(averaged.state_dict())
    return [*seen, copy.deepcopy(other).state_dict(), pickle.loads(pickle.dumps(other)).n_averaged]


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("functions", FUNCTIONS)
def test_averages(functions, use_buffers):
    same_as_pytorch(average, functions, use_buffers)


def statistics(T):
    model = T.nn.Sequential(T.nn.Linear(3, 2), T.nn.BatchNorm1d(2), T.nn.InstanceNorm1d(2, track_running_stats=True))
    model = fill(model).eval()
    inputs = [T.arange(12.0).reshape(4, 3).sin() * scale for scale in (1, 2, 3)]
    T.optim.swa_utils.update_bn(inputs[:2] + [(inputs[2], "label")], model[:2], device="cpu")
    seen = [model.state_dict(), model[1].momentum, model.training]
    T.optim.swa_utils.update_bn(inputs, model[:1])
    return [*seen, model.state_dict()]


def test_update_bn():
    same_as_pytorch(statistics)


def rates(T, arguments):
    groups = [{"params": [T.ones(1, requires_grad=True)], "lr": lr} for lr in (0.5, 0.25)]
    optimizer = T.optim.SGD(groups, momentum=0.5)
    other = T.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    schedule, seen = T.optim.swa_utils.SWALR(optimizer, **arguments), []
    for step in range(12):
        optimizer.step()
        (other if step % 3 == 2 else schedule).step()  # what others do to the rate is taken into account
        seen += [schedule.get_last_lr(), dict(sorted(schedule.state_dict().items()))]
        if step == 5:
            state = copy.deepcopy(schedule.state_dict())
            schedule = T.optim.swa_utils.SWALR(optimizer, **arguments)
            schedule.load_state_dict(state)
    return seen


@pytest.mark.parametrize(
    "arguments",
    [
        {"swa_lr": 0.05, "anneal_epochs": 6},
        {"swa_lr": [0.05, 0.5], "anneal_epochs": 3, "anneal_strategy": "linear"},
        {"swa_lr": 0.05, "anneal_epochs": 0},
    ],
)
def test_rates(arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_as_pytorch(rates, arguments, rtol=1e-12)


def wrong(T):
    U, model = T.optim.swa_utils, T.nn.Linear(1, 1)
    optimizer = T.optim.SGD(model.parameters(), lr=0.1)
    yield lambda: U.AveragedModel(model, avg_fn=U.get_swa_avg_fn(), multi_avg_fn=U.get_swa_multi_avg_fn())
    for make in (U.get_ema_avg_fn, U.get_ema_multi_avg_fn):
        yield lambda make=make: make(-0.1)
        yield lambda make=make: make(1.1)
    yield lambda: U.SWALR(optimizer, 0.1, anneal_strategy="x")
    yield lambda: U.SWALR(optimizer, 0.1, anneal_epochs=-1)
    yield lambda: U.SWALR(optimizer, 0.1, anneal_epochs=1.5)
    yield lambda: U.SWALR(optimizer, [0.1, 0.2])
    yield lambda: U.SWALR(optimizer, [0.1]).get_lr()
    for make in (U.get_ema_multi_avg_fn, U.get_swa_multi_avg_fn):
        integers = [T.tensor([4, 8]), T.tensor([2.0, 4.0])]
        yield lambda m=make, i=integers: [m()(i[1:], [T.ones(2)], T.tensor(1)), i]
    integers = [T.tensor([4, 8])]
    yield lambda: [U.get_ema_multi_avg_fn(0.5)(integers, [T.tensor([2, 4])], 1), integers]


def test_wrong_arguments_and_integers():
    all_as_pytorch(wrong)


@pytest.mark.parametrize("model", [3, plugrad.ones(2), plugrad.nn.Linear], ids=["int", "Tensor", "class"])
def test_what_is_no_model_is_refused(model):
    U = plugrad.optim.swa_utils
    averaged = U.AveragedModel(plugrad.nn.Linear(1, 1))
    for call in (U.AveragedModel, averaged.update_parameters, lambda model: U.update_bn([], model)):
        with pytest.raises(TypeError, match="'model' must be Module"):
            call(model)
    assert averaged.n_averaged == 0
