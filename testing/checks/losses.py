"""Checks of losses: what every Module has, the function that the Module stands for, and its reductions."""

from __future__ import annotations

import inspect

import plugrad
from plugrad.testing.calls import Skip, agree
from plugrad.testing.checks import layers
from plugrad.testing.checks.guesses import build
from plugrad.testing.tensors import tensors_in


def checks(cls) -> dict:
    """Return the checks of a loss by name."""
    chosen = layers.checks(cls)
    if hasattr(cls, "op"):
        chosen["functional form"] = functional_form
    if "reduction" in inspect.signature(cls).parameters:
        chosen["reductions"] = reductions
    return chosen


def functional_form(cls, device):
    """The Module gives what its function gives."""
    for label, trial in layers.each(cls, device):
        module = build(cls, trial, device)
        results = layers.run(module, trial)
        names = inspect.signature(cls.forward).parameters
        given = dict(zip([*names][1:], trial.given.args, strict=False))
        plugrad.manual_seed(0)
        expected = tensors_in(cls.op.function(**given, **trial.construct.kwargs))
        layers.same(results, expected, f"{label} against nn.functional.{cls.op.name}")


def reductions(cls, device):
    """`sum` is that of `none`, `mean` is it over a number of elements, and an unknown reduction is refused."""
    done, several = 0, False
    for label, trial in layers.each(cls, device):
        each, mean, total = (
            tensors_in(layers.run(build(cls, trial, device, reduction=word), trial))[0].detach()
            for word in ("none", "mean", "sum")
        )
        agree(total, each.sum(), f"{label}, argument 'reduction'='sum' against the sum of 'none'", rtol=1e-9)
        assert mean.ndim == 0, f"{label}, argument 'reduction'='mean': the result has shape {tuple(mean.shape)}"
        plain = not any(isinstance(value, plugrad.Tensor) for value in trial.construct.kwargs.values())
        if plain and len(trial.given.args) == 2 and each.numel() and bool(each.isfinite().all()):
            low, high = each.min().item(), each.max().item()
            slack = 1e-9 * max(abs(low), abs(high))
            assert low - slack <= mean.item() <= high + slack, (
                f"{label}, argument 'reduction'='mean': {mean.item():.6g} is not between the least and the largest of "
                f"'none', {low:.6g} and {high:.6g}"
            )
            _assert_counted(mean.item(), total.item(), label)
        several = several or each.numel() > 1
        done += 1
    if not done:
        raise Skip("no samples")
    assert several, "argument 'reduction'='none' never gives more than one number"
    try:
        layers.run(build(cls, trial, device, reduction="avg"), trial)
    except ValueError:
        return
    raise AssertionError("argument 'reduction'='avg' is not a reduction, and raises no ValueError")


def _assert_counted(mean, total, label) -> None:
    """Assert that a mean is a sum over a whole number, which may leave out elements that do not count."""
    count = total / mean if mean else 1.0
    assert abs(count - round(count)) <= 1e-6 * abs(count), (
        f"{label}, argument 'reduction'='mean': {mean:.6g} is not the sum of 'none', {total:.6g}, over a number of "
        f"elements: that would be {count:.6g} of them"
    )
