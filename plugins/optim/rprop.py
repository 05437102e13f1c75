"""Rprop: resilient backpropagation, which looks at the signs of gradients only."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl

from ._common import check_pair


class Rprop(Optimizer):
    r"""Resilient backpropagation: steps that follow the signs of gradients only.

    Each element has a step size, `lr` at first. It grows by `etas[1]` while the gradient keeps its sign,
    shrinks by `etas[0]` where the sign has changed, and stays within `step_sizes`. The element moves by its
    step size against its gradient, but stays where the sign has just changed.

    After Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP
    Algorithm" (ICNN 1993), in the variant without backtracking. Meant for whole batches. Raises ValueError
    for a negative `lr`, and unless `0 < etas[0] < 1 < etas[1]`.

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.Rprop([w], lr=0.5).step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    elementwise = True
    keeps_rate = True  # it is the first size of steps
    _looks_at_values = True  # `update` writes where a mask holds

    def __init__(
        self,
        params,
        lr=1e-2,
        etas=(0.5, 1.2),
        step_sizes=(1e-6, 50),
        *,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        self.nonnegative(lr=lr)
        check_pair("etas", etas)
        check_pair("step_sizes", step_sizes)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}; write etas=(below 1, above 1)")
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        return {"step": 0.0, "prev": self.zeros, "step_size": self.full(group["lr"])}

    def update(self, xp, p, g, state, group):
        prev, size = state["prev"], state["step_size"]
        shrink, grow = group["etas"]
        t = self.scratch(xp, p)
        xp.sign(xp.multiply(g, prev, t), t)
        kept, changed = t > 0, t < 0
        t.fill(1)
        t[kept] = grow
        t[changed] = shrink
        size *= t
        xp.clip(size, *group["step_sizes"], size)
        prev[...] = g
        prev[changed] = 0
        xp.sign(prev, t)
        t *= size
        p -= t


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
