"""Adam, and AdamW, which is Adam with the decay of the weights taken out of the gradient."""

from __future__ import annotations

import functools
import pathlib

from plugrad.extend import Optimizer, collect, hookimpl, load_inline, native

from ._common import average, average_square, decayed, fractions


class Adam(Optimizer):
    r"""Adaptive moment estimation.

    With the gradient `g` (to which `weight_decay * p` is added, unless `decoupled_weight_decay`), step `t`
    does

        m <- beta1 * m + (1 - beta1) * g
        v <- beta2 * v + (1 - beta2) * g^2
        p <- p - lr * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    as in Kingma and Ba, "Adam: A Method for Stochastic Optimization" (ICLR 2015); `amsgrad` puts the largest
    `v` so far in place of `v` (Reddi et al., "On the Convergence of Adam and Beyond", ICLR 2018). Raises
    ValueError for negative options and for betas outside [0, 1).

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.Adam([w], lr=0.5).step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    elementwise = True

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    ):
        self.nonnegative(lr=lr, eps=eps, weight_decay=weight_decay)
        betas = fractions(betas, lr, foreach, capturable, floats=True)
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        slots = {"step": 0.0, "exp_avg": self.zeros, "exp_avg_sq": self.zeros}
        if group["amsgrad"]:
            slots["max_exp_avg_sq"] = self.zeros
        return slots

    def advance(self, state, group):
        state["step"] += 1
        beta1, beta2 = group["betas"]
        correction = (1 - beta2 ** state["step"]) ** 0.5
        # Both corrections become factors of numbers, where the formula has them as passes over arrays.
        state["rate"] = group["lr"] * correction / (1 - beta1 ** state["step"])
        state["eps"] = group["eps"] * correction
        if hasattr(correction, "shape"):  # on the device, as an element for each parameter: what the kernel reads
            decay = group["lr"] * group["weight_decay"] if group["decoupled_weight_decay"] else 0.0
            state["kept"] = 0 * correction + (1 - decay)

    def update(self, xp, p, g, state, group):
        beta1, beta2 = group["betas"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        g = decayed(self, xp, p, g, group)
        t = self.scratch(xp, p)
        average(xp, m, g, beta1, t)
        average_square(xp, v, g, beta2, t)
        if group["amsgrad"]:
            v = xp.maximum(v, state["max_exp_avg_sq"], out=state["max_exp_avg_sq"])
        xp.sqrt(v, t)
        t += state["eps"]
        xp.divide(m, t, t)
        t *= state["rate"]
        p -= t


def _numbers(state, group):
    penalty = group["weight_decay"]
    decay, l2 = (group["lr"] * penalty, 0.0) if group["decoupled_weight_decay"] else (0.0, penalty)
    return *group["betas"], state["rate"], state["eps"], 1 - decay, l2


@Adam.kernel("cpu")
@native("adam", lists=True)
def adam_in_c(call, xp, p, g, state, group):
    if group["amsgrad"]:
        return NotImplemented
    return call(p, g, state["exp_avg"], state["exp_avg_sq"], *_numbers(state, group))


_in_cuda = functools.partial(load_inline, cuda=pathlib.Path(__file__).with_suffix(".cu"), types="floating")
_told_on_device = _in_cuda(name="adam_told", arrays=8, numbers=5, per="list", sizes=False, indices=(5, 6, 7))


@Adam.kernel("cuda")
@native(_in_cuda(name="adam", arrays=5, numbers=8, per="list"), lists=True, signed=True)
def adam_on_cuda(call, xp, p, g, state, group):
    sign, amsgrad = -1 if group["maximize"] else 1, bool(group["amsgrad"])
    arrays = p, g, state["exp_avg"], state["exp_avg_sq"], state["max_exp_avg_sq" if amsgrad else "exp_avg_sq"]
    if isinstance(state["rate"], (int, float)):
        return call(*arrays, *_numbers(state, group), sign, amsgrad)
    if not isinstance(p, list) or any([hasattr(beta, "dtype") for beta in group["betas"]]):
        return NotImplemented
    l2 = 0.0 if group["decoupled_weight_decay"] else group["weight_decay"]
    told = [[one.view("int64") for one in state[name]] for name in ("rate", "eps", "kept")]  # float64, whatever p is
    return _told_on_device(*arrays, *told, *group["betas"], l2, sign, amsgrad)


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
