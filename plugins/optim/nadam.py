"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl

from ._common import average, average_square, decayed, fractions


class NAdam(Optimizer):
    r"""Adam with Nesterov momentum.

    With the gradient `g` (to which `weight_decay * p` is added, unless `decoupled_weight_decay`), step `t`
    does

        mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2)
        m <- beta1 * m + (1 - beta1) * g
        v <- beta2 * v + (1 - beta2) * g^2
        h = mu_(t+1) * m / (1 - mu_1 ... mu_(t+1)) + (1 - mu_t) * g / (1 - mu_1 ... mu_t)
        p <- p - lr * h / (sqrt(v / (1 - beta2^t)) + eps)

    as in Dozat, "Incorporating Nesterov Momentum into Adam" (ICLR 2016 workshop). Raises ValueError for
    negative options and for betas outside [0, 1).

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.NAdam([w], lr=0.5).step()
    >>> w.detach()
    tensor([ 0.4718, -1.4718])
    """

    elementwise = True

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        self.nonnegative(lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        betas = fractions(betas)
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        return {"step": 0.0, "mu_product": 1.0, "exp_avg": self.zeros, "exp_avg_sq": self.zeros}

    def advance(self, state, group):
        step = state["step"] = state["step"] + 1
        beta1, beta2 = group["betas"]
        mu, mu_next = [beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1)]
        state["mu_product"] *= mu
        correction = (1 - beta2**step) ** 0.5
        state["eps"] = group["eps"] * correction
        rate = group["lr"] * correction
        state["gradient_rate"] = rate * (1 - mu) / (1 - state["mu_product"])
        state["average_rate"] = rate * mu_next / (1 - state["mu_product"] * mu_next)

    def update(self, xp, p, g, state, group):
        beta1, beta2 = group["betas"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        g = decayed(self, xp, p, g, group)
        t, h = self.scratch(xp, p), self.scratch(xp, p, 1)
        average(xp, m, g, beta1, t)
        average_square(xp, v, g, beta2, t)
        xp.multiply(m, state["average_rate"], h)
        h += xp.multiply(g, state["gradient_rate"], t)
        xp.sqrt(v, t)
        t += state["eps"]
        h /= t
        p -= h


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
