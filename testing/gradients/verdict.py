"""The answers of a gradient check, and the tolerances behind them."""

from __future__ import annotations

import numpy

PASS, FAIL = "PASS", "FAIL"
NONDIFFERENTIABLE, INCONCLUSIVE = "NONDIFFERENTIABLE", "INCONCLUSIVE"

EPS, ATOL, RTOL = 1e-6, 1e-5, 1e-3  # PyTorch's defaults: when left so, tolerances follow from what was measured
RELATIVE = 1e-6  # a right gradient agrees with the slope at least this well, relative to the element
VISIBLE = 2e-4  # an error this large, relative to the element, must be visible for a verdict


class Verdict:
    """The answer of `check`; true where the gradient may be relied on.

    That is for PASS, and for NONDIFFERENTIABLE with a subgradient.

    Attributes: `status`; `input`, the position of the argument or the name of the module parameter;
    `element`, the index in that tensor; `numeric`, the measured slope, or the pair of left and right slopes
    at a kink; `analytic`, what backward says; `message`. All but `status` and `message` are None where they
    do not apply.
    """

    __slots__ = ("status", "input", "element", "numeric", "analytic", "message")

    def __init__(self, status, message="", *, input=None, element=None, numeric=None, analytic=None):
        self.status, self.message = status, message
        self.input, self.element, self.numeric, self.analytic = input, element, numeric, analytic

    def __bool__(self):
        return self.status in (PASS, NONDIFFERENTIABLE)

    def __repr__(self):
        return f"<Verdict {self.status}{': ' if self.message else ''}{self.message}>"


_SEVERITY = (PASS, NONDIFFERENTIABLE, INCONCLUSIVE, FAIL)


def worse(one: Verdict, other: Verdict) -> Verdict:
    return max(one, other, key=lambda verdict: _SEVERITY.index(verdict.status))


class Tolerance:
    """How far an analytic slope may be from a measured one; both in double precision."""

    def __init__(self, atol, rtol):
        given = (atol, rtol) != (ATOL, RTOL)
        epsilon = 2.0**-52
        self.relative = rtol if given else RELATIVE
        self.absolute = atol if given else 0.0
        self.of_row = 1e-12  # of the largest element beside it: what backward's own rounding may do
        self.of_all = 64 * epsilon  # of the largest element anywhere: what cancels inside backward leaves so much
        self.of_value = 16 * epsilon  # of the function's value, for the same reason
        self.of_bend = 8 * epsilon  # of the second derivative: backward sees its inputs rounded
        self.visible = max(VISIBLE, self.relative)  # an error bar beyond this tells nothing

    def allowed(self, largest, row, size, step):
        """Return the difference explained by tolerances and by rounding in backward, for a unit step of
        `step`.

        `largest` is the size of the element, `row` that of the largest element beside it, `size` of the
        function.
        """
        return 1e-290 + self.absolute * abs(step) + self.relative * largest + self.of_row * row + self.of_value * size

    def needed(self, largest, row, size):
        """Return the error bar that a verdict needs: small beside the element, if the element matters at all.

        Where a function is all but flat its slope drowns in the rounding of the value, and little can be
        asked.
        """
        relative = numpy.where(largest > 1e-7 * size, self.visible, numpy.maximum(self.visible, 0.1))
        matters = numpy.where(largest > 1e-10 * size, relative * largest, self.visible * 1e-6 * size)
        return numpy.maximum(matters, self.visible * 1e-3 * row)
