"""What both forms of spectral normalization share."""

from __future__ import annotations

from plugrad import nn
from plugrad.nn import functional as F


def output_dim(module) -> int:
    """Return the dimension of a layer's weight that stands for its outputs."""
    return 1 if isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)) else 0


def as_matrix(weight, dim):
    """Return a weight as a matrix whose rows are the indices of `dim`."""
    return weight.movedim(dim, 0).flatten(1)


def unit_vectors(matrix, eps) -> tuple:
    """Return random vectors of length 1 for both sides of a matrix."""
    return tuple([F.normalize(matrix.detach().new_empty(size).normal_(0, 1), dim=0, eps=eps) for size in matrix.shape])


def hook_of(hooks, kind, name):
    """Return the key of the hook of a kind that serves the parameter `name`; None if there is none."""
    return next((key for key, hook in hooks.items() if isinstance(hook, kind) and hook.name == name), None)


def refuse_uninitialized(weight, who, what) -> None:
    """Raise ValueError for a parameter of a lazy module that has no shape yet."""
    if type(weight).__name__ == "UninitializedParameter":
        raise ValueError(
            f"The module passed to `{who}` can't have uninitialized parameters. Make sure to run the dummy forward "
            f"before applying {what}"
        )
