"""Clipping of gradients."""

from __future__ import annotations

import math
import types
import warnings

import plugrad
from plugrad import Tensor, no_grad
from plugrad.backends.lists import many_of, touched
from plugrad.extend import from_raw, held_back

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _gradients(parameters) -> list:
    """Return the gradients that the parameters have."""
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _check_foreach(foreach, tensors) -> None:
    """Raise RuntimeError where the fused form was asked for and PyTorch has none for the tensors' device."""
    for device in {tensor.device.type for tensor in tensors} - {"cpu", "cuda"} if foreach else ():
        raise RuntimeError(f"foreach=True was passed, but can't use the foreach API on {device} tensors; leave it out")


@no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Return the norm of all elements of several tensors together, as a 0-d tensor.

    Args:
        tensors: a tensor or an iterable of them.
        norm_type: which p-norm; infinity is the largest magnitude.
        error_if_nonfinite: raise RuntimeError when the norm is not finite.
        foreach: it is about speed in PyTorch; True is refused for tensors neither on the CPU nor on CUDA.

    >>> import plugrad as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return plugrad.tensor(0.0)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"get_total_norm(): argument 'tensors' must be tensors, not {type(tensor).__name__}")
    _check_foreach(foreach, tensors)
    total = _norm_at_once(tensors) if norm_type == 2 else None
    if total is None:
        total = _norm_of_norms(tensors, norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot "
            "be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def _norm_at_once(tensors):
    many = many_of(tensors)
    total = False if many is None else many.norm([t._raw for t in tensors])
    return None if total is False else from_raw(total)


def _norm_of_norms(tensors, norm_type):
    home = tensors[0].device
    norms = plugrad.stack([plugrad.linalg.vector_norm(tensor, norm_type).to(home) for tensor in tensors])
    return norms.max() if math.isinf(norm_type) else plugrad.linalg.vector_norm(norms, norm_type)


@no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None) -> None:
    """Scale gradients whose norm is `total_norm` down to `max_norm`, in place."""
    if not isinstance(total_norm, Tensor):
        what = type(total_norm).__name__
        raise TypeError(f"clip_grads_with_norm_(): argument 'total_norm' must be Tensor, not {what}")
    gradients, max_norm = _gradients(parameters), float(max_norm)
    if not gradients:
        return
    _check_foreach(foreach, gradients)
    if total_norm.ndim:
        raise RuntimeError(f"scalar tensor expected to be 0 dim but it has {total_norm.ndim} dimensions")
    many = many_of([*gradients, total_norm])
    with held_back():
        if many is not None and many.clip([grad._raw for grad in gradients], total_norm._raw, max_norm):
            return touched(gradients)
        factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in gradients:
            grad.mul_(factor.to(grad.device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale gradients down, in place, to the norm `max_norm`; return their norm.

    Gradients with a smaller norm stay as they are.

    Args:
        parameters: a tensor or an iterable of them; those without gradients do not count.
        max_norm: the largest norm of all gradients together.
        norm_type: which p-norm; infinity is the largest magnitude.
        error_if_nonfinite: raise RuntimeError when the norm is not finite.
        foreach: it is about speed in PyTorch; True is refused for tensors neither on the CPU nor on CUDA.

    R. Pascanu, T. Mikolov, Y. Bengio, arXiv:1211.5063.

    >>> import plugrad as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> (w * torch.tensor([3.0, 4.0])).sum().backward()
    >>> torch.nn.utils.clip_grad_norm_([w], 1.0), w.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    generator = isinstance(parameters, types.GeneratorType)
    # Iterated over twice: a generator would be used up.
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if generator and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The older name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


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
    limit, gradients = float(clip_value), _gradients(parameters)
    _check_foreach(foreach, gradients)
    with held_back():
        for grad in gradients:
            grad.clamp_(-limit, limit)
