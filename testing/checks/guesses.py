"""How to construct and call what declares no samples: by the field's usual names of arguments, and by trying shapes.

A class says it itself by a static method (or class method) `samples(make)` that yields pairs: the constructor's
arguments, and those of the call; each a tuple, one value, or ``make.args(...)``::

    class Scale(Module):
        @staticmethod
        def samples(make):
            yield 4, make(2, 4)                               # Scale(4)(x)
            yield make.args(4, bias=False), (make(4), make(4))  # Scale(4, bias=False)(x, y)

An optimizer's `samples` yields options, a schedule's the arguments behind the optimizer, an initialiser's (a function
with an attribute `samples`) those of the call.
"""

from __future__ import annotations

import inspect

import plugrad
from plugrad.testing.calls import Skip
from plugrad.testing.samples import Maker, Sample, as_sample, on_device, samples_of

USUAL = {  # required arguments of constructors, by name
    "in_features": 4, "out_features": 3, "in1_features": 4, "in2_features": 4, "num_features": 4, "in_channels": 4,
    "out_channels": 6, "channels": 4, "num_channels": 4, "num_groups": 2, "groups": 2, "kernel_size": 2,
    "num_embeddings": 5, "embedding_dim": 3, "input_size": 4, "hidden_size": 3, "normalized_shape": 4, "size": 4,
    "embed_dim": 4, "num_heads": 2, "d_model": 4, "nhead": 2, "num_layers": 1, "output_size": 2, "padding": 1,
    "upscale_factor": 2, "downscale_factor": 2, "threshold": 0.1, "value": 0.5, "dim": 4, "features": 4, "n": 4,
    "lr": 0.01, "step_size": 2, "gamma": 0.5, "milestones": (2, 4), "T_max": 5, "T_0": 3, "max_lr": 0.5, "base_lr": 0.1,
    "total_steps": 20, "total_iters": 4, "warmup_steps": 3, "warmup": 3, "num_warmup_steps": 3, "warmup_epochs": 3,
    "num_training_steps": 20, "max_epochs": 20, "epochs": 20, "steps": 20, "factor": 0.5, "power": 2.0,
    "val": 0.5, "std": 0.5, "mean": 0.1, "gain": 1.5, "sparsity": 0.5, "a": -0.5, "b": 0.5, "p": 0.25, "scale": 0.5,
    "alpha": 0.5, "beta": 0.5, "nonlinearity": "relu",
    "num_classes": 3, "norm_type": 2, "width": 4, "hidden": 4, "input_dim": 4, "output_dim": 3, "hidden_dim": 4,
}  # fmt: skip
SHAPES = ((2, 4), (2, 4, 6), (2, 4, 6, 6), (1, 4, 4, 4, 4), (3, 2, 4), (4,), (1, 8, 4, 4), (3, 4, 2))


class Trial:
    """The arguments to construct a Module with, and those to call it with."""

    __slots__ = ("construct", "given")

    def __init__(self, construct: Sample, given: Sample):
        self.construct, self.given = construct, given

    def __repr__(self):
        return f"({str(self.construct)[7:-1]})({str(self.given)[7:-1]})"


class NoGuess(Exception):
    """Raised, with the reason, where nothing is declared and nothing could be guessed."""


def or_skip(choose, *arguments):
    """Return ``choose(*arguments)``; skip where that is NoGuess: the check "samples" reports it."""
    try:
        return choose(*arguments)
    except NoGuess as reason:
        raise Skip(f"nothing to check it with: {reason}") from None


def or_fail(advice, choose, *arguments):
    """Return ``choose(*arguments)``; AssertionError with advice where that is NoGuess."""
    try:
        return choose(*arguments)
    except NoGuess as reason:
        raise AssertionError(f"nothing to check it with: {reason}; {advice}") from None


def declared(value):
    """Return the `samples` of a class or function, None where it has none."""
    samples = getattr(value, "samples", None)
    return samples if callable(samples) and (inspect.isfunction(samples) or inspect.ismethod(samples)) else None


def required(function, skip=0) -> list:
    """Return the names of the parameters without default, without the first `skip`."""
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return [p.name for p in plain if p.default is p.empty]


def options(function, skip=0) -> Sample:
    """Return usual values of the arguments that have no default; NoGuess names the first without any."""
    names = required(function, skip)
    strange = [name for name in names if name not in USUAL]
    if strange:
        raise NoGuess(f"its argument {strange[0]!r} has no default")
    return Sample((), {name: USUAL[name] for name in names})


def trials(cls, device="cpu") -> list:
    """Return how to construct and call a Module: as it declares, or as usual. Raises NoGuess."""
    make = Maker(cls.__name__, device=device)
    source = declared(cls)
    if source is not None:
        return [Trial(as_sample(one), on_device(as_sample(given), device)) for one, given in source(make)]
    if cls.forward is plugrad.nn.Module.forward:
        raise NoGuess("it has no `forward`, and is there for others to derive from")
    construct, reason = options(cls), None
    for given in _inputs(make, len(required(cls.forward, 1))):
        trial = Trial(construct, given)
        try:
            build(cls, trial, device)(*given.args)
        except (RuntimeError, ValueError, IndexError, TypeError, Warning) as error:
            reason = reason or f"{type(error).__name__}: {error}"
        else:
            return [trial]
    raise NoGuess(f"no usual shape of input suits it ({reason})")


def trials_of_op(cls, device) -> list:
    """Return the samples of the op behind a derived loss, divided into the constructor's arguments and the call's."""
    options, chosen = set(inspect.signature(cls).parameters), []
    for sample in samples_of(cls.op, device=device):
        if sample.through is not None:
            continue
        named = {**dict(zip(cls.op.parameters, sample.args, strict=False)), **sample.kwargs}
        construct = {name: value for name, value in named.items() if name in options}
        given = {name: value for name, value in named.items() if name not in options}
        tensors = [name for name in cls.op.parameters if name in given]
        chosen.append(Trial(Sample((), construct), Sample([given[name] for name in tensors])))
    if not chosen:
        raise NoGuess(f"its op {cls.op.name!r} has no samples")
    return chosen


def _inputs(make, count):
    """Yield inputs that a `forward` of `count` tensors may take: floats of several shapes, and indices."""
    for shape in SHAPES:
        yield Sample(tuple(make(*shape) for _ in range(count or 1)))
    yield Sample(tuple(make.ints(2, 3) for _ in range(count or 1)))


def build(cls, trial, device="cpu", seed=0, **more):
    """Construct a Module for a trial, in float64, its parameters seeded."""
    plugrad.manual_seed(seed)
    module = cls(*trial.construct.args, **{**trial.construct.kwargs, **more})
    module = module.double().to(device)
    if hasattr(module, "has_uninitialized_params"):
        plugrad.nn.lazy.materialize(module, *trial.given.args, **trial.given.kwargs)
    return module
