"""Where rounding decides what a program does, so that neither PyTorch nor plugrad is wrong."""

from __future__ import annotations

import re

import numpy as np

from support.program_kinds import after, kind, matches
from support.program_listed_wider import BALANCED
from support.program_runs import difference, values_of


@kind
def cut_off(program, found, oracle, subject, watch):
    """Numbers that rounding makes a little less than an integer are cut off to the one before."""
    names = "long|int|to|floor|ceil|trunc|frac|sgn|sign|bool|logical_\\w+"
    cast = re.search(rf"(?:= |^)(v\d+)\.({names})\(", program[-1])
    if found.kind != "values" or cast is None:
        return False
    with after(program[:-1], oracle) as run:
        values = values_of(run.tensors()[cast[1]])
    apart = np.asarray(found.expected) != np.asarray(found.actual)
    return np.allclose(values[apart], np.round(values[apart]), rtol=1e-6, atol=1e-6)



@kind
def nearly_equal(program, found, oracle, subject, watch):
    """Which of several elements that differ by rounding is the largest is not said."""
    taken = re.search(r"= (?:Largest\.apply\((v\d+)\)|(v\d+)\.(?:arg)?(?:max|min|sort|topk)\()", program[-1])
    if found.kind != "values" or taken is None or np.asarray(found.expected).dtype.kind != "i":
        return False
    with after(program[:-1], oracle) as run:
        values = values_of(run.tensors()[taken[1] or taken[2]]).ravel()
    return np.allclose(values[found.expected], values[found.actual], rtol=1e-9)



@kind
def equal_but_for_rounding(program, found, oracle, subject, watch):
    """Which elements are equal, or a limit, is not said where rounding decides it.

    The difference goes when they are rounded to six digits first.
    """
    looked = r"(v\d+)(\.unique\(| [<>]=? )"
    if found.kind not in ("shape", "values") or not re.search(looked, program[-1]):
        return False
    apart = [*program[:-1], re.sub(looked, r"\1.round(decimals=6)\2", program[-1])]
    return difference(apart, oracle, subject, watch) is None



@kind
def near_ties(program, found, oracle, subject, watch):
    """Of elements that are the same but for rounding, another one is the largest.

    The difference goes when the program rounds what it orders.
    """
    ordering = r"(v\d+)\.(amax|amin|max|min|sort|argmax|argmin|topk|cummax|cummin|aminmax)\("
    if not found.kind.endswith("values") or not matches(ordering, program):
        return False
    rounded = [re.sub(ordering, r"(\1 + (\1.detach().round(decimals=9) - \1.detach())).\2(", one) for one in program]
    return difference(rounded, oracle, subject, watch) is None



@kind
def mantissas_of_rounding(program, found, oracle, subject, watch):
    """The mantissa of what is zero but for rounding is not said; with its exponent it is the same number in both."""
    split = re.search(r"(v\d+), (v\d+) = (v\d+)\.frexp\(\)", program[-1])
    if split is None or found.kind != "values":
        return False
    with after(program[:-1], oracle) as one, after(program[:-1], subject) as other:
        return np.allclose(values_of(one.tensors()[split[3]]), values_of(other.tensors()[split[3]]), atol=1e-6)



@kind
def ties_of_topk(program, found, oracle, subject, watch):
    """Which of equal elements topk() takes is not said; max() takes the first, with which the difference goes."""
    if not found.kind.endswith("values") or not matches(r"\.topk\(1\)\[0\]", program):
        return False
    first = [statement.replace(".topk(1)[0]", ".max(-1, keepdim=True)[0]") for statement in program]
    return difference(first, oracle, subject, watch) is None



@kind
def magnified_rounding(program, found, oracle, subject, watch):
    """What a program makes of the last bits of single precision is not said.

    The difference goes in double precision, and is no greater than what PyTorch itself loses by single precision.
    """
    if found.kind not in ("values", "grad.values") or not matches(r"T\.float32", program):
        return False
    double = [statement.replace("T.float32", "T.float64") for statement in program]
    if not np.isfinite(found.actual).all() or difference(double, oracle, subject, watch) is not None:
        return False
    with after(double, oracle) as run:
        tensor = run.tensors()[found.name]
        exact = values_of(tensor.grad if found.kind == "grad.values" else tensor)
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
def quotients_of_rounding(program, found, oracle, subject, watch):
    """What comes of dividing by what is zero but for rounding is not said, nor in which direction it lies.

    The difference goes when the divisor is rounded to nine digits first.
    """
    divided, direction = r" / (v\d+)", r"atan2\((v\d+), (v\d+)\)"
    if not found.kind.endswith("values") or not matches(f"{divided}|{direction}", program):
        return False
    rounded = [re.sub(divided, r" / rounded(\1)", statement) for statement in program]
    rounded = [re.sub(direction, r"atan2(rounded(\1), rounded(\2))", statement) for statement in rounded]
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
