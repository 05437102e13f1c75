"""Kernels in C against those in Python: values, gradients, infinities and NaN, strides, and that they ran at all."""

from __future__ import annotations

import contextlib

import plugrad
from plugrad.testing.calls import Skip, call, gradients, is_random, kernel_replaced, leaves
from plugrad.testing.checks.kernels import close
from plugrad.testing.guises import GUISES
from plugrad.testing.samples import samples_of
from plugrad.testing.tensors import differentiable, tensors_in

DTYPES = ("float64", "float32")
# What is left of 1 - tanh(x)^2 at a large x is known to a few units of 1, a share of the budget.
LEAST = {"large": 2.0**-6}


def has_native(op) -> bool:
    """Whether an op has a kernel in C, or one of its formulas has."""
    return any(hasattr(kernel, "native") for kernel in _kernels(op))


def native(op, device):
    """Kernels in C give what the op's others give, for all samples in several guises, and serve at least one."""
    if is_random(op, next(iter(samples_of(op)))):
        raise Skip("its results are random")
    served = dict.fromkeys([kernel.native for kernel in _kernels(op) if hasattr(kernel, "native")], 0)
    looks = [
        (f"{dtype}, sample {number} {sample}, {guise}", guise, sample, change)
        for dtype in DTYPES
        for number, sample in enumerate(samples_of(op, dtype=getattr(plugrad, dtype)))
        for guise, change in GUISES.items()
    ]
    with _counted(op, served):  # once for all: with other kernels all that is generated for the op is generated anew
        ours = [_everything(op, sample.map(change)) for _, _, sample, change in looks]
    with _without(op):
        theirs = [_everything(op, sample.map(change)) for _, _, sample, change in looks]
    for (label, guise, _, _), actual, expected in zip(looks, ours, theirs, strict=True):
        refused = isinstance(actual, type), isinstance(expected, type)
        if any(refused):
            told = f"{label}: {' and '.join(served)} in C gives {actual}, that in Python {expected}"
            assert all(refused) and guise == "empty", told
            continue
        for (what, one), (_, other) in zip(actual, expected, strict=True):
            told = f"{label}: {what} of {' and '.join(served)} in C against that in Python"
            close(one, other, told, LEAST.get(guise, 0.0) if what.startswith("gradient") else 0.0)
    idle = [name for name, times in served.items() if not times]
    assert not idle, f"{' and '.join(idle)} served no sample: add one that the C function takes, a contiguous one"


def _kernels(op) -> list:
    return [op.kernels.get("cpu"), *(formula.kernels.get("cpu") for formula in op.formulas)]


def _everything(op, sample) -> list | type:
    """Return results and gradients, each with its name; or the type of the error."""
    try:
        return _results(op, sample)
    except Exception as error:
        return type(error)


def _results(op, sample) -> list:
    results, inputs = tensors_in(call(op, sample)), leaves(sample)
    named = [(f"result {i}", result) for i, result in enumerate(results)]
    if outputs := differentiable(results) if inputs else []:
        with contextlib.suppress(NotImplementedError):  # a formula that says that there is no gradient
            grads = gradients(op, sample, recorded=(outputs, inputs))
            named += [(f"gradient {i}", g) for i, g in enumerate(grads) if g is not None]
    return named


@contextlib.contextmanager
def _without(op):
    """Let an op run by its other kernels and its formulas alone."""
    formulas = [formula for formula in op.formulas if formula.kernels]
    before = [dict(formula.kernels) for formula in formulas]
    kernel = op.kernels.get("cpu")
    with contextlib.ExitStack() as stack:
        for formula in formulas:
            formula.kernels.clear()
        if hasattr(kernel, "native"):
            stack.enter_context(kernel_replaced(op, "cpu", kernel.otherwise))
        op.reset()
        try:
            yield
        finally:
            for formula, kernels in zip(formulas, before, strict=True):
                formula.kernels.update(kernels)
            op.reset()


@contextlib.contextmanager
def _counted(op, served: dict):
    """Count, by name, the calls that C functions served."""

    def counting(kernel):
        def counted(xp, *args, **kwargs):
            result = kernel.__wrapped__(kernel.call, xp, *args, **kwargs)
            served[kernel.native] += result is not NotImplemented
            return kernel.otherwise(xp, *args, **kwargs) if result is NotImplemented and otherwise else result

        otherwise = hasattr(kernel, "otherwise")
        return counted

    formulas = [formula for formula in op.formulas if hasattr(formula.kernels.get("cpu"), "native")]
    before = [formula.kernels["cpu"] for formula in formulas]
    kernel = op.kernels.get("cpu")
    with contextlib.ExitStack() as stack:
        for formula in formulas:
            formula.kernels["cpu"] = counting(formula.kernels["cpu"])
        if hasattr(kernel, "native"):
            stack.enter_context(kernel_replaced(op, "cpu", counting(kernel)))
        op.reset()
        try:
            yield
        finally:
            for formula, own in zip(formulas, before, strict=True):
                formula.kernels["cpu"] = own
            op.reset()
