"""Dropout of elements and of channels: active in training only."""

from __future__ import annotations

from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F


class _DropoutNd(Module):
    """Raises ValueError unless 0 <= p <= 1."""

    function: str

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return getattr(F, self.function)(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zero each element with probability `p` in training.

    The others are scaled by 1 / (1 - p). Raises ValueError unless 0 <= p <= 1. N. Srivastava et al., "Dropout", 2014.

    >>> import plugrad as torch
    >>> torch.nn.Dropout(0.9).eval()(torch.ones(2))
    tensor([1., 1.])
    """

    function = "dropout"


class Dropout1d(_DropoutNd):
    """Zero whole channels of (N, C, L) or (C, L); see Dropout.

    >>> import plugrad as torch
    >>> torch.nn.Dropout1d(1.0)(torch.ones(1, 2))
    tensor([[0., 0.]])
    """

    function = "dropout1d"


class Dropout2d(_DropoutNd):
    """Zero whole channels of images (N, C, H, W); see Dropout.

    Three dimensions are taken as (N, C, L), with a warning: write Dropout1d for them.

    >>> import plugrad as torch
    >>> torch.nn.Dropout2d(1.0)(torch.ones(1, 1, 1, 2))
    tensor([[[[0., 0.]]]])
    """

    function = "dropout2d"


class Dropout3d(_DropoutNd):
    """Zero whole channels of volumes (N, C, D, H, W) or (C, D, H, W); see Dropout.

    >>> import plugrad as torch
    >>> torch.nn.Dropout3d(1.0)(torch.ones(1, 1, 1, 2))
    tensor([[[[0., 0.]]]])
    """

    function = "dropout3d"


class _AlphaDropoutNd(_DropoutNd):
    def forward(self, input):
        return getattr(F, self.function)(input, self.p, self.training)


class AlphaDropout(_AlphaDropoutNd):
    """Dropout that keeps mean 0 and variance 1 of what follows a SELU.

    As in PyTorch `inplace` is kept and not obeyed: the input is never written; `nn.functional.alpha_dropout` can.

    G. Klambauer, T. Unterthiner, A. Mayr, S. Hochreiter, arXiv:1706.02515. Raises ValueError unless 0 <= p <= 1.

    >>> import plugrad as torch
    >>> torch.nn.AlphaDropout().eval()(torch.ones(2))
    tensor([1., 1.])
    """

    function = "alpha_dropout"


class FeatureAlphaDropout(_AlphaDropoutNd):
    """AlphaDropout of whole channels; `inplace` is not obeyed here either.

    >>> import plugrad as torch
    >>> torch.nn.FeatureAlphaDropout().eval()(torch.ones(1, 2, 1)).shape
    torch.Size([1, 2, 1])
    """

    function = "feature_alpha_dropout"


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
