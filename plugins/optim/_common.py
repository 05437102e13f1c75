"""What several algorithms have in common: averages over steps, the L2 penalty, and betas."""

from __future__ import annotations

import plugrad
from plugrad import Tensor, enable_grad, no_grad
from plugrad.extend import Optimizer, held_back


def regularized(optimizer, xp, p, g, weight_decay):
    """Return `g + weight_decay * p`, the gradient with an L2 penalty, or `g` where there is none."""
    if weight_decay == 0:
        return g
    result = optimizer.scratch(xp, p, "regularized")
    xp.multiply(p, weight_decay, result)
    return xp.add(result, g, result)


def decayed(optimizer, xp, p, g, group):
    """Apply the decay of the weights: to `p` itself where it is decoupled, else to the gradient, which is returned."""
    if not group["decoupled_weight_decay"]:
        return regularized(optimizer, xp, p, g, group["weight_decay"])
    if group["weight_decay"]:
        p *= 1 - group["lr"] * group["weight_decay"]
    return g


def average(xp, mean, values, decay, t):
    """Set `mean` to `decay * mean + (1 - decay) * values`; `t` is scratch."""
    xp.subtract(values, mean, t)
    t *= 1 - decay
    mean += t


def average_square(xp, mean, values, decay, t):
    """Set `mean` to `decay * mean + (1 - decay) * values**2`; `t` is scratch."""
    mean *= decay
    xp.multiply(values, 1 - decay, t)
    t *= values
    mean += t


def check_pair(name, values) -> None:
    """Raise TypeError for an option that is no tuple, ValueError for one that has not two numbers."""
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"{name} must be a tuple of two numbers, not {type(values).__name__}")
    if len(values) != 2:
        raise ValueError(f"{name} must be two numbers, but there are {len(values)}")


def fractions(betas, lr=None, foreach=False, capturable=False, floats=False) -> tuple:
    """Return `betas` as a tuple, of numbers (that are `floats`, not ints) or of tensors of one element.

    Raises ValueError unless each lies in [0, 1), for a number beside a tensor, and for tensors, as `lr` too, with
    `foreach` but not `capturable`.
    """
    check_pair("betas", betas)
    tensors = [isinstance(beta, Tensor) for beta in betas]
    if any(tensors) != all(tensors):
        raise ValueError("betas must be either both floats or both Tensors")
    if foreach and not capturable:
        for name, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            if isinstance(value, Tensor):
                raise ValueError(
                    f"{name} as a Tensor is not supported for capturable=False and foreach=True; leave foreach out"
                )
    for index, beta in enumerate(betas):
        if isinstance(beta, Tensor) and beta.numel() != 1:
            raise ValueError(f"Tensor betas[{index}] must be 1-element")
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}; write one in [0, 1)")
    if floats and not any(tensors) and not all([isinstance(beta, float) for beta in betas]):
        raise ValueError("betas must be either both floats or both Tensors: write 0.0, not 0")
    return tuple(betas)


class PerParameter(Optimizer):
    """Base of optimizers that change one parameter after the other, by tensor operations in `change`.

    It is for those whose state depends on the shape of the parameter; most give `update` instead, which is faster.
    """

    @no_grad()
    def step(self, closure=None):
        """Change every parameter that has a gradient; return what `closure` evaluates to."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        due = []
        for group in self.param_groups:
            options = self._plain(group)
            for p in dict.fromkeys(group["params"]):
                if p.grad is not None:
                    self._refuse(p)
                    due.append((p, options))
        if plugrad.optim.batching.capturing(self):
            plugrad.optim.batching.check_state(self, [p for p, _ in due])
        with held_back():
            for p, options in due:
                self.change(p, -p.grad if options.get("maximize") else p.grad, self.state[p], options)
        return loss

    def _refuse(self, p):
        """Raise RuntimeError for a parameter that the algorithm is not for."""
        name = type(self).__name__
        if p.is_complex():
            raise RuntimeError(
                f"{name} does not support complex parameters; optimize torch.view_as_real(parameter), made once as a "
                "leaf, instead"
            )
        if getattr(p.grad, "is_sparse", False):
            raise RuntimeError(f"{name} does not support sparse gradients; write p.grad = p.grad.to_dense() first")

    def change(self, p, grad, state, group):
        """Change `p` in place by its gradient; `state` is its own, and empty at first."""
        raise NotImplementedError(f"{type(self).__name__} must define change()")
