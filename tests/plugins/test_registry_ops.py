"""Everything of ours against all checks that follow from its declaration: what `plugrad check plugrad` runs.

One test for each op, layer, loss, optimizer, schedule, initialiser, backend and compiler. What is known to fail is
listed, with reasons, in tests/known/conformance.txt.
"""

from __future__ import annotations

import pytest

from plugrad import registry
from plugrad.testing import checks_of
from support import known_failures

KNOWN = "conformance.txt"
CASES: dict = {}
for _case in checks_of("plugrad"):
    CASES.setdefault(_case.subject, []).append(_case)


@pytest.mark.parametrize("subject", CASES)
def test_subject(subject):
    failures = {}
    for number, case in enumerate(CASES[subject]):
        try:
            case.run(follows=number > 0)
        except AssertionError as error:
            failures[case.name.replace(" ", "-")] = str(error)
    known_failures.settle(KNOWN, subject, failures)


def test_known_failures_name_subjects_and_checks():
    checks = {subject: {case.name.replace(" ", "-") for case in cases} for subject, cases in CASES.items()}
    for subject, listed in known_failures.read(KNOWN).items():
        assert listed <= checks.get(subject, set()), f"{subject}: {listed}"


def test_ids_are_unique():
    ids = [case.id for cases in CASES.values() for case in cases]
    assert len(ids) == len(set(ids))


def test_nothing_of_ours_is_left_out():
    assert set(registry.ops) - {op.qualname for op in registry.ops.values() if not op.provider.builtin} <= set(CASES)
    ours = {dotted for dotted, entry in registry.public.items() if entry.provider.builtin and entry.kind != "ops"}
    assert ours <= set(CASES) | _twice(ours)


def _twice(names) -> set:
    """Return names under which something is found that has its checks under another name."""
    checked = {id(case._value) for cases in CASES.values() for case in cases}
    return {name for name in names if id(registry.public[name].value) in checked}


def test_no_op_is_without_a_gradient_by_oversight():
    """An op that takes floats and gives floats has formulas, or says `vjp=None`."""
    silent = [
        name
        for name, op in registry.ops.items()
        if op.provider.builtin
        and op.family in ("unary", "binary", "elementwise", "reduction", "view")
        and op.promote in ("float", "same")
        and not op.differentiable
        and not op.undifferentiable
    ]
    assert not silent
