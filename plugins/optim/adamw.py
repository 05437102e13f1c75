"""AdamW: Adam with the decay of the weights taken out of the gradient."""

from __future__ import annotations

from plugrad.extend import Optimizer, collect, hookimpl

from . import adam


class AdamW(adam.Adam):
    r"""Adam with decoupled weight decay.

    Each step first does `p <- (1 - lr * weight_decay) * p` and then the update of `Adam` without a penalty in
    the gradient, as in Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (ICLR 2019). Raises
    ValueError for negative options and for betas outside [0, 1).

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.AdamW([w], lr=0.5, weight_decay=0.1).step()
    >>> w.detach()
    tensor([ 0.4500, -1.4000])
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        foreach=None,
        capturable=False,
        differentiable=False,
        fused=None,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
