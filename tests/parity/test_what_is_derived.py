"""Of each argument that requires grad the results require it where PyTorch's do, or the call is refused.

So no argument is taken that a program trains and that nothing then changes.
"""

from __future__ import annotations

import functools
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import misuse_calls

import plugrad

MADE = ("made ", "stepped ", "program.", "called ", "scheduled ", "likely ")  # what makes something and uses it
# For a reason: the calls, and the place of the argument.
KNOWN = {
    "gradients are taken that PyTorch does not say": "view_as_complex_copy 0, nn.functional.grouped_mm 0 1",
    "a copy of what is detached has no history": "detach_copy 0",
    "both results are said to require grad, the second is a copy of the other argument":
        "triangular_solve 0, Tensor.triangular_solve 0",
    "another error comes first in PyTorch": "Tensor.pow 1",
    "counts have no derivative; what PyTorch makes of them raises in backward": "histogramdd 0",
    "an array stands for a tensor": "operator.mul 0, operator.imul 0",
    "a leaf may be written by items in neither": "Tensor.__setitem__ 0",
}  # fmt: skip


@functools.cache
def places() -> dict:
    """For each function the (call, place) of each floating point tensor that is an argument."""
    found: dict = {}
    for part in misuse_calls.PARTS:
        for call in misuse_calls.PARTS[part]():
            if call.name.startswith(MADE):
                continue
            args, kwargs = call.arguments(torch)
            for place, value in [*enumerate(args), *kwargs.items()]:
                if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
                    found.setdefault(f"{call.name} {place}", []).append((call, place))
    return found


def plain(value):
    if isinstance(value, (torch.Tensor, plugrad.Tensor)):
        return value.detach()
    return type(value)(map(plain, value)) if type(value) in (tuple, list) else value


def derived(library, call, place):
    """Whether the results of a call require grad, where one argument does; or that it is refused."""
    args, kwargs = call.arguments(library)
    args, kwargs = [plain(one) for one in args], {name: plain(one) for name, one in kwargs.items()}
    holder = kwargs if isinstance(place, str) else args
    holder[place] = holder[place].clone().requires_grad_()
    if place == 0 and call.name.endswith("_"):
        holder[place] = holder[place] * 1
    try:
        results = call.function(library)(*args, **kwargs)
    except Exception:
        return "refused"
    results = results if isinstance(results, (tuple, list)) else [results]
    return [one.requires_grad for one in results if isinstance(one, library.Tensor)]


@pytest.mark.filterwarnings("ignore")
def test_what_requires_grad():
    entries = [entry.split() for listed in KNOWN.values() for entry in listed.split(",")]
    known = {f"{name} {place}" for name, *at in entries for place in at}
    different = {
        name: (call, derived(torch, call, place), derived(plugrad, call, place))
        for name, calls in places().items()
        for call, place in calls
        if derived(torch, call, place) != derived(plugrad, call, place)
    }
    assert {name: seen for name, seen in different.items() if name not in known} == {}
    assert known <= set(different), "what agrees now must leave the list"
