"""What ops and layers return, as their samples show."""

from __future__ import annotations

import functools
import warnings

import numpy

import plugrad
from plugrad.testing.checks.guesses import build
from plugrad.testing.checks.layers import _trials
from plugrad.testing.samples import samples_of

ANY = "_t.Any"
_ENOUGH = 8  # samples of an op that are tried


def name_of_tuple(cls) -> str | None:
    """Return the name that an op's named tuple has in stubs; None for other classes, and for private fields."""
    if cls is None or not cls.__module__.endswith("return_types"):
        return None
    if any(field.startswith("_") for field in cls._fields):
        return None
    return cls.__name__


def described(value) -> str:
    """Return the type of a result, as stubs have it."""
    if isinstance(value, plugrad.Tensor):
        return "_p.Tensor"
    if isinstance(value, tuple):
        if name_of_tuple(type(value) if hasattr(value, "_fields") else None):
            return f"_r.{type(value).__name__}"
        return f"_b.tuple[{', '.join(map(described, value))}]"
    if isinstance(value, list):
        kinds = {described(item) for item in value}
        return f"_b.list[{kinds.pop() if len(kinds) == 1 else ANY}]"
    for cls in (plugrad.Size, plugrad.dtype, plugrad.device, plugrad.layout):
        if isinstance(value, cls):
            return f"_p.{cls.__name__}"
    return f"_b.{type(value).__name__}" if isinstance(value, (bool, int, float, complex, str)) else ANY


@functools.cache
def _measured(op) -> tuple:
    """Return pairs (parameters that a sample gives, type of its result)."""
    pairs = []
    with warnings.catch_warnings(), numpy.errstate(all="ignore"), plugrad.random.fork_rng():
        warnings.simplefilter("ignore")
        for sample in samples_of(op)[:_ENOUGH]:
            try:
                result = described(sample.call(op.function))
            except (TypeError, ValueError, RuntimeError, IndexError):  # not for this dtype
                continue
            given = frozenset((*op.positional[: len(sample.args)], *sample.kwargs))
            pairs.append((given, result))
    return tuple(pairs)


def _joined(results) -> str:
    """Return the type that a set of results have in common."""
    if len(results) == 1:
        return next(iter(results))
    if results and all(result.startswith("_b.tuple[") for result in results):
        kinds = {kind for result in results for kind in result[len("_b.tuple[") : -1].split(", ")}
        if len(kinds) == 1:
            return f"_b.tuple[{kinds.pop()}, ...]"
    return ANY


def result_of(op) -> str:
    """Return the type of an op's result; Any if samples give different ones, or there is none."""
    return _joined({result for _, result in _measured(op)})


def overloads_of(op) -> list[tuple]:
    """Return triples (parameter to be given or None, parameters left out, result) if one decides on the result."""
    free = [name for name in op.positional if name in op.defaults]
    if result_of(op) != ANY or not free:
        return []
    with_it = _joined({result for given, result in _measured(op) if free[0] in given})
    without = _joined({result for given, result in _measured(op) if free[0] not in given})
    return [] if ANY in (with_it, without) else [(free[0], (), with_it), (None, tuple(free), without)]


@functools.cache
def result_of_layer(cls) -> str:
    """Return the type of what a layer's call returns; Any if that differs, or nobody knows how to call it."""
    results = set()
    with warnings.catch_warnings(), numpy.errstate(all="ignore"), plugrad.random.fork_rng():
        warnings.simplefilter("ignore")
        try:
            for trial in _trials(cls, "cpu"):
                given = trial.given.copied()
                results.add(described(build(cls, trial)(*given.args, **given.kwargs)))
        except Exception:  # nobody said how to call it: what `plugrad check` reports
            return ANY
    return _joined(results)
