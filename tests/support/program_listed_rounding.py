"""Where rounding decides what a program does, so that neither PyTorch nor plugrad is wrong."""

from __future__ import annotations

import re

import numpy as np

from support.program_kinds import after, kind, matches
from support.program_listed_wider import BALANCED
from support.program_runs import difference, same, values_of

TOLERANCES = {"torch.float32": 1e-5, "torch.complex64": 1e-5, "torch.float16": 4e-3, "torch.bfloat16": 3e-2}


def go_on_alike(expected, actual) -> None:
    """Give the tensors of one run the numbers of another one, where they are the same but for rounding."""
    ours = actual.tensors()
    for name, tensor in expected.tensors().items():
        pairs = [(tensor, ours[name])]
        if tensor.is_leaf or tensor.retains_grad:
            pairs.append((tensor.grad, ours[name].grad))
        for one, other in pairs:
            if one is None or other is None or one.is_sparse or one.shape != other.shape:
                continue
            theirs, numbers = values_of(one), values_of(other)
            if theirs.dtype.kind not in "fc" or theirs.tobytes() == numbers.tobytes():
                continue
            tolerance = TOLERANCES.get(str(one.dtype), 1e-9)
            if np.allclose(theirs, numbers, rtol=tolerance, atol=tolerance, equal_nan=True):
                one.data.copy_(expected.T.tensor(numbers, dtype=one.dtype))


@kind
def jumps(program, found, oracle, subject, watch):
    """On which side of a jump a number lies that rounding puts there is not said, nor which of such is the largest.

    The difference goes when PyTorch goes on after each statement with the numbers that were computed here, which are
    the same as its own but for rounding.
    """
    return difference(program, oracle, subject, watch, between=go_on_alike) is None


@kind
def magnified_rounding(program, found, oracle, subject, watch):
    """What a program makes of the last bits of single or half precision is not said.

    The difference goes in double precision, and is no greater than what PyTorch itself loses by less; infinities and
    NaN are those that PyTorch has in double precision.
    """
    narrow = r"T\.(float32|b?float16)"
    if found.kind not in ("values", "grad.values") or not matches(rf"{narrow}|\.(bfloat16|half)\(\)", program):
        return False
    double = [re.sub(narrow, "T.float64", re.sub(r"\.(bfloat16|half)\(\)", ".double()", one)) for one in program]
    if difference(double, oracle, subject, watch) is not None:
        return False
    with after(double, oracle) as run:
        tensor = run.tensors()[found.name]
        exact = values_of(tensor.grad if found.kind == "grad.values" else tensor)
    if not np.isfinite(found.actual).all():
        return same(exact, found.actual, 5e-2)
    return np.abs(found.expected - found.actual).max() <= 10 * np.abs(found.expected - exact).max()


@kind
def kinks_met_by_rounding(program, found, oracle, subject, watch):
    """The slope of the absolute value of what is zero but for rounding is not said.

    The difference goes when it is rounded to nine digits first.
    """
    whole = rf"((?:T\.fft\.\w+{BALANCED}|v\d+))\.abs\(\)"
    laplace = r"(distributions\.Laplace\()(v\d+)(.*\.log_prob\()(v\d+)(\))"  # which has the difference's
    if not found.kind.endswith("values") or not matches(rf"{whole}|{laplace}", program):
        return False
    rounded = [re.sub(whole, r"rounded(\1).abs()", statement) for statement in program]
    rounded = [re.sub(laplace, r"\1rounded(\2)\3rounded(\4)\5", statement) for statement in rounded]
    return difference(rounded, oracle, subject, watch) is None


@kind
def ends_of_supports(program, found, oracle, subject, watch):
    """What a density, or its quantiles, makes of the last bits of a value at the end of its support is not said.

    The difference is no greater than what other last bits make of it in PyTorch itself.
    """
    asked = r"(\.(?:log_prob|icdf)\()(v\d+\.sigmoid\(\))"
    if found.kind != "values" or not matches(asked, program[-1:]):
        return False
    nudged = [*program[:-1], re.sub(asked, r"\1T.nextafter(\2, 0 * \2)", program[-1])]
    with after(nudged, oracle) as run:
        other = values_of(run.tensors()[found.name])
    wrong = ~np.isclose(found.expected, found.actual, rtol=1e-7, atol=1e-7)
    return bool((np.abs(found.expected - found.actual) <= 4 * np.abs(found.expected - other))[wrong].all())


@kind
def directions_of_nothing(program, found, oracle, subject, watch):
    """In which directions a matrix of less than full rank has singular values of zero is not said: LAPACK chooses.

    The difference goes when no gradient is handed to those that are zero.
    """
    values = rf"T\.linalg\.svdvals({BALANCED})"
    if not found.kind.endswith("values") or not matches(values, program):
        return False
    kept = [re.sub(values, r"positive(T.linalg.svdvals\1)", statement) for statement in program]
    return difference(kept, oracle, subject, watch) is None


@kind
def negated_bytes(program, found, oracle, subject, watch):
    """PyTorch's gradient of `atan2` negates a first operand of uint8, which wraps: -3 is 253.

    The difference goes when that operand is converted first, which changes nothing here.
    """
    if not found.kind.endswith("values") or not matches(r"atan2\(", program):
        return False
    wide = [re.sub(r"T\.atan2\((v\d+), (v\d+)", r"T.atan2(\1.to(\2.dtype), \2", one) for one in program]
    wide = [re.sub(r"(v\d+)\.atan2\((v\d+)", r"\1.to(\2.dtype).atan2(\2", one) for one in wide]
    if wide == program or difference(wide, oracle, subject, watch) is not None:
        return False
    return difference(program, subject, subject, watch, instead=wide) is None
