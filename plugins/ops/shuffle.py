"""Moving elements between channels and space: pixel shuffle and channel shuffle."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, is_channels_last, native, op

from ._checks import as_int


def _need(name, shape):
    if len(shape) < 3:
        raise RuntimeError(
            f"{name} expects input with > 2 dims, but got input with sizes {list(shape)}: it has to have at least 3 "
            "dimensions"
        )


def _copied(F, result, input, factor):
    """A tensor of its own, also where nothing had to be moved, with the channels innermost where `input` has them."""
    if not result.is_meta and is_channels_last(input.shape, input.stride()) and input.ndim == 4:
        return F.clone(result, memory_format=plugrad.channels_last)
    return F.clone(result) if factor == 1 or 1 in result.shape[-2:] else result


@lru_cache(maxsize=1024)
def _enlarged(shape, r):
    """Return the shape of images of `r` times the size that channels are the blocks of, and these channels' own."""
    _need("pixel_shuffle", shape)
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if r * r >= 1 << 63:
        raise ValueError(f"upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={r}")
    *lead, channels, height, width = shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    out = channels // (r * r)
    return (*lead, out, height * r, width * r), (prod(lead), out, r, r, height, width)


@lru_cache(maxsize=1024)
def _reduced(shape, r):
    """Return the shape of the channels that blocks of r * r pixels become, and these blocks' own."""
    _need("pixel_unshuffle", shape)
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = shape
    for name, position, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({position})="
                f"{size} is not divisible by {r}"
            )
    return (*lead, channels * r * r, height // r, width // r), (prod(lead), channels, height // r, r, width // r, r)


def _moved(xp, input, shape, blocks, order):
    """Return a copy of `input`, seen as `blocks`, with these dimensions in another order.

    The channels are innermost in memory where `input` has them there.
    """
    result = xp.array(input.reshape(blocks).transpose(order), order="C").reshape(shape)
    if input.ndim != 4 or not is_channels_last(input.shape, input.strides):
        return result
    return xp.array(result.transpose(0, 2, 3, 1), order="C").transpose(0, 3, 1, 2)


def _in_c(call, xp, input, shape_of, r, enlarges):
    shape, _ = shape_of(input.shape, r)
    if not input.flags.c_contiguous or input.ndim == 4 and is_channels_last(input.shape, input.strides):
        return NotImplemented
    result = xp.empty(shape, input.dtype)
    images = (result, input) if enlarges else (input, result)
    return result if call(*images, r, enlarges) is None else NotImplemented


@op(at=("nn.functional.pixel_shuffle", "pixel_shuffle"), kinds={"upscale_factor": "int"}, eight_bits=True)
def pixel_shuffle(xp, input, upscale_factor):
    """Turn r * r channels into images r times as large.

    (*, C * r * r, H, W) becomes (*, C, H * r, W * r). Raises RuntimeError when the channels do not divide, ValueError
    for a factor whose square has more than 63 bits. W. Shi et al., arXiv:1609.05158.

    >>> import plugrad as torch
    >>> torch.pixel_shuffle(torch.arange(4.).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    return _moved(xp, input, *_enlarged(input.shape, as_int(upscale_factor)), (0, 1, 4, 2, 5, 3))


@op(at=("nn.functional.pixel_unshuffle", "pixel_unshuffle"), kinds={"downscale_factor": "int"}, eight_bits=True)
def pixel_unshuffle(xp, input, downscale_factor):
    """Turn blocks of r * r pixels into channels: the inverse of `pixel_shuffle`.

    Raises RuntimeError when height or width do not divide.

    >>> import plugrad as torch
    >>> torch.pixel_unshuffle(torch.arange(4.).reshape(1, 2, 2), 2).flatten()
    tensor([0., 1., 2., 3.])
    """
    return _moved(xp, input, *_reduced(input.shape, as_int(downscale_factor)), (0, 1, 3, 5, 2, 4))


@pixel_shuffle.kernel("cpu")
@native("shuffle_pixels", otherwise=pixel_shuffle)
def pixel_shuffle_in_c(call, xp, input, upscale_factor):
    return _in_c(call, xp, input, _enlarged, as_int(upscale_factor), True)


@pixel_unshuffle.kernel("cpu")
@native("shuffle_pixels", otherwise=pixel_unshuffle)
def pixel_unshuffle_in_c(call, xp, input, downscale_factor):
    return _in_c(call, xp, input, _reduced, as_int(downscale_factor), False)


@pixel_shuffle.vjp
def pixel_shuffle_vjp(F, g, upscale_factor):
    return F.pixel_unshuffle(g, upscale_factor)


@pixel_unshuffle.vjp
def pixel_unshuffle_vjp(F, g, downscale_factor):
    return F.pixel_shuffle(g, downscale_factor)


@pixel_shuffle.meta
def pixel_shuffle_meta(input, upscale_factor):
    return _enlarged(tuple(input.shape), as_int(upscale_factor))[0], input.dtype


@pixel_unshuffle.meta
def pixel_unshuffle_meta(input, downscale_factor):
    return _reduced(tuple(input.shape), as_int(downscale_factor))[0], input.dtype


@pixel_shuffle.samples
def gather_channels_samples(make):
    yield make(2, 8, 2, 3), 2


@pixel_unshuffle.samples
def pixel_unshuffle_samples(make):
    yield make(2, 3, 4, 6), 2


@composite(
    at=(
        "nn.functional.channel_shuffle", "channel_shuffle", "native_channel_shuffle",
        "nn.functional.native_channel_shuffle",
    )
)  # fmt: skip
def channel_shuffle(F, input, groups):
    """Interleave the channels of `groups` groups of (N, C, *).

    X. Zhang et al., arXiv:1707.01083. Raises RuntimeError when the groups do not divide the channels.

    >>> import plugrad as torch
    >>> torch.channel_shuffle(torch.arange(4.).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    _need("channel_shuffle", input.shape)
    n, channels, *size = input.shape
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    grouped = F.reshape(input, (n, groups, channels // groups, prod(size)))
    return _copied(F, F.reshape(F.transpose(grouped, 1, 2), (n, channels, *size)), input, groups)


channel_shuffle.samples(gather_channels_samples)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
