"""ASGD: gradient descent that also keeps an average of the parameters."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl

from ._common import average, regularized


class ASGD(Optimizer):
    r"""Gradient descent with a decaying rate that also averages the parameters.

    With the gradient `g` (to which `weight_decay * p` is added), step `t` does

        p <- (1 - lambd * eta) * p - eta * g
        a <- a + mu * (p - a)                                (`ax` in the state)
        eta <- lr / (1 + lambd * lr * t)^alpha
        mu <- 1 / max(1, t - t0)

    where `eta` starts at `lr` and `mu` at 1, as in Polyak and Juditsky, "Acceleration of Stochastic
    Approximation by Averaging" (SIAM J. Control Optim. 1992) with the rate of Bottou. Raises ValueError for a
    negative `lr` or `weight_decay`.

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.ASGD([w], lr=0.25, lambd=0.0).step()
    >>> w.detach()
    tensor([ 0.5000, -1.0000])
    """

    elementwise = True
    _looks_at_values = True  # `advance` compares the number of steps

    def __init__(
        self,
        params,
        lr=1e-2,
        lambd=1e-4,
        alpha=0.75,
        t0=1e6,
        weight_decay=0,
        foreach=None,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        self.nonnegative(lr=lr, weight_decay=weight_decay)
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        return {"step": 0.0, "eta": group["lr"], "mu": 1.0, "ax": self.zeros}

    def advance(self, state, group):
        step = state["step"] = state["step"] + 1
        lr = group["lr"]
        state["eta_now"], state["mu_now"] = state["eta"], state["mu"]  # the new ones are for the next step
        state["eta"] = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
        state["mu"] = 1 / max(1, step - group["t0"])

    def update(self, xp, p, g, state, group):
        ax, eta, mu = state["ax"], state["eta_now"], state["mu_now"]
        g = regularized(self, xp, p, g, group["weight_decay"])
        t = self.scratch(xp, p)
        p *= 1 - group["lambd"] * eta
        p -= xp.multiply(g, eta, t)
        if mu == 1:
            ax[...] = p
        else:
            average(xp, ax, p, 1 - mu, t)


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
