"""Checks of learning-rate schedules."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import math
import pickle
import time

import plugrad
from plugrad.testing.calls import Skip
from plugrad.testing.checks import documents, instances
from plugrad.testing.checks.guesses import USUAL, NoGuess, declared, or_fail, or_skip, required
from plugrad.testing.samples import Maker, Sample, as_sample

START = (0.5, 0.125)  # the rates of two parameter groups


class _Decay:
    """A callable with state of its own, as a schedule may be given."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, epoch):
        return self.factor**epoch


FUNCTIONS = {"lr_lambda": lambda: _Decay(0.75), "schedule": lambda: _Decay(0.75)}


def checks(cls) -> dict:
    """Return the checks of a schedule class by name."""
    return documents.checks(cls) | CHECKS


def each(cls) -> list:
    """Return the arguments behind the optimizer: those that the class declares, or usual ones; skip without any."""
    return or_skip(_arguments, cls)


def _arguments(cls) -> list:
    if hasattr(cls, "example"):
        return [Sample()]
    source = declared(cls)
    if source is not None:
        return [as_sample(given) for given in source(Maker(cls.__name__))]
    names = required(cls, 1)
    strange = [name for name in names if name not in USUAL and name not in FUNCTIONS]
    if strange:
        raise NoGuess(f"its argument {strange[0]!r} has no default")
    chosen = {name: FUNCTIONS[name]() if name in FUNCTIONS else USUAL[name] for name in names}
    if "total_steps" in inspect.signature(cls).parameters:
        chosen.setdefault("total_steps", USUAL["total_steps"])
    return [Sample((), chosen)]


def build(cls, given, start=START, now=None, **more):
    """Return (optimizer, schedule) over two parameter groups with rates of their own, which may be others by now."""
    tensors = [plugrad.ones(2, dtype=plugrad.float64, requires_grad=True) for _ in start]
    groups = [{"params": [t], "lr": rate, "initial_lr": rate} for t, rate in zip(tensors, start, strict=True)]
    optimizer = plugrad.optim.SGD(groups, lr=START[0], momentum=0.5)
    for group, rate in zip(optimizer.param_groups, now or start, strict=True):
        group["lr"] = rate
    if hasattr(cls, "example"):
        return optimizer, cls.example(optimizer)
    given = copy.deepcopy(given.args), copy.deepcopy(given.kwargs)
    return optimizer, cls(optimizer, *given[0], **{**given[1], **more})


def advance(optimizer, schedule, count, start=0) -> list:
    """Step so often and return the rates after each.

    A schedule that asks for a measure gets one that stagnates, or `metric(epoch)` where its class says how it goes on.
    """
    measured = [name for name in required(type(schedule).step, 1)]
    metric = getattr(type(schedule), "metric", None)
    rates = []
    for epoch in range(start, start + count):
        optimizer.step()
        schedule.step(*([1.0 / min(epoch + 1, 3)] * len(measured) if metric is None else [metric(epoch)]))
        rates.append([float(group["lr"]) for group in optimizer.param_groups])
    return rates


def has_samples(cls, device):
    """It can be constructed."""
    advice = "declare a static method `samples(make)` that yields the arguments behind the optimizer, such as "
    for given in or_fail(advice + "make.args(step_size=2)", _arguments, cls):
        build(cls, given)


def rates(cls, device):
    """Rates are finite, never negative, one for each group, and `get_last_lr` tells them."""
    for given in each(cls):
        optimizer, schedule = build(cls, given)
        for epoch in range(12):
            for rate in advance(optimizer, schedule, 1, epoch)[0]:
                right = math.isfinite(rate) and rate >= 0
                assert right, f"arguments {given}: the rate after step {epoch + 1} is {rate}"
            told = [float(rate) for rate in schedule.get_last_lr()]
            actual = [float(group["lr"]) for group in optimizer.param_groups]
            assert told == actual, f"arguments {given}: get_last_lr() is {told}, the groups have {actual}"


def groups(cls, device):
    """The rate of a parameter group does not depend on which group comes first."""
    for given in each(cls):
        per_group = [*given.args, *given.kwargs.values()]
        if any(isinstance(value, (list, tuple)) and len(value) == len(START) for value in per_group):
            continue  # arguments for each group
        one, other = (advance(*build(cls, given, start), 12) for start in (START, START[::-1]))
        for step, (rates, exchanged) in enumerate(zip(one, other, strict=True), 1):
            assert rates == exchanged[::-1], (
                f"arguments {given}: of rates {list(START)} it makes {rates} in step {step}, of {list(START[::-1])} "
                f"{exchanged}: each group must have its own"
            )


def does_something(cls, device):
    """Some rate changes within fifteen steps."""
    for given in each(cls):
        optimizer, schedule = build(cls, given)
        first = [float(group["lr"]) for group in optimizer.param_groups]
        seen = [first, *advance(optimizer, schedule, 15)]
        assert any(rate != first for rate in seen), f"arguments {given}: 15 steps change no rate"


def own_options(cls, device):
    """Options are a schedule's own: another one of the class, with another value, changes none of its rates."""
    if hasattr(cls, "example"):
        raise Skip("it is made of other schedules")
    for given in each(cls):
        of_each = {}

        def construct(kwargs, given=given, of_each=of_each):
            optimizer, schedule = build(cls, Sample(given.args, kwargs))
            of_each[schedule] = optimizer
            return schedule

        def outcome(schedule, of_each=of_each):
            return [plugrad.tensor(advance(of_each[schedule], schedule, 12), dtype=plugrad.float64)]

        instances.assert_own(cls, given, f"arguments {given}", construct, outcome, 1)


def clock(cls, device):
    """Rates depend on the steps made, and on no clock of its own; the first rates of groups stay as they were."""
    for given in each(cls):
        optimizer, schedule = build(cls, given)
        bases = [list(getattr(schedule, "base_lrs", ())), [group["initial_lr"] for group in optimizer.param_groups]]
        expected = advance(optimizer, schedule, 12)
        now = [list(getattr(schedule, "base_lrs", ())), [group["initial_lr"] for group in optimizer.param_groups]]
        assert now == bases, f"arguments {given}: 12 steps change the first rates from {bases} to {now}"
        with _another_time():
            later = advance(*build(cls, given), 12)
        assert later == expected, f"arguments {given}: at another time of the day the rates are {later}"
        optimizer, schedule = build(cls, given)
        for epoch, rates in enumerate(expected):
            schedule.state_dict(), schedule.get_last_lr(), repr(schedule)
            told = advance(optimizer, schedule, 1, epoch)[0]
            assert told == rates, f"arguments {given}: asking for its state changes the rates to {told} from {rates}"


@contextlib.contextmanager
def _another_time():
    """Let the clocks of Python's `time` show a later time, within a `with` block."""
    names = ("time", "monotonic", "perf_counter", "process_time")
    own = {name: getattr(time, name) for name in names}
    try:
        for name, function in own.items():
            setattr(time, name, lambda function=function: function() + 1e5)
        yield
    finally:
        for name, function in own.items():
            setattr(time, name, function)


def resume(cls, device):
    """Saved and loaded, with its optimizer, it goes on with the same rates: five steps."""
    for given in each(cls):
        optimizer, schedule = build(cls, given)
        advance(optimizer, schedule, 3)
        file = io.BytesIO()
        plugrad.save(optimizer.state_dict(), file)
        states = pickle.dumps(schedule.state_dict())
        other, again = build(cls, given)
        file.seek(0)
        other.load_state_dict(plugrad.load(file))
        again.load_state_dict(pickle.loads(states))
        for name in ("optimizer",):
            assert name not in schedule.state_dict(), f"its state dict holds the {name}"
        told = getattr(schedule, "last_epoch", None)  # schedules that consist of others may leave it to these
        assert getattr(again, "last_epoch", None) == told, f"arguments {given}: last_epoch is lost in loading"
        before, after = advance(optimizer, schedule, 5, 3), advance(other, again, 5, 3)
        assert before == after, f"arguments {given}: after loading the rates go on as {after}, and should as {before}"
        told = getattr(schedule, "last_epoch", None)
        schedule.state_dict()
        assert getattr(schedule, "last_epoch", None) == told, f"arguments {given}: state_dict() changes last_epoch"
        if "last_epoch" in inspect.signature(cls).parameters and not hasattr(cls, "example"):
            _goes_on(cls, given)


def _goes_on(cls, given):
    """Assert that a schedule built with `last_epoch` takes the next epoch from there."""
    try:
        told = build(cls, given, last_epoch=4)[1].last_epoch
    except KeyError:  # it needs more from the groups than a first rate
        return
    assert told == 5, f"arguments {given}, argument 'last_epoch'=4: it goes on at epoch {told}, and not at 5"
    if hasattr(cls, "metric"):  # what the measures did to the rates is in no argument
        return
    expected = advance(*build(cls, given), 9)
    for now in expected[3:5]:  # the groups' rates at last_epoch, or those that it is to go on with
        optimizer, schedule = build(cls, given, now=now, last_epoch=4)
        first = [float(group["lr"]) for group in optimizer.param_groups]
        actual = [first, *advance(optimizer, schedule, 4, 5)]
        if all(map(math.isclose, sum(actual, []), sum(expected[4:], []))):
            return
    raise AssertionError(
        f"arguments {given}, argument 'last_epoch'=4: the rates go on as {actual}, and not as {expected[4:]}"
    )


def functions_kept(cls, device):
    """Functions that it was given survive `state_dict` and `load_state_dict`, lambdas included."""
    done = 0
    for given in each(cls):
        names = [name for name, value in given.kwargs.items() if callable(value)]
        if not names:
            continue
        plain = Sample(given.args, {**given.kwargs, names[0]: lambda epoch: 0.5**epoch})
        optimizer, schedule = build(cls, plain)
        state = pickle.loads(pickle.dumps(schedule.state_dict()))  # a lambda in it could not be pickled
        other, again = build(cls, plain)
        again.load_state_dict(state)
        expected, actual = advance(optimizer, schedule, 4), advance(other, again, 4)
        assert actual == expected, f"argument {names[0]!r}: a lambda is lost in loading: {actual} instead of {expected}"
        done += 1
    if not done:
        raise Skip("it takes no function")


CHECKS = {
    "samples": has_samples,
    "rates": rates,
    "groups": groups,
    "effect": does_something,
    "instances": own_options,
    "clock": clock,
    "resume": resume,
    "functions kept": functions_kept,
}
