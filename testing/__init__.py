"""Tools for testing gradients, values and whole packages, for authors of plugins as for ourselves.

`check` and `gradcheck` judge gradients, `assert_close` compares values, `make_tensor` makes random tensors. `checks_of`
lists all tests that follow from what a package declares, `conformance_tests` makes a test function for pytest of them,
and `cases` yields those of one record.
"""

from __future__ import annotations

from plugrad.testing.comparison import assert_allclose, assert_close, make_tensor
from plugrad.testing.conformance import Case, cases, checks_of, conformance_tests
from plugrad.testing.gradients.checker import GradcheckError, Verdict, check, gradcheck, gradgradcheck
from plugrad.testing.gradients.old_jacobians import (
    get_analytical_jacobian,
    get_numerical_jacobian,
    get_numerical_jacobian_wrt_specific_input,
)
from plugrad.testing.samples import Sample, samples_of

__all__ = [
    "Case", "GradcheckError", "Sample", "Verdict", "assert_allclose", "assert_close", "cases", "check",
    "checks_of", "conformance_tests", "get_analytical_jacobian", "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input", "gradcheck", "gradgradcheck", "make_tensor", "samples_of",
]  # fmt: skip
