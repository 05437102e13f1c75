"""Checks of compilers: what `plugrad.compile(model, backend=NAME)` gives against the model itself."""

from __future__ import annotations

import copy
import warnings

import plugrad
from plugrad.testing.calls import agree
from plugrad.testing.checks import documents
from plugrad.testing.samples import Maker
from plugrad.testing.tensors import tensors_in


def checks(compiler) -> dict:
    """Return the checks of a compiler by name."""
    return documents.checks(compiler) | {f"model {name}": _check_of(name) for name in MODELS}


def _perceptron():
    return plugrad.nn.Sequential(plugrad.nn.Linear(4, 5), plugrad.nn.Tanh(), plugrad.nn.Linear(5, 4)).double()


def _branching():
    def function(x):
        return (x * x + x).sum() if float(x.sum()) > 0 else x.exp().mean()

    return function


def _several():
    def function(x):
        y = x @ x.transpose(-1, -2)
        return y.relu(), {"norm": y.norm(), "part": x[0]}

    return function


def _writing():
    def function(x):
        y = x.clone()
        y[0] *= 2
        y += 1
        return y.sigmoid()

    return function


def _optional():
    def function(x, *, scale=1.0, shift=None):
        return x * scale if shift is None else x * scale + shift

    return function


def _normalising():
    return plugrad.nn.Sequential(plugrad.nn.Linear(4, 5), plugrad.nn.BatchNorm1d(5)).double()


MODELS = {
    "perceptron": _perceptron, "normalising": _normalising, "branching": _branching, "several results": _several,
    "writing": _writing, "options": _optional,
}  # fmt: skip


def _check_of(name):
    def check(compiler, device):
        """Results and gradients are those of the model, for each input, of this shape or another."""
        plugrad.manual_seed(0)
        warnings.filterwarnings("ignore", "the compiler .* runs a program op by op")  # as it may, if it says so
        model = MODELS[name]()
        twin = copy.deepcopy(model)  # statistics move with each call
        compiled = plugrad.compile(twin, backend=compiler.__name__)
        for number, shape in enumerate(((3, 4), (3, 4), (2, 4))):
            for sign in (1, -1):
                if isinstance(model, plugrad.nn.Module):
                    assert twin.training is model.training, "the compiler changes the mode of the model"
                    _change(model, twin, number < 2)
                x = sign * Maker(f"compiled {number}", device=device)(*shape).detach().abs()
                options = {"scale": 2.5, "shift": -x} if name == "options" and number else {}
                expected, actual = _run(model, x, options), _run(compiled, x, options)
                for what, ones, others in zip(("result", "gradient"), actual, expected, strict=True):
                    assert len(ones) == len(others), f"input {number}: {len(ones)} {what}s, eagerly {len(others)}"
                    for one, other in zip(ones, others, strict=True):
                        agree(one, other, f"input {number} of shape {shape}, compiled against eager, {what}")

    return check


def _change(model, twin, training):
    """Change parameters and mode of both, as training and evaluation do; statistics may have moved by tracing."""
    with plugrad.no_grad():
        for p in model.parameters():
            p.mul_(1.25)
    twin.load_state_dict(model.state_dict())
    model.train(training), twin.train(training)


def _run(model, x, options):
    """Return the results for an input, and the gradients of it and of the model's parameters."""
    x = x.clone().requires_grad_()
    parameters = list(model.parameters()) if hasattr(model, "parameters") else []
    outputs = tensors_in(model(x, **options))
    total = sum((y * y).sum() for y in outputs)
    grads = plugrad.autograd.grad(total, [x, *parameters])
    return [y.detach() for y in outputs], list(grads)
