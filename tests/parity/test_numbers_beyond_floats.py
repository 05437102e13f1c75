"""Numbers that only a double can hold, for every argument of every op that is a number: refused where PyTorch does."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from plugrad import registry
from support import twins

OPS = twins.public_ops()
FAR = 1e300, -1e300, 1e39, -1e39, 1e300j
DTYPES = "float32", "float16", "bfloat16", "int32", "float64", "complex64"

DIFFERENT = {
    "local_response_norm alpha": "PyTorch goes on in complex numbers",
    "local_response_norm beta": "PyTorch goes on in complex numbers",
    "local_response_norm k": "PyTorch goes on in complex numbers",
}

pytestmark = pytest.mark.usefixtures("one_thread")


def places(op, args, kwargs) -> list:
    """Return (parameter, its place in a call) for the parameters of an op that may be numbers."""
    found = []
    for position, name in enumerate(op.parameters):
        kind = op.known_kinds.get(name)
        words = "" if kind is None else kind.words
        given = position < len(args)
        value = args[position] if given else kwargs.get(name, op.defaults.get(name))
        if type(value) is not bool and (type(value) is float or "Number" in words or "float" in words):
            found.append((name, position if given else name))
    return found


def refused(library, dotted, sample, dtype, place, number) -> str:
    """Return whether a call with a number in one place is taken, refused as one that does not fit, or otherwise."""

    def change(array, requires_grad):
        tensor = library.from_numpy(array)
        return tensor.to(getattr(library, dtype)) if array.dtype.kind == "f" else tensor

    args, kwargs = twins.convert(library, (list(sample.args), dict(sample.kwargs)), change)
    (kwargs if isinstance(place, str) else args)[place] = number
    try:
        twins.lookup(library, dotted)(*args, **kwargs)
    except RuntimeError as error:
        return "does not fit" if "cannot be converted to type" in str(error) else "otherwise"
    except Exception:
        return "otherwise"
    return "taken"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
def test_numbers_that_do_not_fit_are_refused_as_in_pytorch(name):
    op, dotted, found = registry.ops[name], OPS[name], set()
    for sample in twins.samples(name)[:6]:
        for parameter, place in places(op, sample.args, sample.kwargs):
            for dtype in DTYPES:
                for number in FAR:
                    theirs = refused(torch, dotted, sample, dtype, place, number)
                    ours = refused(plugrad, dotted, sample, dtype, place, number)
                    if theirs != ours and "otherwise" not in (theirs, ours):
                        found.add((f"{name} {parameter}", f"{dtype} {number:g}: {theirs}, here {ours}"))
    assert not {entry for entry in found if entry[0] not in DIFFERENT}
    assert {entry for entry, _ in found} == {entry for entry in DIFFERENT if entry.split()[0] == name}
