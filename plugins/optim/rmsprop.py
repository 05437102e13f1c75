"""RMSprop: steps divided by a running root mean square of the gradient."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl, native

from ._common import average, average_square, regularized


class RMSprop(Optimizer):
    r"""Steps divided by a running root mean square of the gradient.

    With the gradient `g` (to which `weight_decay * p` is added), each step does

        v <- alpha * v + (1 - alpha) * g^2
        b <- momentum * b + g / (sqrt(v) + eps)
        p <- p - lr * b

    as in Hinton's lecture 6e of "Neural Networks for Machine Learning" (2012); `centered` takes the square of
    the running mean of `g` off `v` under the root (Graves, arXiv:1308.0850). Raises ValueError for negative
    options.

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.RMSprop([w], lr=0.05).step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    elementwise = True

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        self.nonnegative(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        slots = {"step": 0.0, "square_avg": self.zeros}
        if group["momentum"] > 0:
            slots["momentum_buffer"] = self.zeros
        if group["centered"]:
            slots["grad_avg"] = self.zeros
        return slots

    def update(self, xp, p, g, state, group):
        v, alpha = state["square_avg"], group["alpha"]
        g = regularized(self, xp, p, g, group["weight_decay"])
        t = self.scratch(xp, p)
        average_square(xp, v, g, alpha, t)
        if group["centered"]:
            mean = state["grad_avg"]
            average(xp, mean, g, alpha, t)
            xp.multiply(mean, mean, t)
            v = xp.subtract(v, t, t)
        xp.sqrt(v, t)
        t += group["eps"]
        xp.divide(g, t, t)
        if group["momentum"] > 0:
            b = state["momentum_buffer"]
            b *= group["momentum"]
            b += t
            t[...] = b
        t *= group["lr"]
        p -= t


@RMSprop.kernel("cpu")
@native("scaled", lists=True)
def rmsprop_in_c(call, xp, p, g, state, group):
    if group["centered"] or group["momentum"] > 0:
        return NotImplemented
    alpha = group["alpha"]
    return call(p, g, state["square_avg"], group["lr"], group["weight_decay"], group["eps"], alpha, 1 - alpha)


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
