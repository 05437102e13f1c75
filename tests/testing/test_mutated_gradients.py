"""Breaking the checker: gradients of ours with one mistake put in; see tests/support/seeded_ops.py for other faults."""

from __future__ import annotations

import pytest

import plugrad
from plugrad import registry
from plugrad.testing import check
from plugrad.testing.gradients.mutations import FAULTS, mutants

MUTATED = ("sin", "log", "mul", "sum", "matmul", "softmax", "logsumexp", "cumsum", "cross_entropy", "linalg_inv")


def judged(record, order=1):
    """Return, for the first sample of an op: how many mutants, those that `check` lets through, and the faults."""
    count, missed, seen = 0, [], set()
    for mutant in mutants(record, order=order):
        try:
            if mutant.number > 0 or mutant.equivalent():
                continue
        except RuntimeError:  # a term dropped from a formula may leave one that raises
            continue
        count += 1
        seen.add(mutant.fault)
        for fast in (False, True):
            verdict = check(mutant.function, mutant.arguments, fast_mode=fast)
            if verdict.status != "FAIL":
                missed.append((mutant, fast, verdict))
    return count, missed, seen


@pytest.mark.parametrize("name", MUTATED)
def test_mutated_gradients_are_caught(name):
    count, missed, seen = judged(registry.op(name))
    assert count >= 5 and not missed, missed
    assert name != "mul" or seen == set(FAULTS)


def test_mutated_second_gradients_are_caught():
    count, missed, _ = judged(registry.op("tanh"), order=2)
    assert count >= 5 and not missed, missed


def test_mistakes_in_some_layouts_do_not_cancel_between_outputs():
    # The second gradients of mse are each other's opposites: where both count alike nothing is left of a mistake.
    mutated = list(mutants(registry.op("mse"), order=2, faults=("off by 1 % if not contiguous, seen elsewhere",)))
    assert len(mutated) > 2
    for mutant in mutated:
        assert check(mutant.function, mutant.arguments).status == "FAIL", mutant


@pytest.mark.parametrize("name", ["sqrt", "log", "acosh"])
def test_large_samples_stay_in_the_domain(name):
    (mutant,) = mutants(registry.op(name), faults=("one element of 20,000 off by 1 %",))
    assert mutant.arguments[0].numel() == 20_000
    assert plugrad.isfinite(mutant.function(*mutant.arguments)).all()
    assert check(mutant.original, mutant.arguments).status == "PASS"
    assert check(mutant.function, mutant.arguments).status == "FAIL"


def test_mutants_leave_the_registry_alone():
    record = registry.op("tanh")
    before, function = list(record.formulas), record.function
    assert len(list(mutants(record))) > 20
    assert record.formulas == before and record.function is function
    assert check(plugrad.tanh, (plugrad.ones(3, dtype=plugrad.float64).requires_grad_(),)).status == "PASS"


def test_changes_that_change_nothing_are_equivalent():
    x = plugrad.tensor([-1.0, -2.0, 3.0], dtype=plugrad.float64, requires_grad=True)
    record = registry.op("floor")  # its gradient is zero: nothing that is done to it makes a difference
    assert all(mutant.equivalent() for mutant in mutants(record) if mutant.fault != "term dropped")
    doubled = next(mutants(registry.op("relu"), faults=("times 1.0005",)))
    doubled.arguments = doubled.shown = (-x.detach().abs().requires_grad_(),)
    assert doubled.equivalent()
