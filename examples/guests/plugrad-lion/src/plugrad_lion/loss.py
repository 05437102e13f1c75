"""The log-cosh loss: squared near zero, absolute far out, and smooth everywhere."""

from __future__ import annotations

import math

from plugrad.extend import Op, collect, composite, hookimpl, loss

plugrad_api = (2, 2)


@loss(module="LogCoshLoss")
@composite(at=("nn.functional.log_cosh_loss",))
def log_cosh_loss(F, input, target, *, reduction="mean"):
    """Mean logarithm of the hyperbolic cosine of the differences.

    Args:
        input, target: float tensors of shapes that broadcast.
        reduction: "none", "mean" or "sum"; ValueError for anything else.

    >>> import plugrad as torch
    >>> torch.nn.functional.log_cosh_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 0.0]))
    tensor(0.2169)
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction; write 'none', 'mean' or 'sum'")
    # log(cosh(d)) = d + log(1 + exp(-2 d)) - log(2): the cosine itself would overflow.
    difference = input - target
    values = difference + F.softplus(-2 * difference) - math.log(2)
    return values if reduction == "none" else F.mean(values) if reduction == "mean" else F.sum(values)


@log_cosh_loss.samples
def log_cosh_loss_samples(make):
    yield make(3, 4), make(3, 4)
    yield make.args(make(3, 4), make(4), reduction="none")
    yield make.args(make(2, low=-800, high=800), make(2), reduction="sum")


@log_cosh_loss.errors
def log_cosh_loss_errors(make):
    yield ValueError, "reduction", make.args(make(3), make(3), reduction="average")


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
