"""What each op can do, by trying: on every device and dtype, forward, backward, twice, and without data.

Nothing is read off declarations. Each cell of the matrix runs the op's samples, and says what came of it; whether
results are right is the business of the checks, not of this.
"""

from __future__ import annotations

import warnings

import plugrad
from plugrad.amp import policies
from plugrad.errors import describe
from plugrad.testing.calls import by_statement, call, leaves, of_tensors, place_of
from plugrad.testing.samples import Sample, samples_of
from plugrad.testing.tensors import gradients_of_sum, is_float, is_float_dtype, tensors_in

DTYPES = ("bool", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
TRIALS = ("call", "first", "second", "forward", "batched", "meta")
STATUSES = ("works", "fallback", "partly", "refused", "error", "not applicable", "no samples")
_ARRAY_LIBRARIES = ("numpy", "scipy", "cupy", "cupyx", "ml_dtypes")


class NotApplicable(Exception):
    """A trial has no meaning for a sample: nothing of it can have a gradient, or there is nothing to batch."""


def coverage(op, dtypes=DTYPES, devices=("cpu",)) -> list[dict]:
    """Return what an op can do: one row for each device and dtype.

    Args:
        op: the op record.
        dtypes: names of dtypes. A sample counts where at least one of its tensors has the dtype; where none has, the
            tensors of the samples are converted. Factories, which take no tensors, are asked for the dtype.
        devices: device types, of backends that are available.

    A row has `op`, `public` (its names; none for an op that only serves others), `family`, `provider`, `device`,
    `dtype`, `autocast` (its policy there, as `plugrad.amp.policies` has them), the number of `samples`, `cells`
    ({trial: one of STATUSES}) and `messages` ({trial: the first refusal or error, or why it does not apply}). The
    trials are the plain call, gradients, gradients of gradients, `func.jvp`, `func.vmap`, and the call on the meta
    device.

    A "refused" sample met a `raise` of plugrad or of a plugin; an "error" is an accident: an exception that Python or
    the array library raised by itself. A "fallback" ran on the CPU instead of its device. "partly" works for some.

    >>> from plugrad import registry
    >>> coverage(registry.op("sin"), ["float32"])[0]["cells"]["second"]
    'works'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_row(op, device, dtype) for device in devices for dtype in dtypes]


def _row(op, device, dtype) -> dict:
    row = {
        "op": op.qualname, "public": list(op.names), "family": op.family, "provider": op.provider.id, "device": device,
        "dtype": dtype, "autocast": policies.described(op, device),
    }  # fmt: skip
    cells, messages = dict.fromkeys(TRIALS, "no samples"), {}
    try:
        samples = _samples(op, getattr(plugrad, dtype), device)
    except Exception as error:  # the author's generator of samples
        samples, messages = [], dict.fromkeys(TRIALS, f"its samples can't be made: {describe(error)}")
        cells = dict.fromkeys(TRIALS, "error")
    tried = [_outcomes(op, sample, device) for sample in samples]
    for trial in TRIALS if tried else ():
        outcomes_of_trial = [outcomes[trial] for outcomes in tried if trial in outcomes]
        if not any(status == "not applicable" for status, _ in outcomes_of_trial):
            # A call that fails stands for what it prevents.
            outcomes_of_trial += [outcomes["call"] for outcomes in tried if trial not in outcomes]
        cells[trial], message = _summary(outcomes_of_trial)
        if message:
            messages[trial] = message
    return {**row, "samples": len(samples), "cells": cells, "messages": messages}


def _samples(op, dtype, device) -> list:
    """Return samples with tensors of a dtype; those of factories with that dtype asked for."""
    plain = samples_of(op)
    if plain and all(_makes_tensors(op, sample) for sample in plain):
        return [Sample(s.args, {**s.kwargs, "dtype": dtype, "device": device}, s.through) for s in plain]
    try:
        samples = [s for s in samples_of(op, dtype) if any(t.dtype is dtype for t in s.tensors())]
    except Exception:  # the generator of samples, or its interval of values, is not meant for this dtype
        samples = []
    # Samples that name their dtype themselves: its values in the other one.
    samples = samples or [_converted(sample, dtype) for sample in plain if sample.tensors()]
    # Moved, rather than made there: an author's samples may hold tensors of the CPU, and random numbers differ.
    return samples if device == "cpu" else [s.map(lambda t: _like(t, t.detach().to(device))) for s in samples]


def _like(tensor, other):
    return other.requires_grad_() if tensor.requires_grad else other


def _makes_tensors(op, sample) -> bool:
    """Whether a call takes no tensor, and can be told which dtype and device to make."""
    return not sample.tensors() and (op.runs_on == "nothing" or {"dtype", "device"} <= set(op.parameters))


def _converted(sample, dtype):
    """Return a sample with its floats, or else its first tensor, in another dtype."""
    tensors = sample.tensors()
    floats = [t for t in tensors if is_float(t)] or tensors[:1]
    grad = is_float_dtype(dtype)

    def convert(tensor):
        if not any(tensor is one for one in floats):
            return tensor
        other = tensor.detach().to(dtype)
        return other.requires_grad_() if grad and (tensor.requires_grad or not is_float(tensor)) else other

    return sample.map(convert)


def _outcomes(op, sample, device) -> dict:
    """Return {trial: (status, message)} of one sample; without what a call that fails prevents."""
    outcomes = {"call": _try(_call, op, sample, device)}
    works = outcomes["call"][0] in ("works", "fallback")
    for trial, function in _FURTHER.items():
        if works or trial in ("first", "second", "forward") and not leaves(sample):
            outcomes[trial] = _try(function, op, sample, device)
    return outcomes


def _try(function, op, sample, device) -> tuple:
    before = _fallbacks(device)
    try:
        function(op, sample)
    except NotApplicable as reason:
        return "not applicable", str(reason)
    except Exception as error:  # whatever comes is what this is to find out
        return "refused" if _deliberate(error) else "error", describe(error)
    return ("works" if _fallbacks(device) == before else "fallback"), ""


def _deliberate(error) -> bool:
    """Whether an exception was raised by a `raise` of plugrad or a plugin, not by Python or an array library."""
    if isinstance(error, NotImplementedError):
        return True
    error = error.__cause__ or error
    if place_of(error).tb_frame.f_globals.get("__name__", "").partition(".")[0] in _ARRAY_LIBRARIES:
        return False
    return by_statement(error)


def _fallbacks(device) -> int:
    """Return how many calls on a device have run on the CPU instead."""
    return sum(count for (_, place), count in plugrad.backends.fallbacks().items() if place == device)


def _summary(outcomes) -> tuple:
    """Return the status of a cell and the message of the worst of its samples."""
    statuses = {status for status, _ in outcomes}
    told = {status: message for status, message in reversed(outcomes)}
    applied = statuses - {"not applicable"}
    if not applied:
        return "not applicable", told["not applicable"]
    if "error" in applied:
        return "error", told["error"]
    if applied == {"refused"}:
        return "refused", told["refused"]
    if "refused" in applied:
        return "partly", told["refused"]
    return ("fallback" if "fallback" in applied else "works"), ""


# ---------------------------------------------------------------------------------------------------- the trials


def _call(op, sample):
    call(op, sample.detached())


def _recorded(op, sample):
    """Return the inputs and outputs between which there are gradients."""
    if not leaves(sample):
        raise NotApplicable("no input of such a dtype has gradients")
    sample = sample.map(lambda t: t.detach().clone().requires_grad_() if t.requires_grad else t)
    results = tensors_in(call(op, sample))
    outputs = [y for y in results if y.requires_grad]
    if not outputs:
        floats = any(is_float(y) for y in results)
        raise NotApplicable(
            "declared to have no gradient" if floats and op.undifferentiable
            else "no output depends on the inputs differentiably" if floats
            else "its results are not floats"
        )  # fmt: skip
    return leaves(sample), outputs


def _first(op, sample):
    inputs, outputs = _recorded(op, sample)
    gradients_of_sum(outputs, inputs)


def _second(op, sample):
    inputs, outputs = _recorded(op, sample)
    weights = [plugrad.ones_like(y).requires_grad_() for y in outputs]
    grads = plugrad.autograd.grad(outputs, inputs, weights, create_graph=True, allow_unused=True)
    grads = [g for g in grads if g is not None and g.requires_grad]
    if grads:
        gradients_of_sum(grads, [*inputs, *weights])


def _forward(op, sample):
    _recorded(op, sample)
    function, inputs = of_tensors(op, sample, lambda t: t.requires_grad)
    primals = tuple(t.detach() for t in inputs)
    tangents = tuple(plugrad.ones_like(t) for t in primals)
    plugrad.func.jvp(lambda *values: tuple(filter(is_float, function(*values))), primals, tangents)


def _batched(op, sample):
    function, inputs = of_tensors(op, sample)
    if not inputs:
        raise NotApplicable("it takes no tensor")
    plugrad.func.vmap(function, randomness="same")(*(plugrad.stack([t, t]) for t in (t.detach() for t in inputs)))


def _meta(op, sample):
    moved = sample.map(lambda t: t.detach().to("meta"))
    if _makes_tensors(op, sample):
        moved.kwargs["device"] = "meta"
    call(op, moved)


_FURTHER = {"first": _first, "second": _second, "forward": _forward, "batched": _batched, "meta": _meta}
