"""Every op of ours against all checks that follow from its declaration.

Values, both orders of gradient, both modes of the formulas, strides, shapes, extreme values, dtypes, the in-place form,
the meta device, errors and the docstring: see `plugrad.testing.cases`. What is known to fail is listed, with reasons,
in tests/known/conformance.txt.
"""

from __future__ import annotations

import known_failures
import pytest

from plugrad import registry
from plugrad.testing import cases

KNOWN = "conformance.txt"
OURS = sorted(name for name, op in registry.ops.items() if op.provider.builtin)


@pytest.mark.parametrize("name", OURS)
def test_op(name):
    failures = {}
    for case in cases(registry.op(name)):
        try:
            case.run()
        except AssertionError as error:
            failures[case.name.replace(" ", "-")] = str(error)
    known_failures.settle(KNOWN, name, failures)


def test_known_failures_name_ops_and_checks():
    checks = {name: {case.name.replace(" ", "-") for case in cases(registry.op(name))} for name in OURS}
    for name, listed in known_failures.read(KNOWN).items():
        assert listed <= checks.get(name, set()), f"{name}: {listed}"


def test_no_op_is_without_a_gradient_by_oversight():
    """An op that takes floats and gives floats has formulas, or says `vjp=None`."""
    silent = [
        name
        for name in OURS
        if (op := registry.op(name)).family in ("unary", "binary", "elementwise", "reduction", "view")
        and op.promote in ("float", "same")
        and not op.differentiable
        and not op.undifferentiable
    ]
    assert not silent
