"""Bugs that samples alone do not show, for tests/cli/test_check.py: wrong later, elsewhere, or at other times."""

from __future__ import annotations

import time

import numpy

import plugrad
from plugrad.extend import LRScheduler, Module, Optimizer, Parameter, binary, op, unary
from support.seeded_ops import bug, general, right, wave

# ---------------------------------------------------------------------------------------------------- optimizers


class Stepping(Optimizer):
    """Gradient descent, on tensors; what subclasses do wrong is in `move`.

    Args:
        params: parameters or groups.
        lr: the rate.
    """

    def __init__(self, params, lr=0.1):
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        """Make one step; return the loss of the closure."""
        loss = None
        if closure is not None:
            with plugrad.enable_grad():
                loss = closure()
        with plugrad.no_grad():
            for group in self.param_groups:
                self.move(group)
        return loss

    def move(self, group):
        """Move the parameters of a group."""
        for p in group["params"]:
            if p.grad is not None:
                p.sub_(group["lr"] * p.grad)


def stepping(name, move):
    return type(name, (Stepping,), {"__doc__": Stepping.__doc__, "move": move})


@bug("descent", kind="optimizers")
def an_optimizer_that_stops_after_the_first_steps():
    def move(self, group):
        for p in group["params"]:
            state = self.state[p]
            state["step"] = state.get("step", 0) + 1
            if p.grad is not None and state["step"] <= 2:
                p.sub_(group["lr"] * p.grad)

    return stepping("Tired", move)


@bug("descent", kind="optimizers")
def an_optimizer_that_climbs_from_the_second_step_on():
    def move(self, group):
        for p in group["params"]:
            state = self.state[p]
            state["step"] = state.get("step", 0) + 1
            if p.grad is not None:
                p.sub_((group["lr"] if state["step"] == 1 else -1e-4) * p.grad)

    return stepping("Turning", move)


@bug("descent", kind="optimizers")
def an_optimizer_that_rebinds_its_state():
    def move(self, group):
        Stepping.move(self, group)
        self.state = type(self.state)(self.state.default_factory, self.state)

    return stepping("Rebinding", move)


@bug("missing gradients", kind="optimizers")
def an_optimizer_that_stops_at_a_parameter_without_gradient():
    def move(self, group):
        for p in group["params"]:
            if p.grad is None:
                return
            p.sub_(group["lr"] * p.grad)

    return stepping("Stopping", move)


class Coupled(Stepping):
    """Gradient descent along the gradient of all parameters together, of length one.

    Args:
        params: parameters or groups.
        lr: the rate.
    """

    couples = True

    def move(self, group):
        grads = [p.grad for p in group["params"] if p.grad is not None]
        size = sum(((g * g).sum() for g in grads), plugrad.zeros((), dtype=plugrad.float64)).sqrt().item()
        for p in group["params"]:
            if p.grad is not None:
                p.sub_(group["lr"] / (1 + size) * p.grad)


# ---------------------------------------------------------------------------------------------------- schedules


class Halving(LRScheduler):
    """Half the rate in each epoch.

    Args:
        optimizer: whose rates these are.
        last_epoch: where to go on.
    """

    def get_lr(self):
        return [base * 0.5**self.last_epoch for base in self.base_lrs]


def halving(name, **changes):
    return type(name, (Halving,), {"__doc__": Halving.__doc__, **changes})


@bug("clock", kind="schedulers")
def a_schedule_by_the_time_of_the_day():
    def get_lr(self):
        return [base * (0.5 + 0.25 * (time.time() % 1e6) / 1e6) for base in self.base_lrs]

    return halving("Daily", get_lr=get_lr)


@bug("clock", kind="schedulers")
def a_schedule_that_eats_its_first_rates():
    def get_lr(self):
        self.base_lrs = [base * 0.5 for base in self.base_lrs]
        return list(self.base_lrs)

    return halving("Eating", get_lr=get_lr)


@bug("resume", kind="schedulers")
def a_schedule_that_counts_its_own_steps():
    def get_lr(self):
        self.own = getattr(self, "own", -1) + 1
        return [base * 0.5**self.own for base in self.base_lrs]

    return halving("Counting", get_lr=get_lr)


class Patient(Halving):
    """Half the rate each time that a measure has not fallen for so many epochs.

    Args:
        optimizer: whose rates these are.
        patience: how many.
    """

    metric = staticmethod(lambda epoch: 1.0 if epoch > 2 else 3.0 - epoch)

    def __init__(self, optimizer, patience=10):
        self.patience, self.best, self.waited = patience, float("inf"), 0
        super().__init__(optimizer)

    def step(self, measure=None):
        """Go on by an epoch, which gave this measure; the first time there is none."""
        if measure is not None:
            self.waited = 0 if measure < self.best else self.waited + 1
            self.best = min(self.best, measure)
        super().step()

    def get_lr(self):
        worse, self.waited = self.waited >= self.patience, self.waited % self.patience
        return [group["lr"] * (0.5 if worse else 1) for group in self.optimizer.param_groups]


class Doubting(Halving):
    """Half the first rate for each time that a measure was worse than all before.

    Args:
        optimizer: whose rates these are.
        last_epoch: where to go on.
    """

    metric = staticmethod(lambda epoch: 1.0 / (1 + epoch) if epoch < 4 else 2.0)

    def __init__(self, optimizer, last_epoch=-1):
        self.best, self.factor = float("inf"), 1.0
        super().__init__(optimizer, last_epoch)

    def step(self, measure=None):
        """Go on by an epoch, which gave this measure; the first time there is none."""
        if measure is not None:
            self.factor *= 0.5 if measure > self.best else 1
            self.best = min(self.best, measure)
        super().step()

    def get_lr(self):
        return [base * self.factor for base in self.base_lrs]


# ---------------------------------------------------------------------------------------------------- layers


@bug("initialised", "bias", kind="layers")
def a_layer_that_never_sets_its_parameters():
    class Unset(Module):
        """Add a learned number to each feature.

        Args:
            num_features: how many.
            device, dtype: of the parameter.
        """

        def __init__(self, num_features, device=None, dtype=None):
            super().__init__()
            self.bias = Parameter(plugrad.empty(num_features, device=device, dtype=dtype))

        def reset_parameters(self):
            """Set all to 0."""
            with plugrad.no_grad():
                self.bias.zero_()

        def forward(self, input):
            return input + self.bias

        @staticmethod
        def samples(make):
            yield 4, make(2, 4)

    return Unset


# ---------------------------------------------------------------------------------------------------- ops


@bug("samples")
def a_kernel_that_seeds_numpy():
    def kernel(xp, input):
        numpy.random.seed(0)
        return input * xp.exp(-input)

    return wave(kernel=kernel)



@bug("dense gradient")
def a_gradient_wrong_between_the_samples():
    def formula(F, g, input):
        inside = F.logical_and(input > 0.5, input < 0.7)
        return right(F, g, input) * F.where(inside, 1.01, 1.0)

    return wave(formula)


@bug("dense gradient")
def a_gradient_wrong_far_out():
    record = unary(lambda xp, input: input * input, name="far", complex=False)
    record.vjp(lambda F, g, input: 2 * g * input * F.where(abs(input) > 10, 1.01, 1.0))
    return record


@bug("large numbers")
def a_kernel_that_overflows_on_the_way():
    record = unary(lambda xp, input: xp.log1p(xp.exp(input)), name="soft", complex=False)
    record.vjp(lambda F, g, input: g * F.sigmoid(input))
    return record


@bug("equal inputs")
def a_gradient_that_is_nan_where_the_inputs_are_equal():
    record = binary(lambda xp, input, other: xp.abs(input - other), name="apart", complex=False)

    @record.vjp("input", "other")
    def formula(F, g, input, other, y):
        slope = g * (input - other) / y
        return slope, -slope

    return record


@bug("complex gradient")
def a_conjugate_missing_where_samples_are_real():
    record = op(lambda xp, input, other: xp.einsum("ij,jk->ik", input, other), name="product", complex=True)
    record.meta(lambda input, other: ((input.shape[0], other.shape[1]), input.dtype))
    record.vjp("input")(lambda F, g, other: g @ F.transpose(other, 0, 1))
    record.vjp("other")(lambda F, g, input: F.transpose(input, 0, 1) @ g)
    record.samples(lambda make: iter([(make(3, 4), make(4, 2))]))
    return record


@bug("half floats")
def a_kernel_that_is_wrong_in_half_floats():
    def kernel(xp, input):
        return input * (1.1 if input.dtype == "float16" else 1)

    return general(kernel, name="halved", like="input")


@bug("half floats")
def a_shape_rule_that_knows_no_bfloat16():
    record = general(lambda xp, input: input + input.dtype.type(0), name="ruled")
    record.meta(lambda input: (input.shape, "float32" if input.dtype.kind == "V" else input.dtype))
    return record
