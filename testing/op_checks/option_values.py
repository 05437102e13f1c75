"""Other values that an op's options may have, seen from those of a sample and from the kinds that are declared."""

from __future__ import annotations

import re

import plugrad
from plugrad.testing.calls import each
from plugrad.testing.samples import Sample
from plugrad.testing.tensors import is_float, tensors_in

INSTEAD = (-1.3, 0.3, -1, 2)  # of None, where an option may be a number


def has_options(op) -> bool:
    """Whether an op has an option that may be set otherwise: a parameter that its samples give no tensor."""
    return bool(op.defaults) or len(op.parameters) > max(getattr(op, "arity", 1), 1)


def varied(op, device):
    """Yield (label, sample) with one option at another value; of two samples, of which one has most dimensions."""
    samples = [sample for _, sample in each(op, device) if any(map(is_float, tensors_in(sample.args)))]
    chosen = [*samples[:1], *sorted(samples, key=_dimensions)[-1:]]
    for sample in {id(sample): sample for sample in chosen}.values():
        given = {**op.defaults, **dict(zip(op.positional, sample.args, strict=False)), **sample.kwargs}
        for name in given if op.names else op.defaults:  # what has no public name gets what its users have checked
            value = given[name]
            if name == op.variadic or (name not in op.keyword_only and name not in op.positional):
                continue
            for other in _others(op, name, value, sample):
                yield f"{sample} with argument {name!r}={other!r}", _changed(op, sample, name, other)


def _dimensions(sample) -> int:
    return max((t.ndim for t in tensors_in(sample.args)), default=0)


def _others(op, name, value, sample) -> list:
    """Return other values that an option may have: all that the kind of the parameter takes, if it has one."""
    first = next((t for t in sample.args if isinstance(t, plugrad.Tensor)), None)
    if name == "dim" and isinstance(value, (int, type(None))) and first is not None:
        several = [(0, 1), (-1, 0)] if op.reduces and first.ndim > 1 else []
        return [dim for dim in (*range(-first.ndim, first.ndim), *several) if dim != value]
    kind = op.known_kinds.get(name)
    candidates = _beside(op, name, value, kind)
    return [other for other in dict.fromkeys(candidates) if other != value and (kind is None or kind.fits(other))]


def _beside(op, name, value, kind) -> list:
    """Return values beside one: on both sides of 0, and so for each number of a tuple.

    Of ops of no family a bool may mean anything: that a matrix is symmetric, or a gradient other than the slope. So may
    their tuples, which say sizes, what is None, and an int that selects something, such as a row that is left alone.
    """
    family = op.broadcasts or op.reduces
    if isinstance(value, bool):
        return [not value] if family else []
    if isinstance(value, int):
        return [value + 1, value - 1, -value] if family or (op.names and not re.search("idx|index", name)) else []
    if isinstance(value, float):
        return ([0.75 * value, -value, 2.25 * value] if value else [0.25, -0.25])[: None if op.names else 1]
    if family and isinstance(value, tuple) and value and all(isinstance(item, (int, float)) for item in value):
        return [tuple(side) for side in zip(*[_beside(op, name, item, kind) for item in value], strict=False)]
    return list(INSTEAD) if family and value is None and kind is not None else []


def _changed(op, sample, name, value) -> Sample:
    args, kwargs = list(sample.args), dict(sample.kwargs)
    place = op.positional.index(name) if name in op.positional else len(args)
    if place < len(args):
        args[place] = value
    else:
        kwargs[name] = value
    return Sample(args, kwargs, sample.through)
