"""The memory format of the weights of convolutions."""

from __future__ import annotations

from plugrad import nn

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module, memory_format):
    """Lay out the weights of all 2D convolutions of a module anew; return the module.

    Args:
        module: a convolution or what contains some; transposed ones count.
        memory_format: such as `plugrad.channels_last`.

    >>> import plugrad as torch
    >>> conv = torch.nn.utils.convert_conv2d_weight_memory_format(torch.nn.Conv2d(8, 4, 3), torch.channels_last)
    >>> conv.weight.is_contiguous(memory_format=torch.channels_last)
    True
    """
    return _convert(module, memory_format, (nn.Conv2d, nn.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module, memory_format):
    """Lay out the weights of all 3D convolutions of a module anew; return the module.

    Args:
        module: a convolution or what contains some; transposed ones count.
        memory_format: such as `plugrad.channels_last_3d`.
    """
    return _convert(module, memory_format, (nn.Conv3d, nn.ConvTranspose3d))


def _convert(module, memory_format, kinds):
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module
