"""Tools for testing: gradients, values, and whole ops; for authors of extensions as for ourselves.

`check` and `gradcheck` judge gradients, `assert_close` compares values, `make_tensor` makes random tensors,
and `cases` yields all tests that follow from the declaration of an op.
"""

from __future__ import annotations

from .comparison import assert_close, make_tensor
from .conformance import Case, cases
from .gradcheck import GradcheckError, Verdict, check, gradcheck, gradgradcheck
from .samples import Sample, samples_of

__all__ = [
    "Case", "GradcheckError", "Sample", "Verdict", "assert_close", "cases", "check", "gradcheck",
    "gradgradcheck", "make_tensor", "samples_of",
]  # fmt: skip
