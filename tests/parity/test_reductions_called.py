"""Reductions are called in all ways that there are to give, name and leave out `dim` and `keepdim`."""

from __future__ import annotations

import itertools
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad

NAMES = """
sum mean prod max min median nanmedian amax amin aminmax all any argmax argmin std var std_mean var_mean nansum nanmean
logsumexp norm count_nonzero mode kthvalue quantile nanquantile cumsum cummax sort topk softmax linalg.vector_norm
""".split()
DIMS = (None, "None", "0", "-1", "(0, 1)", "()", "[0]", "True", "x")
KEEPS = (None, "False", "True", "None")
NAMED = {"by place": ("", ""), "by name": ("dim=", "keepdim="), "by NumPy's name": ("axis=", "keepdims=")}


def calls(name):
    """Yield the arguments of all calls of a reduction, as source."""
    for (of_dim, of_keep), dim, keep in itertools.product(NAMED.values(), DIMS, KEEPS):
        given = [] if dim is None else [of_dim + dim]
        if keep is not None:
            given.append((of_keep or ("keepdim=" if dim is None else "")) + keep)
        yield ", ".join(given)


def taken(name, given) -> str | None:
    """Why a call is taken here and refused by PyTorch, or refused with another type of error; None if it is not."""
    if name == "logsumexp" and "()" in given:
        return "all dimensions are reduced, as by other reductions; PyTorch fails inside"
    if name == "prod" and "None" in given.partition("keepdim")[0]:
        return "calls are made again with what they were settled to, which is None for no dim"
    if name in ("max", "min") and ("dim=x" in given or "axis=x" in given):
        return "a tensor in the place of dim, by which name it was given is not seen"
    if name in ("std", "var", "std_mean", "var_mean") and ("dim=True" in given or "axis=True" in given):
        return "a bool in the place of dim, by which name it was given is not seen"
    if name == "norm" and ("axis=" in given or "keepdims=" in given):
        return "NumPy's names may be used of all functions, not only of those that PyTorch has in C++"
    return None


def outcome(T, text):
    try:
        result = eval(text, {"T": T, "x": T.tensor([[1.0, -2.0, 3.0], [0.5, 2.0, -1.0]])})
    except Exception as error:
        assert str(error)
        return type(error).__name__
    results = result if isinstance(result, (tuple, list)) else [result]
    return [(str(one.dtype), *one.shape, [round(number, 4) for number in one.flatten().tolist()]) for one in results]


@pytest.mark.parametrize("name", NAMES)
def test_calls_are_taken_or_refused_as_in_pytorch(name):
    different = []
    for given in dict.fromkeys(calls(name)):
        texts = [f"T.{name}({', '.join(filter(None, ['x', given]))})"]
        texts += [f"x.{name}({given})"] * ("." not in name)
        for text in texts:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs, ours = outcome(torch, text), outcome(plugrad, text)
            if theirs != ours and not taken(name, given):
                different.append(f"{text}: {theirs} expected, {ours} found")
    assert not different, "\n".join(different)
