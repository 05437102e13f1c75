"""A plugin as it was written for version 1 of the contract: kept as it is, so that it goes on working."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.extend import (
    Backend,
    LRScheduler,
    Module,
    Op,
    Optimizer,
    collect,
    composite,
    hookimpl,
    kernel_for,
    loss,
    loss_modules,
    unary,
)  # fmt: skip

plugrad_api = (1, 1)


@unary()
def cube1(xp, input):
    """Cube of each element."""
    return input * input * input


@cube1.vjp
def cube1_vjp(F, g, input):
    return 3 * g * input * input


@loss(module="CubicLoss1")
@composite(at=("nn.functional.cubic_loss1",))
def cubic_loss1(F, input, target, *, reduction="mean"):
    """Mean cube of the absolute differences."""
    values = F.abs(input - target) ** 3
    return values if reduction == "none" else F.mean(values) if reduction == "mean" else F.sum(values)


@cubic_loss1.samples
def cubic_loss1_samples(make):
    yield make(3, 4), make(3, 4)


@kernel_for("sinc", "golden1")
def sinc_golden(xp, input):
    return xp.sinc(input) + 0


class Cube1(Module):
    """Cube of each element."""

    def forward(self, input):
        return plugrad.cube1(input)


class Sign1(Optimizer):
    """Steps along the sign of the gradient."""

    elementwise = True

    def __init__(self, params, lr=1e-2):
        self.nonnegative(lr=lr)
        super().__init__(params, self.options(locals()))

    def update(self, xp, p, g, state, group):
        p -= group["lr"] * xp.sign(g)


class Halving1(LRScheduler):
    """Half of the rate at every step."""

    def get_lr(self):
        return [rate * 0.5**self.last_epoch for rate in self.base_lrs]


def sevens1_(tensor):
    """Fill a tensor with sevens."""
    with plugrad.no_grad():
        return tensor.fill_(7)


class golden_array(numpy.ndarray):
    pass


class Golden1(Backend):
    """NumPy under another name."""

    name = "golden1"
    xp = numpy
    array_type = golden_array

    def from_numpy(self, array, index):
        return numpy.array(array).view(golden_array)

    def to_numpy(self, array):
        return numpy.array(array)


def plain1(graph, example_inputs):
    """Run the graph as it is."""
    return graph


@hookimpl
def plugrad_ops():
    return collect(Op, globals())


@hookimpl
def plugrad_losses():
    return loss_modules(globals())


@hookimpl
def plugrad_kernels():
    return [sinc_golden]


@hookimpl
def plugrad_layers():
    return [Cube1]


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())


@hookimpl
def plugrad_schedulers():
    return collect(LRScheduler, globals())


@hookimpl
def plugrad_inits():
    return [sevens1_]


@hookimpl
def plugrad_backends():
    return [Golden1]


@hookimpl
def plugrad_compilers():
    return [plain1]


@hookimpl
def plugrad_cli(app):
    @app.command()
    def golden1():
        """Say the version."""
        print("one")
