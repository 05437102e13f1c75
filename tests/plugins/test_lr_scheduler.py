"""Learning-rate schedules: the same rates and states as PyTorch's, and the base class on its own."""

import types
import warnings

import numpy
import pytest

import plugrad
from plugrad.optim import lr_scheduler
from support.outcomes import all_as_pytorch, plain

CASES = [
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.9**epoch}),
    ("LambdaLR", {"lr_lambda": [lambda epoch: 0.9**epoch, lambda epoch: 1 / (epoch + 1)]}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.9 + epoch / 100}),
    ("StepLR", {"step_size": 3}),
    ("StepLR", {"step_size": 1, "gamma": 0.7}),
    ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.5}),
    ("ExponentialLR", {"gamma": 0.8}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 4}),
    ("LinearLR", {"start_factor": 0.25, "total_iters": 6}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.1, "total_iters": 20}),
    ("PolynomialLR", {"total_iters": 8, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 5}),
    ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.01}),
    ("OneCycleLR", {"max_lr": 2.0, "total_steps": 25}),
    ("OneCycleLR", {"max_lr": [2.0, 3.0], "epochs": 5, "steps_per_epoch": 5, "three_phase": True}),
    ("OneCycleLR", {"max_lr": 2.0, "total_steps": 30, "anneal_strategy": "linear", "base_momentum": 0.5}),
    ("OneCycleLR", {"max_lr": 2.0, "total_steps": 30, "cycle_momentum": False}),
    ("OneCycleLR", {"max_lr": 2, "total_steps": 23, "max_momentum": [0.8, 0.9], "pct_start": 0.1, "div_factor": 7}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 2.0, "step_size_up": 4}),
    ("CyclicLR", {"base_lr": [0.1, 0.2], "max_lr": 2, "step_size_up": 3, "step_size_down": 5, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 2.0, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 2.0, "step_size_up": 3, "scale_fn": lambda cycle: 0.5 ** (cycle - 1)}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 2, "eta_min": 0.01}),
]
PLATEAUS = [
    {},
    {"patience": 1, "factor": 0.5},
    {"patience": 0, "mode": "max", "cooldown": 2},
    {"patience": 1, "threshold": 0.3, "threshold_mode": "abs"},
    {"patience": 1, "mode": "max", "threshold": 0.3, "threshold_mode": "abs"},
    {"patience": 0, "min_lr": [0.05, 0.2], "eps": 1e-3},
]


def optimizer_of(library, name="SGD", **options):
    params = [library.tensor([1.0], requires_grad=True) for _ in range(2)]
    if name == "SGD":
        options = {"momentum": 0.9, **options}
    groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.4}]
    return getattr(library.optim, name)(groups, **{"lr": 0.8, **options})


def options_of(optimizer):
    keys = ("lr", "initial_lr", "max_lr", "min_lr", "momentum", "betas", "max_momentum", "base_momentum")
    return [value for g in optimizer.param_groups for k in keys if k in g for value in numpy.ravel(g[k]).tolist()]


@pytest.mark.parametrize("name", ["SGD", "Adam"])
@pytest.mark.parametrize(("schedule", "arguments"), CASES)
def test_rates(torch, schedule, arguments, name):
    pairs = []
    for library in (plugrad, torch):
        optimizer = optimizer_of(library, name)
        pairs.append((optimizer, getattr(library.optim.lr_scheduler, schedule)(optimizer, **arguments)))
    follow(pairs)


def follow(pairs, steps=22):
    """Step two pairs of optimizers and schedules, and assert that all of them is the same after each step."""
    (ours, own), (theirs, other) = pairs
    for _ in range(steps):
        assert options_of(ours) == options_of(theirs)
        assert own.get_last_lr() == other.get_last_lr()
        mine, expected = plain(own.state_dict()), plain(other.state_dict())
        assert mine == expected
        for optimizer, scheduler in pairs:
            optimizer.step()
            scheduler.step()


CLOSED = [case for case in CASES if case[0] not in ("OneCycleLR", "CosineAnnealingWarmRestarts")]


@pytest.mark.parametrize(("schedule", "arguments"), CLOSED)
def test_going_to_an_epoch(torch, schedule, arguments):
    rates = []
    for library in (plugrad, torch):
        optimizer = optimizer_of(library)
        scheduler = getattr(library.optim.lr_scheduler, schedule)(optimizer, **arguments)
        optimizer.step()
        with pytest.warns(UserWarning, match="epoch parameter"):
            scheduler.step(6)
        rates.append(scheduler.get_last_lr())
    assert rates[0] == pytest.approx(rates[1], rel=1e-9)


@pytest.mark.parametrize(("schedule", "arguments"), CASES)
def test_resuming(torch, schedule, arguments):
    rates = []
    for library in (plugrad, torch):
        make = getattr(library.optim.lr_scheduler, schedule)
        optimizer = optimizer_of(library)
        scheduler = make(optimizer, **arguments)
        for _ in range(4):
            optimizer.step()
            scheduler.step()
        scheduler_state, optimizer_state = scheduler.state_dict(), optimizer.state_dict()
        optimizer = optimizer_of(library)
        scheduler = make(optimizer, **arguments)
        scheduler.load_state_dict(scheduler_state)
        optimizer.load_state_dict(optimizer_state)
        optimizer.step()
        scheduler.step()
        rates.append(scheduler.get_last_lr())
        other = make(optimizer, **arguments, last_epoch=4)
        rates.append(other.get_last_lr())
    assert rates[0] == pytest.approx(rates[2], rel=1e-9)
    assert rates[1] == pytest.approx(rates[3], rel=1e-9)


@pytest.mark.parametrize("arguments", PLATEAUS)
def test_plateaus(torch, arguments):
    measures = numpy.random.default_rng(0).standard_normal(40).cumsum() / 5
    pairs = []
    for library in (plugrad, torch):
        optimizer = optimizer_of(library)
        pairs.append((optimizer, library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **arguments)))
    for measure in measures:
        for _, scheduler in pairs:
            scheduler.step(measure)
        (ours, own), (theirs, other) = pairs
        assert options_of(ours) == pytest.approx(options_of(theirs))
        assert own.get_last_lr() == pytest.approx(other.get_last_lr())
        assert own.state_dict() == other.state_dict()


def sequence(milestones, *makers):
    """Return a maker of schedules that follow each other."""
    return lambda L, o: L.optim.lr_scheduler.SequentialLR(o, [make(L, o) for make in makers], milestones=milestones)


def chain(*makers):
    """Return a maker of schedules that act together."""
    return lambda L, o: L.optim.lr_scheduler.ChainedScheduler([make(L, o) for make in makers])


def one(name, **arguments):
    """Return a maker of one schedule."""
    return lambda L, o: getattr(L.optim.lr_scheduler, name)(o, **arguments)


CONSTANT, FALLING, LINEAR = one("ConstantLR"), one("ExponentialLR", gamma=0.9), one("LinearLR", total_iters=4)
COMPOSED = [
    sequence([3, 8], CONSTANT, FALLING, one("StepLR", step_size=3)),
    sequence([4], LINEAR, one("CosineAnnealingWarmRestarts", T_0=3)),
    sequence([0], CONSTANT, FALLING),
    sequence([4], chain(CONSTANT, FALLING), one("CosineAnnealingLR", T_max=5)),
    sequence([4], LINEAR, one("CyclicLR", base_lr=0.1, max_lr=0.3, step_size_up=4)),
    chain(LINEAR, one("CosineAnnealingLR", T_max=5), one("MultiplicativeLR", lr_lambda=lambda epoch: 0.95)),
]


@pytest.mark.filterwarnings("ignore:Detected call")  # PyTorch's too, where a sequence contains a chain
@pytest.mark.parametrize("make", COMPOSED)
def test_schedules_made_of_others(torch, make):
    pairs = []
    for library in (plugrad, torch):
        optimizer = optimizer_of(library)
        pairs.append((optimizer, make(library, optimizer)))
    follow(pairs, 6)
    again = []
    for library, (optimizer, scheduler) in zip((plugrad, torch), pairs):
        other = optimizer_of(library)
        resumed = make(library, other)
        resumed.load_state_dict(scheduler.state_dict())
        other.load_state_dict(optimizer.state_dict())
        again.append((other, resumed))
    follow(again, 8)


def wrong(T):
    S, P = T.optim.lr_scheduler, lambda: optimizer_of(T)
    optimizer = P()
    steps = S.StepLR(optimizer, 1)
    yield lambda: S.SequentialLR(optimizer, [], [])
    yield lambda: S.SequentialLR(optimizer, [steps], [1])
    yield lambda: S.SequentialLR(P(), [steps], [])
    yield lambda: S.SequentialLR(optimizer, [1], [])
    yield lambda: S.SequentialLR(optimizer, [S.ReduceLROnPlateau(optimizer)], [])
    yield lambda: S.ChainedScheduler([])
    yield lambda: S.ChainedScheduler([steps, S.StepLR(P(), 1)])
    yield lambda: S.ChainedScheduler([steps, S.ReduceLROnPlateau(optimizer)])
    yield lambda: S.ChainedScheduler([steps, 1])
    yield lambda: S.ChainedScheduler([steps], P())
    yield lambda: S.CyclicLR(1, 0.1, 1.0)
    yield lambda: S.CyclicLR(P(), 0.1, 1.0, mode="x")
    yield lambda: S.CyclicLR(P(), [0.1], 1.0)
    yield lambda: S.CyclicLR(P(), 0.1, [1.0])
    yield lambda: S.CyclicLR(optimizer_of(T, "Adagrad"), 0.1, 1.0)
    for T_0, T_mult, low in ((0, 1, 0.0), (1.5, 1, 0.0), (2, 0, 0.0), (2, 1.5, 0.0), (2, 1, "0")):
        yield lambda T_0=T_0, T_mult=T_mult, low=low: S.CosineAnnealingWarmRestarts(P(), T_0, T_mult, low)
    restarts = S.CosineAnnealingWarmRestarts(P(), 2, 2)
    yield lambda: restarts.step(-1)
    for epoch in (0.25, 1.75, 2.5, 7.0, 3):
        yield lambda epoch=epoch: [restarts.step(epoch), restarts.get_last_lr(), restarts.last_epoch, restarts.T_i]
    yield lambda: [isinstance(steps, S._LRScheduler), issubclass(S._LRScheduler, S.LRScheduler)]
    late = S.StepLR(P(), 1)
    late.optimizer.step = lambda: None
    yield late.step  # the step that was there before is called no more
    early = P()
    early.step = types.MethodType(lambda self: None, early)
    first = S.StepLR(early, 1)
    yield lambda: [early.step(), first.step()]


def test_wrong_arguments_and_warnings():
    all_as_pytorch(wrong)


def test_a_function_object_scales_and_is_saved():
    def build(factor):
        return lr_scheduler.CyclicLR(optimizer_of(plugrad), 0.1, 1.0, scale_fn=Factor(factor), scale_mode="iterations")

    state = build(0.5).state_dict()
    assert state["_scale_fn_custom"] == {"factor": 0.5}
    other = build(0.1)
    other.load_state_dict(state)
    assert other.scale_fn(2) == 0.25 and state["_scale_fn_custom"] == {"factor": 0.5}


def test_plateau_with_a_new_group():
    optimizer = optimizer_of(plugrad)
    loose = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    strict = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0, 0])
    optimizer.add_param_group({"params": [plugrad.tensor([1.0], requires_grad=True)], "lr": 1.0})
    loose.step(1.0)
    loose.step(1.0)
    assert loose.get_last_lr()[2] == pytest.approx(0.1)
    strict.step(1.0)
    with pytest.raises(RuntimeError, match="The number of param groups"):
        strict.step(1.0)


def test_a_tensor_as_rate_is_set_in_place():
    rate = plugrad.tensor(0.8)
    optimizer = plugrad.optim.SGD([plugrad.tensor([1.0], requires_grad=True)], lr=rate)
    scheduler = lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(0.4)
    assert scheduler.base_lrs[0].item() == pytest.approx(0.8)


class Factor:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, epoch):
        return self.factor**epoch


def test_the_state_of_a_function_object_is_saved():
    state = lr_scheduler.LambdaLR(optimizer_of(plugrad), Factor(0.5)).state_dict()
    assert state["lr_lambdas"] == [{"factor": 0.5}] * 2
    scheduler = lr_scheduler.LambdaLR(optimizer_of(plugrad), [Factor(0.1), lambda epoch: 1])
    scheduler.load_state_dict({**state, "lr_lambdas": [{"factor": 0.5}, None]})
    assert scheduler.lr_lambdas[0].factor == 0.5


def test_the_wrong_order_is_told():
    optimizer = optimizer_of(plugrad)
    scheduler = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        lr_scheduler.StepLR(optimizer, 1).step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


def test_a_schedule_of_ones_own():
    class Halving(lr_scheduler.LRScheduler):
        def get_lr(self):
            return [lr * 0.5**self.last_epoch for lr in self.base_lrs]

    optimizer = optimizer_of(plugrad)
    scheduler = Halving(optimizer)
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.4, 0.2]
    with pytest.raises(NotImplementedError, match="does not define get_lr"):
        lr_scheduler.LRScheduler(optimizer)


@pytest.mark.parametrize(
    ("error", "text", "make"),
    [
        (TypeError, "int is not an Optimizer", lambda o: lr_scheduler.StepLR(1, 1)),
        (KeyError, "'initial_lr' is not specified", lambda o: lr_scheduler.StepLR(o, 1, last_epoch=3)),
        (ValueError, "Expected 2 lr_lambdas, but got 1", lambda o: lr_scheduler.LambdaLR(o, [abs])),
        (TypeError, "lr_lambda should be a function", lambda o: lr_scheduler.LambdaLR(o, 1)),
        (ValueError, "between 0 and 1", lambda o: lr_scheduler.ConstantLR(o, 2)),
        (ValueError, "greater than 0", lambda o: lr_scheduler.LinearLR(o, 0)),
        (ValueError, "Ending multiplicative", lambda o: lr_scheduler.LinearLR(o, 1, 2)),
        (ValueError, "Factor should be < 1.0", lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0)),
        (ValueError, "mode mid is unknown", lambda o: lr_scheduler.ReduceLROnPlateau(o, "mid")),
        (ValueError, "threshold mode x", lambda o: lr_scheduler.ReduceLROnPlateau(o, threshold_mode="x")),
        (ValueError, "min_lr must have the same", lambda o: lr_scheduler.ReduceLROnPlateau(o, min_lr=[1])),
        (ValueError, "You must define either", lambda o: lr_scheduler.OneCycleLR(o, 1.0)),
        (ValueError, "positive integer total_steps", lambda o: lr_scheduler.OneCycleLR(o, 1.0, 0)),
        (ValueError, "0 and 1 pct_start", lambda o: lr_scheduler.OneCycleLR(o, 1.0, 9, pct_start=2.0)),
        (ValueError, "anneal_strategy", lambda o: lr_scheduler.OneCycleLR(o, 1.0, 9, anneal_strategy="x")),
        (ValueError, "max_lr must have", lambda o: lr_scheduler.OneCycleLR(o, [1.0], 9)),
    ],
)
def test_errors(error, text, make):
    with pytest.raises(error, match=text):
        make(optimizer_of(plugrad))


def test_momentum_is_needed_to_cycle_it_and_the_cycle_ends():
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        lr_scheduler.OneCycleLR(optimizer_of(plugrad, "Adagrad"), 1.0, 2)
    optimizer = optimizer_of(plugrad)
    scheduler = lr_scheduler.OneCycleLR(optimizer, 1.0, 4)
    optimizer.step()
    for _ in range(4):
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 5 times"):
        scheduler.step()
