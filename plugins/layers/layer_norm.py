"""Normalization without running statistics: over last dimensions, groups of channels, and neighbouring channels."""

from __future__ import annotations

from numbers import Integral

import plugrad
from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F

from ._common import parameter


def _sizes(normalized_shape) -> tuple:
    if isinstance(normalized_shape, Integral):
        return (normalized_shape,)
    if not hasattr(normalized_shape, "__iter__"):
        raise TypeError(f"normalized_shape must be an int or a sequence of ints, not {type(normalized_shape).__name__}")
    return tuple(normalized_shape)


class _Affine(Module):
    """A weight that starts as 1 and a bias that starts as 0, or None."""

    def _set_up(self, shape, weight, bias, device, dtype):
        self.register_parameter("weight", parameter(*shape, device=device, dtype=dtype) if weight else None)
        if bias is not None:
            self.register_parameter("bias", parameter(*shape, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None:
            plugrad.nn.init.ones_(self.weight)
        if getattr(self, "bias", None) is not None:
            plugrad.nn.init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Normalize over the last dimensions, whose sizes are `normalized_shape`.

    Args:
        normalized_shape: their sizes; a number for one dimension.
        eps: added to the variance.
        elementwise_affine: whether there is a weight of that shape.
        bias: whether there is a bias too.

    J. Ba, J. Kiros, G. Hinton, arXiv:1607.06450.

    >>> import plugrad as torch
    >>> torch.nn.LayerNorm(2, eps=0.0)(torch.tensor([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._set_up(self.normalized_shape, elementwise_affine, bool(elementwise_affine and bias), device, dtype)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """Divide by the root of the mean square over the last dimensions.

    Args:
        normalized_shape: their sizes; a number for one dimension.
        eps: added to the mean square; None is the spacing of the input's dtype at 1.
        elementwise_affine: whether there is a weight of that shape.

    B. Zhang, R. Sennrich, arXiv:1910.07467.

    >>> import plugrad as torch
    >>> torch.nn.RMSNorm(2, eps=0.0, elementwise_affine=False)(torch.tensor([1.0, -1.0]))
    tensor([ 1., -1.])
    """

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._set_up(self.normalized_shape, elementwise_affine, None, device, dtype)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Normalize each of `num_groups` groups of channels of each image of (N, C, *).

    Args:
        num_groups: how many groups the channels are divided into.
        num_channels: C.
        eps: added to the variance.
        affine: whether there is a weight per channel.
        bias: whether there is a bias too.

    Raises ValueError when the groups don't divide the channels. Y. Wu, K. He, arXiv:1803.08494.

    >>> import plugrad as torch
    >>> torch.nn.GroupNorm(1, 2, eps=0.0)(torch.tensor([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._set_up((num_channels,), affine, bool(affine and bias), device, dtype)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        sizes = f"{self.num_groups}, {self.num_channels}"
        return f"{sizes}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class LocalResponseNorm(Module):
    """Divide by (k + alpha * mean square of `size` neighbouring channels) ** beta.

    A. Krizhevsky, I. Sutskever, G. Hinton, "ImageNet classification with deep convolutional neural networks", 2012.

    >>> import plugrad as torch
    >>> torch.nn.LocalResponseNorm(2, alpha=6.0, beta=1.0)(torch.ones(1, 1, 1))
    tensor([[[0.2500]]])
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Local response normalization of images as Torch 7 had it; see LocalResponseNorm.

    Args:
        size: number of neighbouring channels.
        alpha, beta, k: input / (k + alpha / size * sum of squares) ** beta is the result.

    As PyTorch's, a window that has left the first channel behind still counts its square, and there is nothing beyond
    the last channel. The gradient is that of the result, where PyTorch's leaves terms out. Raises ValueError for inputs
    that are not (N, C, H, W).

    >>> import plugrad as torch
    >>> torch.nn.CrossMapLRN2d(1, alpha=3.0, beta=1.0)(torch.ones(1, 1, 1, 1))
    tensor([[[[0.2500]]]])
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = int((self.size - 1) / 2 + 1)
        place = plugrad.arange(input.shape[1], device=input.device)
        step = place - place[:, None]  # from the channel of the row to that of the column
        window = ((step.abs() < reach) | ((place == 0) & (step <= 0))).to(input.dtype)
        squares = (window @ (input * input).flatten(2)).view(input.shape)
        return input * (squares * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
