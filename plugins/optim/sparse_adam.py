"""SparseAdam: Adam for gradients of which few rows are there."""

from __future__ import annotations

import math

import plugrad
from plugrad import Tensor
from plugrad.extend import Optimizer, collect, hookimpl

from ._common import PerParameter, fractions


class SparseAdam(PerParameter):
    """Adam that moves only what sparse gradients have values for.

    Other moments and parameters stay as they are. It is for dense parameters with sparse gradients, such as those of
    `nn.Embedding(sparse=True)`.

    Args:
        params: dense real parameters.
        lr: learning rate.
        betas: how much of both moments is kept.
        eps: what is added to the root.
        maximize: go up.

    Raises ValueError for options outside their ranges, and for sparse and complex parameters; RuntimeError in a step
    for dense gradients.
    """

    sizes = ()  # for `plugrad check`: dense gradients are refused

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        self.nonnegative(lr=lr, eps=eps)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}; write lr > 0")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}; write eps > 0")
        betas = fractions(betas)
        super().__init__(params, self.options(locals()))
        places = [(i, j, p) for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])]
        for kind, has, why in (
            ("Sparse", lambda p: getattr(p, "is_sparse", False), "SparseAdam requires dense parameter tensors"),
            ("Complex", Tensor.is_complex, "SparseAdam does not support complex parameters"),
        ):
            wrong = [[i, j] for i, j, p in places if has(p)]
            if wrong:
                raise ValueError(f"{kind} params at indices {wrong}: {why}")

    def _refuse(self, p):
        if not getattr(p.grad, "is_sparse", False):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")

    def change(self, p, grad, state, group):
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = plugrad.zeros_like(p), plugrad.zeros_like(p)
        state["step"] += 1
        grad = grad.coalesce()
        if grad.values().numel() == 0:
            return
        rows, values = tuple(grad.indices()), grad.values()
        beta1, beta2 = group["betas"]
        first, second = state["exp_avg"][rows], state["exp_avg_sq"][rows]
        first += (values - first) * (1 - beta1)
        second += (values * values - second) * (1 - beta2)
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = first, second
        correction = math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
        p[rows] -= group["lr"] * correction * first / (second.sqrt() + group["eps"])


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
