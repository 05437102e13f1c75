"""Checks of initialisers: functions that fill a tensor in place."""

from __future__ import annotations

import inspect
import warnings

import plugrad
from plugrad.testing.calls import same_bits
from plugrad.testing.checks import documents
from plugrad.testing.checks.guesses import NoGuess, declared, options, or_fail, or_skip
from plugrad.testing.samples import Maker, Sample, as_sample

SHAPES = ((6, 4), (4, 3, 3), (5,))


def checks(function) -> dict:
    """Return the checks of an initialiser by name; of `calculate_gain`, which takes no tensor, those of functions."""
    first = next(iter(inspect.signature(function).parameters), None)
    return documents.checks(function) | (CHECKS if first in ("tensor", "input") or declared(function) else {})


def _samples(function) -> list:
    """Return the calls to check: declared, or a tensor of the first usual shape that suits, and usual arguments."""
    source = declared(function)
    if source is not None:
        return [as_sample(given) for given in source(Maker(function.__name__))]
    more, reason = options(function, 1), None
    for shape in SHAPES:
        given = Sample((plugrad.zeros(shape, dtype=plugrad.float64), *more.args), more.kwargs)
        try:
            fill(function, given)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            reason = reason or f"{type(error).__name__}: {error}"
        else:
            return [given]
    raise NoGuess(f"no usual shape of tensor suits it ({reason})")


def each(function) -> list:
    """Return the calls to check; skip where there are none: the check "samples" says so."""
    return or_skip(_samples, function)


def fill(function, given, dtype=plugrad.float64, seed=0, strided=False):
    """Call an initialiser on a fresh tensor of sevens that requires grad; return (tensor, result)."""
    plugrad.manual_seed(seed)
    first, *rest = given.args
    shape = tuple(first.shape)
    tensor = plugrad.full(shape[::-1] if strided else shape, 7.0, dtype=dtype, device=first.device)
    tensor = (tensor.permute(tuple(range(tensor.ndim - 1, -1, -1))) if strided else tensor).detach().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)  # old names of others
        return tensor, function(tensor, *rest, **given.kwargs)


def has_samples(function, device):
    """It runs on a tensor."""
    advice = (
        f"set `{function.__name__}.samples` to a generator function of `make` that yields the arguments of calls, such "
        "as make.args(make(3, 4), 0.5)"
    )
    or_fail(advice, _samples, function)


def in_place(function, device):
    """It returns the tensor that it filled, records nothing, and keeps dtype and shape."""
    for given in each(function):
        for dtype, strided in ((plugrad.float64, False), (plugrad.float32, False), (plugrad.float64, True)):
            tensor, result = fill(function, given, dtype, strided=strided)
            label = f"call {given}" + (", the tensor transposed in memory" if strided else "")
            assert result is tensor, f"{label}: it does not return the tensor that it was given"
            assert tensor.is_leaf and tensor.grad_fn is None, f"{label}: it records a gradient; write under no_grad"
            assert tensor.requires_grad, f"{label}: the tensor no longer requires grad"
            with plugrad.no_grad():
                plain = given.map(lambda t: t.detach().clone())
            plain.call(function)
            assert not plain.args[0].requires_grad, f"{label}: a tensor that did not require grad does so afterwards"
            assert tensor.dtype is dtype, f"{label}: the dtype was {dtype} and is {tensor.dtype}"
            assert tensor.shape == given.args[0].shape, f"{label}: the shape is {tuple(tensor.shape)}"
            assert bool(tensor.detach().isfinite().all()), f"{label}: values are not finite"
            assert not bool((tensor.detach() == 7.0).any()), f"{label}: not all elements were written"


def seeded(function, device):
    """The same seed gives the same values; a generator of its own leaves plugrad's alone."""
    for given in each(function):
        one, other = fill(function, given)[0], fill(function, given)[0]
        assert same_bits(one, other), f"call {given}: two calls with one seed differ"
        if "generator" not in inspect.signature(function).parameters:
            continue
        draws = []
        for _ in range(2):
            own = Sample(given.args, {**given.kwargs, "generator": plugrad.Generator().manual_seed(3)})
            tensor, _ = fill(function, own, seed=len(draws))
            draws.append((tensor, plugrad.rand(2)))
        assert same_bits(draws[0][0], draws[1][0]), f"call {given}, argument 'generator': its seed is not what counts"
        plugrad.manual_seed(0)
        assert same_bits(draws[0][1], plugrad.rand(2)), f"call {given}, argument 'generator': it also draws from others"


CHECKS = {"samples": has_samples, "in place": in_place, "seed": seeded}
