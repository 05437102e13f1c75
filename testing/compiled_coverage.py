"""Which layers, losses and optimizers a compiler of arrays captures, measured, and of the others why not."""

from __future__ import annotations

import copy
import inspect
import warnings

import plugrad
from plugrad.catalog import rows as catalog
from plugrad.testing.calls import Skip, agree
from plugrad.testing.checks import layers
from plugrad.testing.checks import optimizer_steps as optimizers
from plugrad.testing.checks.guesses import build

TRIALS = 4  # ways to construct and call a layer that are tried


def rows(backend: str, names=()):
    """Yield {"name", "kind", "compiled", "why"} for all that there is, third parties' too, or for some by name.

    `compiled` is "works", "op by op" where a program can't be captured, for which `why` is the reason, "wrong" where it
    gives something else than it does uncompiled, "error" where it can't be called so, or "no samples".
    """
    catalog.load_everything()
    for kind, measure in (("layers", _layer), ("losses", _loss), ("optimizers", _optimizer)):
        for entry in catalog.entries(kind):
            if names and entry["name"] not in names and entry["public"] not in names:
                continue
            compiled, why = _outcome(measure, entry, backend)
            yield {"name": entry["public"], "kind": kind, "compiled": compiled, "why": why}


def _outcome(measure, entry, backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            refusals = list(measure(entry["public"], backend))
        except Skip as reason:
            return "no samples", str(reason)
        except AssertionError as error:
            return "wrong", str(error)
        except Exception as error:  # uncompiled it is called in the same way, so whatever it raises is told
            return "error", f"{type(error).__name__}: {error}"
    refused = [reason for reason in refusals if reason is not None]
    if not refusals:
        return "no samples", ""
    return ("op by op", str(refused[0])) if refused else ("works", "")


def _found(public):
    item = plugrad
    for name in public.split("."):
        item = getattr(item, name)
    return item


def _layer(public, backend):
    """Yield for each way to call a layer why it is not captured, or None."""
    cls = _found(public)
    if cls.forward is plugrad.nn.Module.forward:
        raise Skip("it has no forward")
    for trial in layers._trials(cls, "cpu")[:TRIALS]:
        module = build(cls, trial, "cpu")
        twin = copy.deepcopy(module)
        compiled = plugrad.compile(twin, backend=backend)
        for _ in range(2):
            expected, actual = layers.run(module, trial), layers.run(compiled, trial)
            for one, other in zip(actual, expected, strict=True):
                agree(one.detach(), other.detach(), f"{public}{trial}, compiled against uncompiled")
        yield _refusal(compiled)


def _loss(public, backend):
    name = public.rpartition(".")[2]
    cls = getattr(plugrad.nn, name, None)
    if cls is not None:
        yield from _layer(f"nn.{name}", backend)


def _optimizer(public, backend):
    """Yield for each set of options why a step of training with the optimizer is not captured, or None."""
    cls = _found(public)
    sizes = optimizers.sizes_of(cls)
    if not sizes:
        raise Skip("it takes no parameters that are made here")
    if "closure" in inspect.signature(cls.step).parameters and not _is_optional(cls.step, "closure"):
        raise Skip("its step takes a closure, which may run any number of times")
    for given in optimizers.options_of(cls):
        ours, theirs = optimizers.parameters(sizes=sizes), optimizers.parameters(sizes=sizes)
        run, compiled = _steps(cls, given, ours), plugrad.compile(_steps(cls, given, theirs), backend=backend)
        for _ in range(3):
            run(), compiled()
            for one, other in zip(theirs, ours, strict=True):
                agree(one.detach(), other.detach(), f"{public}{given}, compiled against uncompiled")
        yield _refusal(compiled)


def _is_optional(function, name) -> bool:
    return inspect.signature(function).parameters[name].default is not inspect.Parameter.empty


def _steps(cls, given, tensors):
    optimizer = cls(tensors, *given.args, **given.kwargs)
    weights = [plugrad.linspace(0.5, 1.5, max(t.numel(), 1), dtype=t.dtype).reshape(t.shape) for t in tensors]

    def step():
        optimizer.zero_grad()
        loss = sum([(weight * (t - 0.25) ** 2).sum() for t, weight in zip(tensors, weights)])
        loss.backward()
        optimizer.step()
        return loss.detach()

    step.__module__ = "program"  # a user's: what functions of plugrad hold is not theirs to change, and not watched
    return step


def _refusal(compiled):
    arrays = compiled._compiled.arrays
    return "a compiler that captures nothing" if arrays is None else arrays.refused
