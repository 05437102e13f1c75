"""RAdam: Adam with a rectified start."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl

from ._common import average, average_square, decayed, fractions


class RAdam(Optimizer):
    r"""Adam with a rectified start: momentum alone until its scaling is certain.

    With the gradient `g` (to which `weight_decay * p` is added, unless `decoupled_weight_decay`), step `t`
    moves the averages `m` and `v` of Adam, and with

        R = 2 / (1 - beta2) - 1        r = R - 2 t beta2^t / (1 - beta2^t)
        d = lr * m / (1 - beta1^t)

    does `p <- p - d` while `r <= 5`, and after that

        p <- p - d * sqrt((r-4)(r-2)R / ((R-4)(R-2)r)) * sqrt(1 - beta2^t) / (sqrt(v) + eps)

    as in Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond" (ICLR 2020). Raises
    ValueError for negative options and for betas outside [0, 1).

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.RAdam([w], lr=0.5).step()
    >>> w.detach()
    tensor([0., 0.])
    """

    elementwise = True
    _looks_at_values = True  # `advance` compares the number of steps

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        self.nonnegative(lr=lr, eps=eps, weight_decay=weight_decay)
        betas = fractions(betas)
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        return {"step": 0.0, "exp_avg": self.zeros, "exp_avg_sq": self.zeros}

    def advance(self, state, group):
        step = state["step"] = state["step"] + 1
        beta1, beta2 = group["betas"]
        correction = 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        r = limit - 2 * step * beta2**step / correction
        state["rate"] = group["lr"] / (1 - beta1**step)
        state["rectified"] = r > 5
        if r > 5:
            rectifier = (r - 4) * (r - 2) * limit / ((limit - 4) * (limit - 2) * r)
            state["rate"] *= (rectifier * correction) ** 0.5

    def update(self, xp, p, g, state, group):
        beta1, beta2 = group["betas"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        g = decayed(self, xp, p, g, group)
        t = self.scratch(xp, p)
        average(xp, m, g, beta1, t)
        average_square(xp, v, g, beta2, t)
        if state["rectified"]:
            xp.sqrt(v, t)
            t += group["eps"]
            m = xp.divide(m, t, t)
        p -= xp.multiply(m, state["rate"], t)


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
