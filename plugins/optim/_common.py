"""What several algorithms have in common: averages over steps, the L2 penalty, and betas."""

from __future__ import annotations

from plugrad import Tensor


def regularized(optimizer, xp, p, g, weight_decay):
    """Return `g + weight_decay * p`, the gradient with an L2 penalty, or `g` where there is none."""
    if weight_decay == 0:
        return g
    result = optimizer.scratch(xp, p, "regularized")
    xp.multiply(p, weight_decay, result)
    return xp.add(result, g, result)


def decayed(optimizer, xp, p, g, group):
    """Apply the decay of the weights: to `p` itself where it is decoupled, else to the gradient, which is returned."""
    if not group["decoupled_weight_decay"]:
        return regularized(optimizer, xp, p, g, group["weight_decay"])
    if group["weight_decay"]:
        p *= 1 - group["lr"] * group["weight_decay"]
    return g


def average(xp, mean, values, decay, t):
    """Set `mean` to `decay * mean + (1 - decay) * values`; `t` is scratch."""
    xp.subtract(values, mean, t)
    t *= 1 - decay
    mean += t


def average_square(xp, mean, values, decay, t):
    """Set `mean` to `decay * mean + (1 - decay) * values**2`; `t` is scratch."""
    mean *= decay
    xp.multiply(values, 1 - decay, t)
    t *= values
    mean += t


def check_pair(name, values) -> None:
    """Raise TypeError for an option that is no tuple, ValueError for one that has not two numbers."""
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"{name} must be a tuple of two numbers, not {type(values).__name__}")
    if len(values) != 2:
        raise ValueError(f"{name} must be two numbers, but there are {len(values)}")


def fractions(betas) -> tuple:
    """Return `betas` as plain numbers; raise ValueError unless each lies in [0, 1)."""
    check_pair("betas", betas)
    betas = tuple([beta.item() if isinstance(beta, Tensor) else beta for beta in betas])
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}; write one in [0, 1)")
    return betas
