"""Sliding blocks of images as columns, and back: `unfold` and `fold` of torch.nn.functional."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from plugrad.extend import Op, collect, composite, hookimpl, native, op

from ._geometry import grid, key, per_axis, window_count


def _places(kernel, dilation, stride, size):
    """For each position inside the kernel: the elements of the image that it meets, as slices."""
    for tap in grid(kernel):
        yield tuple(slice(k * d, k * d + (s - 1) * t + 1, t) for k, d, t, s in zip(tap, dilation, stride, size))


@lru_cache(maxsize=1024)
def _columns(shape, kernel, dilation, padding, stride):
    """Return the shape of the columns of images of one."""
    size = window_count(shape[2:], kernel, stride, dilation, padding, padding)
    return shape[0], shape[1] * prod(kernel), prod(size)


_SIZES = dict.fromkeys(("kernel", "dilation", "padding", "stride"), "ints")


@op(at=(), node="Im2ColBackward0", kinds=_SIZES)
def im2col(xp, input, kernel, dilation, padding, stride):
    """Gather blocks of images (N, C, H, W) as columns (N, C * KH * KW, blocks)."""
    size = window_count(input.shape[2:], kernel, stride, dilation, padding, padding)
    (top, left), (n, channels, height, width) = padding, input.shape
    padded = xp.zeros((n, channels, height + 2 * top, width + 2 * left), input.dtype)
    padded[:, :, top : top + height, left : left + width] = input
    columns = xp.empty((n, channels, prod(kernel), *size), input.dtype)
    for i, place in enumerate(_places(kernel, dilation, stride, size)):
        columns[:, :, i] = padded[(slice(None), slice(None), *place)]
    return columns.reshape(n, channels * prod(kernel), prod(size))


@im2col.kernel("cpu")
@native("unfold", otherwise=im2col)
def im2col_in_c(call, xp, input, kernel, dilation, padding, stride):
    columns = xp.empty(_columns(input.shape, kernel, dilation, padding, stride), input.dtype)
    done = call(xp.ascontiguousarray(input), columns, *kernel, *dilation, *padding, *stride)
    return columns if done is None else done


@im2col.meta
def im2col_meta(input, kernel, dilation, padding, stride):
    return _columns(tuple(input.shape), kernel, dilation, padding, stride), input.dtype


@im2col.vjp
def im2col_vjp(F, g, input_shape, kernel, dilation, padding, stride):
    return F.col2im(g, input_shape[2:], kernel, dilation, padding, stride)


@im2col.samples
def im2col_samples(make):
    yield make(1, 2, 4, 5), (2, 2), (1, 2), (1, 0), (1, 1)


@op(at=(), node="Col2ImBackward0", kinds={"output_size": "ints", **_SIZES})
def col2im(xp, input, output_size, kernel, dilation, padding, stride):
    """Add columns up at their places in images: the adjoint of `im2col`.

    Columns are (N, C * KH * KW, blocks), images (N, C, *output_size).
    """
    size = window_count(output_size, kernel, stride, dilation, padding, padding)
    n, channels = input.shape[0], input.shape[1] // prod(kernel)
    columns = input.reshape(n, channels, prod(kernel), *size)
    padded = xp.zeros((n, channels, *(s + 2 * p for s, p in zip(output_size, padding))), input.dtype)
    for i, place in enumerate(_places(kernel, dilation, stride, size)):
        padded[(slice(None), slice(None), *place)] += columns[:, :, i]
    inner = padded[(slice(None), slice(None), *(slice(p, p + s) for s, p in zip(output_size, padding)))]
    return xp.ascontiguousarray(inner)


@col2im.kernel("cpu")
@native("fold", otherwise=col2im)
def col2im_in_c(call, xp, input, output_size, kernel, dilation, padding, stride):
    images = xp.empty((len(input), input.shape[1] // prod(kernel), *output_size), input.dtype)
    done = call(images, xp.ascontiguousarray(input), *kernel, *dilation, *padding, *stride)
    return images if done is None else done


@col2im.meta
def col2im_meta(input, output_size, kernel, dilation, padding, stride):
    return (input.shape[0], input.shape[1] // prod(kernel), *output_size), input.dtype


@col2im.vjp
def col2im_vjp(F, g, kernel, dilation, padding, stride):
    return F.im2col(g, kernel, dilation, padding, stride)


@col2im.samples
def col2im_samples(make):
    yield make(1, 8, 15), (4, 5), (2, 2), (1, 2), (1, 0), (1, 1)


def _numbers(function, kernel_size, dilation, padding, stride):
    numbers = []
    for value, name, least in (
        (kernel_size, "kernel_size", 1),
        (dilation, "dilation", 1),
        (padding, "padding", 0),
        (stride, "stride", 1),
    ):
        if isinstance(value, (tuple, list)) and len(value) != 2:
            raise RuntimeError(f"It is expected {name} equals to 2 numbers, but got size {len(value)}")
        value = per_axis(value, 2, name, function)
        if min(value) < least:
            wanted = "non-negative" if least == 0 else "greater than zero"
            raise RuntimeError(f"{name} should be {wanted}, but got {name}={value}")
        numbers.append(value)
    return numbers


@lru_cache(maxsize=1024, typed=True)
def _cuts(shape, kernel_size, dilation, padding, stride):
    """Return the numbers of `unfold` as pairs, checked."""
    kernel, dilation, padding, stride = numbers = _numbers("unfold", kernel_size, dilation, padding, stride)
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    size = window_count(shape[-2:], kernel, stride, dilation, padding, padding)
    if min(size) < 1:
        raise RuntimeError(
            f"Given input with spatial size {shape[-2:]}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, calculated shape of the array of sliding blocks as {size}, but its components must "
            "be at least one."
        )
    return numbers


@composite(fresh=True, at=("nn.functional.unfold",))
def unfold_blocks(F, input, kernel_size, dilation=1, padding=0, stride=1):
    """Cut sliding blocks out of images, as columns (N, C * KH * KW, blocks).

    `input` is (N, C, H, W) or (C, H, W); the numbers are single or pairs.
    Raises RuntimeError when not a single block fits.

    >>> import plugrad as torch
    >>> torch.nn.functional.unfold(torch.arange(4.).reshape(1, 1, 2, 2), (1, 2))
    tensor([[[0., 2.],
             [1., 3.]]])
    """
    numbers = _cuts(tuple(input.shape), key(kernel_size), key(dilation), key(padding), key(stride))
    if input.ndim == 3:
        return F.squeeze(F.im2col(F.unsqueeze(input, 0), *numbers), 0)
    return F.im2col(input, *numbers)


@unfold_blocks.samples
def unfold_samples(make):
    yield make(1, 2, 4, 5), 2
    yield make.args(make(2, 4, 5), (2, 3), padding=1, stride=2)


@composite(at=("nn.functional.fold",))
def fold(F, input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Add columns up into images: the adjoint of `unfold`.

    `input` is (N, C * KH * KW, blocks), the result (N, C, *output_size).
    Raises RuntimeError when the sizes of the columns do not match.

    >>> import plugrad as torch
    >>> torch.nn.functional.fold(torch.ones(1, 2, 2), (1, 3), (1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    kernel, dilation, padding, stride = _numbers("fold", kernel_size, dilation, padding, stride)
    if isinstance(output_size, (tuple, list)) and len(output_size) != 2:
        raise RuntimeError(f"It is expected output_size equals to 2 numbers, but got size {len(output_size)}")
    output_size = per_axis(output_size, 2, "output_size", "fold")
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    if input.shape[-2] % prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={input.shape[-2]} and kernel_size={kernel}."
        )
    size = window_count(output_size, kernel, stride, dilation, padding, padding)
    if min(size) < 1:
        raise RuntimeError(
            f"Given output_size={output_size}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
            f"stride={stride}, calculated shape of the array of sliding blocks as {size}, but its components must be "
            "at least one."
        )
    if input.shape[-1] != prod(size):
        raise RuntimeError(
            f"Given output_size={output_size}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
            f"stride={stride}, expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{size[0]} * {size[1]} = {prod(size)}, but got input.size(2)={input.shape[-1]}."
        )
    if input.ndim == 2:
        return F.squeeze(F.col2im(F.unsqueeze(input, 0), output_size, kernel, dilation, padding, stride), 0)
    return F.col2im(input, output_size, kernel, dilation, padding, stride)


@fold.samples
def fold_samples(make):
    yield make(1, 8, 12), (4, 5), 2


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
