"""Parameters as one vector, and back."""

from __future__ import annotations

import plugrad
from plugrad import Tensor
from plugrad.extend import held_back

__all__ = ["parameters_to_vector", "vector_to_parameters"]


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
    with held_back():
        for parameter in parameters:
            parameter.data = vec.detach()[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()
