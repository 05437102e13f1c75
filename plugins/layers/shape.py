"""Layers that rearrange elements: flattening, windows as columns, pixels as channels, resampling."""

from __future__ import annotations

from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F


class Flatten(Module):
    """Make one dimension of those from `start_dim` to `end_dim`.

    >>> import plugrad as torch
    >>> torch.nn.Flatten()(torch.ones(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Make several dimensions, of sizes `unflattened_size`, of dimension `dim`.

    Raises TypeError when the sizes are not a tuple of ints; dimensions have no names here, so `dim` is a number.

    >>> import plugrad as torch
    >>> torch.nn.Unflatten(1, (2, 3))(torch.ones(5, 6)).shape
    torch.Size([5, 2, 3])
    """

    @staticmethod
    def samples(make):
        yield (1, (2, 2)), make(3, 4)

    def __init__(self, dim, unflattened_size):
        super().__init__()
        if isinstance(dim, str):
            raise NotImplementedError("Unflatten: dimensions have no names here; give the dimension's number")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos "
                    f"{position}"
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Unfold(Module):
    """Put the windows of images into columns.

    (N, C, H, W) or (C, H, W) become (N, C * size of a window, windows).

    >>> import plugrad as torch
    >>> torch.nn.Unfold(2)(torch.ones(1, 3, 4, 4)).shape
    torch.Size([1, 12, 9])
    """

    @classmethod
    def samples(cls, make):
        size = (2, 8, 12) if issubclass(cls, Fold) else (2, 3, 4, 5)
        yield make.args(*([(4, 5)] if issubclass(cls, Fold) else []), 2), make(*size)

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Unfold):
    """Add columns up to images of `output_size`: the transpose of Unfold.

    >>> import plugrad as torch
    >>> torch.nn.Fold((2, 2), 1)(torch.ones(1, 3, 4)).shape
    torch.Size([1, 3, 2, 2])
    """

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return f"output_size={self.output_size}, {super().extra_repr()}"


class PixelShuffle(Module):
    """Move channels into the image.

    (*, C * r**2, H, W) become (*, C, H * r, W * r), r being `upscale_factor`. W. Shi et al., arXiv:1609.05158.

    >>> import plugrad as torch
    >>> torch.nn.PixelShuffle(2)(torch.ones(1, 8, 3, 3)).shape
    torch.Size([1, 2, 6, 6])
    """

    def __init__(self, upscale_factor):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input):
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self):
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Move blocks of r x r pixels into channels: the inverse of PixelShuffle.

    >>> import plugrad as torch
    >>> torch.nn.PixelUnshuffle(2)(torch.ones(1, 2, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    def __init__(self, downscale_factor):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input):
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self):
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleave `groups` groups of channels of (N, C, *).

    X. Zhang et al., arXiv:1707.01083.

    >>> import plugrad as torch
    >>> torch.nn.ChannelShuffle(2)(torch.arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, input):
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self):
        return f"groups={self.groups}"


class Upsample(Module):
    """Resample (N, C, *) to `size` or by `scale_factor`.

    Args:
        size: of the spatial dimensions of the output.
        scale_factor: or how many times larger they become.
        mode: 'nearest', 'linear', 'bilinear', 'bicubic', 'trilinear'...
        align_corners: whether corner elements lie on corners, or the images' edges on each other.
        recompute_scale_factor: compute the scale from the output's rounded size.

    >>> import plugrad as torch
    >>> torch.nn.Upsample(scale_factor=2)(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    @classmethod
    def samples(cls, make):
        yield make.args(scale_factor=2), make(2, 3, 4, 5)
        yield make.args(size=(5, 3)), make(1, 2, 4, 4)

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None):
        super().__init__()
        if scale_factor is not None:
            many = isinstance(scale_factor, (tuple, list))
            scale_factor = tuple(map(float, scale_factor)) if many else float(scale_factor) if scale_factor else None
        self.name = type(self).__name__
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input):
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self):
        by = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{by}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resample images, taking the nearest element; see Upsample.

    >>> import plugrad as torch
    >>> torch.nn.UpsamplingNearest2d(scale_factor=2)(torch.ones(1, 1, 2, 3)).shape
    torch.Size([1, 1, 4, 6])
    """

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Resample images by bilinear interpolation with aligned corners; see Upsample.

    >>> import plugrad as torch
    >>> torch.nn.UpsamplingBilinear2d(scale_factor=2)(torch.ones(1, 1, 2, 3)).shape
    torch.Size([1, 1, 4, 6])
    """

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
