"""Initialisers that draw nothing: constants, the identity, and the identity of a convolution."""

from __future__ import annotations

import plugrad
from plugrad.extend import hookimpl, overridable


@overridable
def constant_(tensor, val):
    """Fill a tensor with `val`; return it.

    >>> import plugrad as torch
    >>> torch.nn.init.constant_(torch.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    with plugrad.no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """Fill a tensor with ones; return it.

    >>> import plugrad as torch
    >>> torch.nn.init.ones_(torch.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """Fill a tensor with zeros; return it.

    >>> import plugrad as torch
    >>> torch.nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor):
    """Make a matrix the identity, as far as it reaches; return it.

    Raises ValueError unless the tensor has two dimensions.

    >>> import plugrad as torch
    >>> torch.nn.init.eye_(torch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, this one has {tensor.ndim}")
    with plugrad.no_grad():
        return tensor.copy_(plugrad.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor, groups=1):
    """Make a convolution hand its input on, as far as there are channels.

    Args:
        tensor: (out, in / groups, *kernel) with one to three kernel dimensions.
        groups: the convolution's groups, each of which hands its channels on.

    Raises ValueError for other numbers of dimensions, or when `groups` does not divide the output channels.

    >>> import plugrad as torch
    >>> torch.nn.init.dirac_(torch.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(f"Only tensors with 3, 4, or 5 dimensions are supported, this one has {tensor.ndim}")
    outputs, inputs, *kernel = tensor.shape
    if outputs % groups:
        raise ValueError(f"dim 0 must be divisible by groups: {outputs} output channels, groups={groups}")
    each = outputs // groups
    centre = tuple(n // 2 for n in kernel)
    with plugrad.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(each, inputs)):
                tensor[(group * each + channel, channel, *centre)] = 1
    return tensor


@hookimpl
def plugrad_inits():
    return [constant_, ones_, zeros_, eye_, dirac_]
