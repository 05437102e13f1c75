"""An op's reference: the function of another library that gives its values."""

from __future__ import annotations

import importlib

import numpy

from plugrad.testing.calls import Skip, agree, call
from plugrad.testing.samples import Sample
from plugrad.testing.tensors import map_tensors, tensors_in, to_numpy


def reference(ref):
    """Return the function that a reference names ('numpy.add'); skip where its module is not installed."""
    if ref is None:
        raise Skip("no reference")
    if callable(ref):
        return ref
    parts = ref.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            value = getattr(value, name)
        return value
    raise Skip(f"{parts[0]} is not installed")


def against_reference(op, function, sample, label):
    """Assert that an op gives what a reference gives for a sample."""
    given = sample if callable(op.ref) else _renamed(op, sample)
    args, kwargs = map_tensors(given.args, to_numpy), map_tensors(given.kwargs, to_numpy)
    with numpy.errstate(all="ignore"):
        expected = function(*args, **kwargs)
    results = tensors_in(call(op, sample))
    wanted = list(expected) if isinstance(expected, tuple) else [expected]
    assert len(results) == len(wanted), f"{label}: {len(results)} results, the reference gives {len(wanted)}"
    for result, right in zip(results, wanted, strict=True):
        agree(to_numpy(result), numpy.asarray(right), label, rtol=1e-9, atol=1e-11, check_dtype=False)


def _renamed(op, sample):
    """Return a sample whose `dim` and `keepdim` are keywords, by the names of NumPy and SciPy."""
    names = {"dim": "axis", "keepdim": "keepdims"}
    named = dict(zip(op.parameters, sample.args, strict=False))
    args = [item for name, item in named.items() if name not in names]
    kwargs = {names[name]: item for name, item in named.items() if name in names}
    kwargs.update((names.get(name, name), item) for name, item in sample.kwargs.items())
    if isinstance(kwargs.get("axis"), list):
        kwargs["axis"] = tuple(kwargs["axis"])
    return Sample(args, kwargs)
