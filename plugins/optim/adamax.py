"""Adamax: Adam with the largest gradient in place of the mean square."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl

from ._common import average, fractions, regularized


class Adamax(Optimizer):
    r"""Adam with a decaying maximum of the gradient in place of its mean square.

    With the gradient `g` (to which `weight_decay * p` is added), step `t` does

        m <- beta1 * m + (1 - beta1) * g
        u <- max(beta2 * u, |g| + eps)
        p <- p - lr / (1 - beta1^t) * m / u

    as in section 7.1 of Kingma and Ba, "Adam: A Method for Stochastic Optimization" (ICLR 2015). Raises
    ValueError for negative options and for betas outside [0, 1).

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.Adamax([w], lr=0.5).step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    elementwise = True

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        self.nonnegative(lr=lr, eps=eps, weight_decay=weight_decay)
        betas = fractions(betas)
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        return {"step": 0.0, "exp_avg": self.zeros, "exp_inf": self.zeros}

    def update(self, xp, p, g, state, group):
        beta1, beta2 = group["betas"]
        m, u = state["exp_avg"], state["exp_inf"]
        g = regularized(self, xp, p, g, group["weight_decay"])
        t = self.scratch(xp, p)
        average(xp, m, g, beta1, t)
        u *= beta2
        xp.absolute(g, t)
        t += group["eps"]
        xp.maximum(u, t, out=u)
        xp.divide(m, u, t)
        t *= group["lr"] / (1 - beta1 ** state["step"])
        p -= t


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
