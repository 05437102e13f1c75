"""`plugrad.nn.utils`: clipping of gradients, parameters as one vector, and padded sequences (`rnn`)."""

from __future__ import annotations

import math

import plugrad
from plugrad import Tensor, no_grad
from plugrad.nn.utils import rnn, stateless

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector", "rnn",
    "skip_init", "stateless", "vector_to_parameters",
]  # fmt: skip


def _gradients(parameters) -> list:
    """Return the gradients that the parameters have."""
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


@no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Return the norm of all elements of several tensors together, as a 0-d tensor.

    Args:
        tensors: a tensor or an iterable of them.
        norm_type: which p-norm; infinity is the largest magnitude.
        error_if_nonfinite: raise RuntimeError when the norm is not finite.
        foreach: accepted; it is about speed in PyTorch.

    >>> import plugrad as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return plugrad.tensor(0.0)
    home = tensors[0].device
    norms = plugrad.stack([plugrad.linalg.vector_norm(tensor, norm_type).to(home) for tensor in tensors])
    total = norms.max() if math.isinf(norm_type) else plugrad.linalg.vector_norm(norms, norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot "
            "be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None) -> None:
    """Scale gradients whose norm is `total_norm` down to `max_norm`, in place."""
    if not isinstance(total_norm, Tensor):
        what = type(total_norm).__name__
        raise TypeError(f"clip_grads_with_norm_(): argument 'total_norm' must be Tensor, not {what}")
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in _gradients(parameters):
        grad.mul_(factor.to(grad.device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale gradients down, in place, to the norm `max_norm`; return their norm.

    Gradients with a smaller norm stay as they are.

    Args:
        parameters: a tensor or an iterable of them; those without gradients do not count.
        max_norm: the largest norm of all gradients together.
        norm_type: which p-norm; infinity is the largest magnitude.
        error_if_nonfinite: raise RuntimeError when the norm is not finite.
        foreach: accepted; it is about speed in PyTorch.

    R. Pascanu, T. Mikolov, Y. Bengio, arXiv:1211.5063.

    >>> import plugrad as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> (w * torch.tensor([3.0, 4.0])).sum().backward()
    >>> torch.nn.utils.clip_grad_norm_([w], 1.0), w.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    # Iterated over twice: a generator would be used up.
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


@no_grad()
def clip_grad_value_(parameters, clip_value, foreach=None) -> None:
    """Restrict gradients to [-clip_value, clip_value], in place.

    >>> import plugrad as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> (w * torch.tensor([3.0, -0.5])).sum().backward()
    >>> torch.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.5000])
    """
    limit = float(clip_value)
    for grad in _gradients(parameters):
        grad.clamp_(-limit, limit)


def parameters_to_vector(parameters):
    """Return parameters flattened and joined to one vector.

    >>> import plugrad as torch
    >>> torch.nn.utils.parameters_to_vector([torch.ones(2, 1), torch.zeros(1)])
    tensor([1., 1., 0.])
    """
    return plugrad.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec, parameters) -> None:
    """Give parameters the values of consecutive parts of a vector.

    They share its memory then. Raises TypeError when `vec` is not a tensor.

    >>> import plugrad as torch
    >>> w = torch.nn.Parameter(torch.zeros(2))
    >>> torch.nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0]), [w])
    >>> w.tolist()
    [1.0, 2.0]
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        parameter.data = vec.detach()[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()


def skip_init(module_cls, *args, **kwargs):
    """Return a module with undefined parameters, sparing their initialization.

    >>> import plugrad as torch
    >>> torch.nn.utils.skip_init(torch.nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)


_ELSEWHERE = (
    "weight_norm",
    "remove_weight_norm",
    "spectral_norm",
    "remove_spectral_norm",
    "parametrize",
    "parametrizations",
)


def __getattr__(name):
    if name in _ELSEWHERE:
        raise NotImplementedError(
            f"plugrad.nn.utils has no {name}: parameters are not computed from others behind the module's back here; "
            "compute the weight in forward()"
        )
    raise AttributeError(f"module 'plugrad.nn.utils' has no attribute {name!r}")
