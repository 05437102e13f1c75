"""Muon: steps along orthogonalized momentum, for matrices."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Optimizer, collect, hookimpl

from ._common import PerParameter


class Muon(PerParameter):
    r"""Momentum, replaced by the nearest orthogonal matrix.

    With the gradient `g`, each step does

        b <- momentum * b + (1 - momentum) * g
        u = orthogonalized(b)          (nesterov: of momentum * b + (1 - momentum) * g)
        p <- (1 - lr * weight_decay) * p - adjusted * u

    so that all directions move alike: a polynomial, applied `ns_steps` times in bfloat16 (Newton and Schulz),
    orthogonalizes. It is for the matrices of hidden layers; embeddings, biases and the last layer are given to another
    optimizer, such as AdamW. After Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024).

    Args:
        params: real parameters of two dimensions.
        lr: learning rate.
        weight_decay: decay of the weights themselves.
        momentum: how much of the momentum is kept.
        nesterov: look ahead.
        ns_coefficients: the polynomial's three coefficients.
        eps: the least norm that a gradient is divided by.
        ns_steps: how often the polynomial is applied, less than 100.
        adjust_lr_fn: None or "original" multiplies the rate by `sqrt(max(1, rows / columns))`, "match_rms_adamw" by
            `0.2 * sqrt(max(rows, columns))`, which suits rates and decays that were tuned for AdamW.

    Raises ValueError for negative options, other functions and parameters of other dimensions, and in a step
    RuntimeError for complex ones.

    >>> import plugrad as torch
    >>> w = torch.tensor([[1.0, 0.0], [0.0, 2.0]], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.Muon([w], lr=0.5, weight_decay=0.0).step()
    >>> bool((w.diagonal() < torch.tensor([1.0, 2.0])).all())
    True
    """

    sizes = (3, 4), (2, 2), (5, 2)  # for `plugrad check`: it is for matrices

    def __init__(
        self,
        params,
        lr=1e-3,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=True,
        ns_coefficients=(3.4445, -4.775, 2.0315),
        eps=1e-7,
        ns_steps=5,
        adjust_lr_fn=None,
    ):
        self.nonnegative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported; write 'original' or 'match_rms_adamw'"
            )
        super().__init__(params, self.options(locals()))
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}; give "
                        "this one to another optimizer"
                    )

    def change(self, p, grad, state, group):
        lr, momentum = group["lr"], group["momentum"]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = plugrad.zeros_like(grad)
        buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        u = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        u = _orthogonalized(u, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        factor = math.sqrt(max(1, rows / columns))
        if group["adjust_lr_fn"] == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(u.to(p.dtype), alpha=-lr * factor)


def _orthogonalized(matrix, coefficients, steps, eps):
    """Return about the nearest orthogonal matrix: singular values go near 1 by an odd polynomial."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    high = matrix.shape[0] > matrix.shape[1]
    x = _rounded(matrix.T if high else matrix)
    x = _rounded(x / _rounded(x.norm().clamp(min=eps)))
    for _ in range(steps):
        gram = _rounded(x @ x.T)
        x = _rounded(a * x + _rounded(b * gram + c * (gram @ gram)) @ x)
    return x.T if high else x


def _rounded(t):
    """Return values rounded to bfloat16, as float32: products of matrices are fast in that."""
    return t.bfloat16().float()


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
