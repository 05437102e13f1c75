"""Bugs at ranks, options, rates and closures that no sample shows, for tests/cli/test_check.py."""

from __future__ import annotations

import plugrad
from plugrad.extend import Module, Parameter, keep_dims, kernel_for, op, unary
from support.seeded_bugs import optimizer
from support.seeded_ops import bug
from support.seeded_proofs import Halving, Stepping, stepping

# ---------------------------------------------------------------------------------------------------- ops


def row_sums(shape):
    """Return the op that sums along the last dimension, whose shape rule is `shape`."""

    @op(complex=False)
    def row_sums(xp, input):
        """The sum along the last dimension."""
        return input.sum(axis=-1)

    row_sums.vjp(lambda F, g, input_shape: F.expand(keep_dims(F, g, input_shape, -1, False), input_shape))
    row_sums.meta(lambda input: (shape(input), input.dtype))
    row_sums.samples(lambda make: iter([make(3, 4)]))
    return row_sums


@bug("ranks")
def a_shape_rule_for_two_dimensions():
    return row_sums(lambda input: input.shape[:1])


@bug("ranks")
def a_shape_rule_that_breaks_off_at_three_dimensions():
    def shape(input):
        rows, _ = input.shape
        return (rows,)

    return row_sums(shape)


@bug("ranks", "input")
def a_gradient_for_two_dimensions():
    record = row_sums(lambda input: input.shape[:-1])
    record.formulas.clear()
    record.vjp(lambda F, g, input_shape: F.expand(F.reshape(g, (*g.shape, 1)), input_shape) * (3 - len(input_shape)))
    return record


@bug("parity", kind="kernels")
def a_kernel_for_the_cpu_of_another_function():
    return kernel_for("tanh", "cpu")(lambda xp, input: xp.tanh(input) * (1 + 1e-6))


@bug("options", "slope")
def a_gradient_for_positive_slopes():
    @unary(complex=False)
    def bent(xp, input, slope=0.5):
        """The input, below zero times a slope."""
        return xp.where(input > 0, input, slope * input)

    bent.vjp(lambda F, g, input, slope: F.where(input > 0, g, abs(slope) * g))
    return bent


@bug("options", "shift")
def a_gradient_for_shifts_to_the_right():
    @op(like="input", complex=False)
    def shifted(xp, input, shift):
        """The elements moved along the last dimension, zeros behind them."""
        result = xp.zeros_like(input)
        if shift >= 0:
            result[..., shift:] = input[..., : input.shape[-1] - shift]
        else:
            result[..., :shift] = input[..., -shift:]
        return result

    def formula(F, g, shift):
        width = g.shape[-1]
        moved = F.narrow(g, -1, abs(shift), width - abs(shift))
        return F.cat([moved, F.zeros_like(F.narrow(g, -1, 0, abs(shift)))], -1)

    shifted.vjp(formula)
    shifted.samples(lambda make: iter([(make(3, 4), 1)]))
    return shifted


@bug("options", "least")
def a_gradient_without_a_bound_that_is_given():
    @unary(complex=False, kinds={"least": "float?"})
    def bounded(xp, input, least=None):
        """The input, and nowhere less than a bound."""
        return input + 0 if least is None else xp.maximum(input, least)

    bounded.vjp(lambda F, g: g)
    return bounded


# ---------------------------------------------------------------------------------------------------- optimizers


@bug("rates", "lr", kind="optimizers")
def the_first_rate_kept_for_good():
    def update(self, xp, p, g, state, group):
        p -= state["rate"] * g

    return optimizer(update=update, slots=lambda self, group: {"rate": group["lr"]}, elementwise=False)


@bug("rates", "lr", kind="optimizers")
def a_rate_that_the_class_holds():
    def move(self, group):
        for p in group["params"]:
            if p.grad is not None:
                p.sub_(0.1 * p.grad)

    return stepping("Fixed", move)


@bug("instances", "lr", kind="optimizers")
def a_rate_that_the_class_is_given():
    class Shared(Stepping):
        __doc__ = Stepping.__doc__

        def __init__(self, params, lr=0.1):
            super().__init__(params, lr)
            Shared.rate = lr

        def move(self, group):
            """Move the parameters of a group."""
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(Shared.rate * p.grad)

    return Shared


@bug("closure", kind="optimizers")
def two_updates_where_there_is_a_closure():
    class Twice(Stepping):
        __doc__ = Stepping.__doc__

        def step(self, closure=None):
            """Make one step; return the loss of the closure."""
            loss = super().step(closure)
            if closure is not None:
                super().step()
            return loss

    return Twice


@bug("instances", "factor", kind="schedulers")
def a_factor_that_the_class_is_given():
    class Shared(Halving):
        __doc__ = Halving.__doc__

        def __init__(self, optimizer, factor=0.5):
            Shared.factor = factor
            super().__init__(optimizer)

        def get_lr(self):
            return [base * Shared.factor**self.last_epoch for base in self.base_lrs]

    return Shared


# ---------------------------------------------------------------------------------------------------- layers


@bug("instances", "factor", kind="layers")
def an_option_that_the_class_is_given():
    class Seeded(Module):
        """The input, weighed and scaled.

        Args:
            num_features: how many.
            factor: by which all is scaled.
            device, dtype: of the weight.
        """

        def __init__(self, num_features, factor=2.0, device=None, dtype=None):
            super().__init__()
            Seeded.factor = factor
            self.weight = Parameter(plugrad.ones(num_features, device=device, dtype=dtype))

        def forward(self, input):
            return self.factor * input * self.weight

    return Seeded


@bug("instances", "factor", kind="layers")
def an_option_read_from_the_class():
    class Seeded(Module):
        """The input, weighed and scaled.

        Args:
            num_features: how many.
            factor: by which all is scaled.
            device, dtype: of the weight.
        """

        factor = 2.0

        def __init__(self, num_features, factor=2.0, device=None, dtype=None):
            super().__init__()
            self.weight = Parameter(plugrad.ones(num_features, device=device, dtype=dtype))

        def forward(self, input):
            return self.factor * input * self.weight

    return Seeded
