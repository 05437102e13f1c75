"""Checks of what optimizers make of rates that change, of closures, and of other optimizers of their class."""

from __future__ import annotations

import plugrad
from plugrad.testing.calls import Skip, same_bits
from plugrad.testing.checks import instances
from plugrad.testing.checks.optimizer_steps import assert_equal, build, each, parameters, quadratic, sizes_of, steps


def rates(cls, device):
    """A rate counts from the beginning, and one that is set between two steps, as a schedule does, from there on."""
    done = 0
    for given in each(cls):
        rate = build(cls, given, parameters(device, sizes_of(cls))).param_groups[0].get("lr")
        if not isinstance(rate, float) or not rate:
            continue
        done += 1
        plain, first, later = (parameters(device, sizes_of(cls)) for _ in range(3))
        one, other, last = build(cls, given, plain), build(cls, given, first, lr=rate / 4), build(cls, given, later)
        steps(one, plain, 2), steps(other, first, 2), steps(last, later, 2)
        _assert_other(plain, first, f"options {given}, argument 'lr'={rate / 4:g} against {rate:g}, two steps")
        if getattr(cls, "keeps_rate", False):
            continue
        for group in last.param_groups:
            group["lr"] = rate / 4
        steps(one, plain, 2), steps(last, later, 2)
        label = f"options {given}, argument 'lr' set to {rate / 4:g} after two steps against {rate:g} throughout"
        advice = '; read group["lr"] at each step, or say by `keeps_rate = True` that the first rate is used alone'
        _assert_other(plain, later, label, advice)
    if not done:
        raise Skip("its rate is no number")


def _assert_other(some, others, label, advice=""):
    for number, pair in enumerate(zip(some, others, strict=True)):
        assert not same_bits(*pair), f"{label}: parameter {number} is the same{advice}"


def closure(cls, device):
    """`step(closure)` calls it with gradients enabled, returns the loss, and does what a step without one does."""
    for given in each(cls):
        tensors = parameters(device, sizes_of(cls))
        optimizer, enabled = build(cls, given, tensors), []

        def evaluate(tensors=tensors, optimizer=optimizer, enabled=enabled):
            enabled.append(plugrad.is_grad_enabled())
            optimizer.zero_grad()
            loss = quadratic(tensors)
            loss.backward()
            return loss

        with plugrad.no_grad():
            expected, loss = quadratic(tensors).item(), optimizer.step(evaluate)
        assert enabled and all(enabled), f"options {given}: step(closure) calls it without recording gradients"
        assert loss is not None and float(loss) == expected, f"options {given}: step(closure) does not return the loss"
        if len(enabled) == 1:  # one that evaluates it again, after a move, can't do that without
            _assert_same_step(cls, given, device)


def _assert_same_step(cls, given, device):
    """Assert that steps without a closure, where the optimizer takes such, lead where those with one do."""
    with_it, without = parameters(device, sizes_of(cls)), parameters(device, sizes_of(cls))
    one, other = build(cls, given, with_it), build(cls, given, without)
    for _ in range(3):
        steps(one, with_it, 1)
        other.zero_grad()
        quadratic(without).backward()
        try:
            other.step()
        except (TypeError, ValueError, RuntimeError, AssertionError):  # it asks for one
            return
    assert_equal(with_it, without, f"options {given}: three steps with a closure against three without")


def own_options(cls, device):
    """Options are an optimizer's own: another one of the class, with another value, changes none of its steps."""
    for given in each(cls):
        of_each = {}

        def construct(kwargs, given=given, of_each=of_each):
            tensors = parameters(device, sizes_of(cls))
            optimizer = cls(tensors, *given.args, **kwargs)
            of_each[id(optimizer)] = optimizer, tensors
            return optimizer

        def outcome(optimizer, of_each=of_each):
            tensors = of_each[id(optimizer)][1]
            steps(optimizer, tensors, 3)
            return tensors

        instances.assert_own(cls, given, f"options {given}", construct, outcome, 1)
