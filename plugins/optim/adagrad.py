"""Adagrad: steps divided by the root of the sum of all squared gradients."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl, native

from ._common import regularized


class Adagrad(Optimizer):
    r"""Steps divided by the root of the sum of all squared gradients.

    With the gradient `g` (to which `weight_decay * p` is added), step `t` does

        s <- s + g^2                                (it starts at initial_accumulator_value)
        p <- p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    as in Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic
    Optimization" (JMLR 2011). Raises ValueError for negative options.

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.Adagrad([w], lr=0.5).step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    elementwise = True

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
        self.nonnegative(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
        self.nonnegative(initial_accumulator_value=initial_accumulator_value)
        super().__init__(params, self.options(locals()))
        self.fill_state()

    def slots(self, group):
        return {"step": 0.0, "sum": self.full(group["initial_accumulator_value"])}

    def update(self, xp, p, g, state, group):
        s = state["sum"]
        g = regularized(self, xp, p, g, group["weight_decay"])
        t = self.scratch(xp, p)
        s += xp.multiply(g, g, t)
        xp.sqrt(s, t)
        t += group["eps"]
        xp.divide(g, t, t)
        t *= group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        p -= t

    def update_rows(self, xp, p, rows, g, state, group):
        """Change `p[rows]` in place, by `g`, the values of a sparse gradient."""
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients: set it to 0")
        s = state["sum"]
        s[rows] += g * g
        rate = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        p[rows] -= rate * g / (xp.sqrt(s[rows]) + group["eps"])


@Adagrad.kernel("cpu")
@native("scaled", lists=True)
def adagrad_in_c(call, xp, p, g, state, group):
    rate = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
    return call(p, g, state["sum"], rate, group["weight_decay"], group["eps"], 1, 1)


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
