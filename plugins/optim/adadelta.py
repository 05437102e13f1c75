"""Adadelta: steps scaled by the ratio of two running root mean squares."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl

from ._common import average_square, regularized


class Adadelta(Optimizer):
    r"""Steps scaled by the ratio of two running root mean squares.

    With the gradient `g` (to which `weight_decay * p` is added), each step does

        v <- rho * v + (1 - rho) * g^2
        d <- sqrt(u + eps) / sqrt(v + eps) * g
        u <- rho * u + (1 - rho) * d^2
        p <- p - lr * d

    as in Zeiler, "ADADELTA: An Adaptive Learning Rate Method" (arXiv:1212.5701). Raises ValueError for
    negative options and for `rho` above 1.

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.Adadelta([w], lr=100.0).step()
    >>> w.detach()
    tensor([ 0.6838, -1.6838])
    """

    elementwise = True

    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ):
        self.nonnegative(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}; write a number from 0 to 1")
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        return {"step": 0.0, "square_avg": self.zeros, "acc_delta": self.zeros}

    def update(self, xp, p, g, state, group):
        v, u = state["square_avg"], state["acc_delta"]
        rho, eps = group["rho"], group["eps"]
        g = regularized(self, xp, p, g, group["weight_decay"])
        t, d = self.scratch(xp, p), self.scratch(xp, p, 1)
        average_square(xp, v, g, rho, t)
        xp.add(v, eps, t)
        xp.add(u, eps, d)
        xp.divide(xp.sqrt(d, d), xp.sqrt(t, t), d)
        d *= g
        average_square(xp, u, d, rho, t)
        d *= group["lr"]
        p -= d


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
