"""What distributions share: broadcasting of parameters, probabilities and their logarithms, packed triangles."""

from __future__ import annotations

from functools import update_wrapper

import plugrad
from plugrad.nn import functional as F

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060
Number = (bool, int, float)


def _is_tensor_like(value) -> bool:
    return isinstance(value, plugrad.Tensor) or hasattr(type(value), "__torch_function__")


def broadcast_all(*values):
    """Return parameters as tensors of one shape; numbers are like the first tensor.

    Raises ValueError for what is neither number nor tensor.

    >>> import plugrad as torch
    >>> from plugrad.distributions.utils import broadcast_all
    >>> [tuple(x.shape) for x in broadcast_all(torch.zeros(2, 1), torch.ones(3), 0.5)]
    [(2, 3), (2, 3), (2, 3)]
    """
    if not all([_is_tensor_like(value) or isinstance(value, Number) for value in values]):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((value for value in values if isinstance(value, plugrad.Tensor)), None)
    options = (
        {"dtype": plugrad.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    )
    return plugrad.broadcast_tensors(
        *[value if _is_tensor_like(value) else plugrad.tensor(value, **options) for value in values]
    )


def standard_normal(shape, dtype, device):
    """Return new standard normal numbers."""
    return plugrad.empty(shape, dtype=dtype, device=device).normal_()


_standard_normal = standard_normal


def sum_rightmost(value, dim: int):
    """Return the sum over the last `dim` dimensions.

    >>> import plugrad as torch
    >>> from plugrad.distributions.utils import sum_rightmost
    >>> sum_rightmost(torch.ones(2, 3, 4), 2)
    tensor([12., 12.])
    """
    if dim == 0:
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


_sum_rightmost = sum_rightmost


def logits_to_probs(logits, is_binary=False):
    """Return probabilities of log odds (binary), or of logarithms along the last dimension."""
    return plugrad.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Return probabilities kept away from 0 and 1 by the dtype's eps.

    >>> import plugrad as torch
    >>> from plugrad.distributions.utils import clamp_probs
    >>> clamp_probs(torch.tensor([0.0, 0.5]))
    tensor([1.1921e-07, 5.0000e-01])
    """
    eps = plugrad.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """Return the log odds (binary), or the logarithms, of probabilities kept away from 0 and 1."""
    inside = clamp_probs(probs)
    return plugrad.log(inside) - plugrad.log1p(-inside) if is_binary else plugrad.log(inside)


class lazy_property:
    """A property that is computed, with gradients, when first asked for, and kept."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        update_wrapper(self, wrapped)

    def __get__(self, instance, obj_type=None):
        if instance is None:
            return _OnClass(self.wrapped)
        with plugrad.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _OnClass(lazy_property, property):
    """What a lazy property is on the class: a property, too."""

    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def _below(n: int, diag: int, device):
    steps = plugrad.arange(n, device=device)
    return steps < steps.view(-1, 1) + (diag + 1)


def tril_matrix_to_vec(mat, diag: int = 0):
    """Return the lower triangle of square matrices, row by row.

    Args:
        mat: (..., D, D).
        diag: the last diagonal that belongs to it.

    >>> import plugrad as torch
    >>> from plugrad.distributions.utils import tril_matrix_to_vec
    >>> tril_matrix_to_vec(torch.arange(4.0).reshape(2, 2))
    tensor([0., 2., 3.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _below(n, diag, mat.device)]


def vec_to_tril_matrix(vec, diag: int = 0):
    """Return lower triangular matrices of what `tril_matrix_to_vec` returned.

    >>> import plugrad as torch
    >>> from plugrad.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    count, shift = vec.shape[-1], 1 + 2 * diag
    exact = (-shift + (shift**2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    n = round(exact)
    if abs(n - exact) > plugrad.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., _below(n, diag, vec.device)] = vec
    return mat
