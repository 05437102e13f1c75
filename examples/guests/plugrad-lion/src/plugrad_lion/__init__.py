"""The Lion optimizer."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl

plugrad_api = (1, 2)


class Lion(Optimizer):
    """Steps of equal size along the sign of a momentum.

    With the gradient `g` and the momentum `m`, each step does

        p <- p - lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p)
        m <- beta2 * m + (1 - beta2) * g

    as in Chen et al., "Symbolic discovery of optimization algorithms" (NeurIPS 2023). A good `lr` is three to ten times
    smaller than Adam's. Raises ValueError for negative options and for betas outside of [0, 1).

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.Lion([w], lr=0.25).step()
    >>> w.detach()
    tensor([ 0.7500, -1.7500])
    """

    elementwise = True

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, *, maximize=False):
        self.nonnegative(lr=lr, weight_decay=weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must lie in [0, 1), got {betas}")
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        return {"momentum": self.zeros}

    def update(self, xp, p, g, state, group):
        beta1, beta2 = group["betas"]
        m = state["momentum"]
        direction = xp.sign(beta1 * m + (1 - beta1) * g)
        p *= 1 - group["lr"] * group["weight_decay"]
        p -= group["lr"] * direction
        m *= beta2
        m += (1 - beta2) * g

    @staticmethod
    def samples(make):
        """Yield what to test it with: options."""
        yield make.args(lr=0.01)
        yield make.args(lr=0.01, betas=(0.5, 0.9), weight_decay=0.1)


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
