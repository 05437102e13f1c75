"""Stochastic gradient descent, with momentum after Polyak or Nesterov."""

from __future__ import annotations

import pathlib

from plugrad.extend import Optimizer, collect, hookimpl, load_inline, native

from ._common import regularized


class SGD(Optimizer):
    r"""Stochastic gradient descent, optionally with momentum.

    With the gradient `g` (to which `weight_decay * p` is added), each step does

        b <- momentum * b + (1 - dampening) * g        (the first time: b <- g)
        p <- p - lr * b                                (nesterov: p - lr * (g + momentum * b))

    as in Sutskever et al., "On the importance of initialization and momentum in deep learning" (ICML 2013).
    Raises ValueError for negative options, and for `nesterov` without momentum or with dampening.

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.SGD([w], lr=0.25).step()
    >>> w.detach()
    tensor([ 0.5000, -1.0000])
    """

    elementwise = True

    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        *,
        maximize=False,
        foreach=None,
        differentiable=False,
        fused=None,
    ):
        self.nonnegative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        return {"momentum_buffer": self.zeros} if group["momentum"] else {}

    def update(self, xp, p, g, state, group):
        momentum, lr = group["momentum"], group["lr"]
        g = regularized(self, xp, p, g, group["weight_decay"])
        t = self.scratch(xp, p)
        if momentum:
            b = state["momentum_buffer"]
            if state["fresh"]:
                b[...] = g
            else:
                b *= momentum
                b += g if not group["dampening"] else xp.multiply(g, 1 - group["dampening"], t)
            if group["nesterov"]:
                xp.multiply(b, momentum, t)
                g = xp.add(t, g, t)
            else:
                g = b
        p -= xp.multiply(g, lr, t)

    def update_rows(self, xp, p, rows, g, state, group):
        """Change `p[rows]` in place, by `g`, the values of a sparse gradient."""
        momentum, lr = group["momentum"], group["lr"]
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients: set it to 0")
        if momentum:
            b = state["momentum_buffer"]
            b *= 0 if state["fresh"] else momentum
            b[rows] += g if state["fresh"] else (1 - group["dampening"]) * g
            p -= lr * (momentum * b if group["nesterov"] else b)
        if not momentum or group["nesterov"]:
            p[rows] -= lr * g


@SGD.kernel("cpu")
@native("sgd", lists=True)
def sgd_in_c(call, xp, p, g, state, group):
    if not group["momentum"]:
        return call(p, g, group["lr"], group["weight_decay"])
    return call(p, g, state["momentum_buffer"], group["lr"], group["weight_decay"], *_shares(state, group))


def _shares(state, group):
    """Return how much of the buffer is kept, how much of the gradient is added, and how far the step looks ahead."""
    momentum = group["momentum"]
    kept, share = (0.0, 1.0) if state["fresh"] else (momentum, 1 - group["dampening"])
    return kept, share, momentum if group["nesterov"] else 0.0


_on_cuda = load_inline(
    cuda=pathlib.Path(__file__).with_suffix(".cu"), name="sgd", arrays=3, numbers=7, per="list",
    types="floating",
)  # fmt: skip


@SGD.kernel("cuda")
@native(_on_cuda, lists=True, signed=True)
def sgd_on_cuda(call, xp, p, g, state, group):
    buffer, sign = state["momentum_buffer"] if group["momentum"] else p, -1 if group["maximize"] else 1
    shares = _shares(state, group)
    return call(p, g, buffer, group["lr"], group["weight_decay"], *shares, bool(group["momentum"]), sign)


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
