"""Adafactor: adaptive steps whose second moments of a matrix are kept by rows and columns."""

from __future__ import annotations

import plugrad
from plugrad.extend import Optimizer, collect, hookimpl

from ._common import PerParameter


class Adafactor(PerParameter):
    r"""Adaptive steps that remember the rows and columns of a matrix only.

    With the gradient `g`, step `t` does, the means taken over rows (`r`) and columns (`c`),

        b = t^beta2_decay            rate = min(lr, 1 / sqrt(t)) * max(eps2, rms(p))
        r <- r + b * (mean_rows(g^2) - r)        c <- c + b * (mean_columns(g^2) - c)
        u = g / max(eps1, sqrt(r c / max(eps1, mean(r))))
        p <- (1 - lr * weight_decay) * p - rate * u / max(1, rms(u) / d)

    and keeps plain means of `g^2` for vectors. After Shazeer and Stern, "Adafactor: Adaptive Learning Rates with
    Sublinear Memory Cost" (arXiv:1804.04235).

    Args:
        params: real parameters.
        lr: the largest rate, and what `weight_decay` is multiplied with.
        beta2_decay: how fast the means become longer, at most 0.
        eps: (eps1, eps2); None for `eps1` is the dtype's epsilon.
        d: the largest root mean square of an update, at least 1.
        weight_decay: decay of the weights themselves.
        foreach: accepted; it is about speed in PyTorch.
        maximize: go up.

    Raises ValueError for options outside their ranges, RuntimeError in a step for complex parameters.

    >>> import plugrad as torch
    >>> w = torch.tensor([[1.0, -2.0], [2.0, 4.0]], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.optim.Adafactor([w], lr=0.5).step()
    >>> w.detach()
    tensor([[-0.2500, -0.7500],
            [ 0.7500,  2.7500]])
    """

    def __init__(
        self,
        params,
        lr=1e-2,
        beta2_decay=-0.8,
        eps=(None, 1e-3),
        d=1.0,
        weight_decay=0.0,
        *,
        foreach=None,
        maximize=False,
    ):
        self.nonnegative(lr=lr, weight_decay=weight_decay)
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}; None is that of the dtype")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        super().__init__(params, self.options(locals()))

    def change(self, p, grad, state, group):
        matrix = grad.ndim > 1
        if not state:
            state["step"] = plugrad.tensor(0.0, dtype=plugrad.float32)
            if matrix:
                state["row_var"] = grad.new_zeros((*grad.shape[:-1], 1))
                state["col_var"] = grad.new_zeros((*grad.shape[:-2], 1, grad.shape[-1]))
            else:
                state["variance"] = plugrad.zeros_like(grad)
        if not isinstance(state["step"], plugrad.Tensor):  # in what older programs saved it is a number
            state["step"] = plugrad.tensor(state["step"], dtype=plugrad.float32)
        state["step"] += 1
        step, lr = state["step"].item(), group["lr"]
        weight = step ** group["beta2_decay"]
        eps1, eps2 = group["eps"]
        eps1 = plugrad.finfo(p.dtype).eps if eps1 is None else eps1
        rate = min(lr, 1 / step**0.5) * max(eps2, _rms(p))
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        if matrix:
            row, column = state["row_var"], state["col_var"]
            row.lerp_(_mean_square(grad, -1), weight)
            column.lerp_(_mean_square(grad, -2), weight)
            estimate = (row @ column).div_(row.mean(dim=-2, keepdim=True).clamp_(min=eps1))
        else:
            estimate = state["variance"].lerp_(grad * grad, weight).clone()
        change = estimate.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        p.add_(change, alpha=-rate / max(1.0, _rms(change) / group["d"]))


def _rms(t) -> float:
    return t.norm(2).item() / t.numel() ** 0.5


def _mean_square(t, dim):
    return plugrad.norm(t, dim=dim, keepdim=True).square_().div_(t.size(dim))


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
