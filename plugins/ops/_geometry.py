"""Arithmetic of windows sliding over images, shared by convolution and pooling."""

from __future__ import annotations


def per_axis(value, n, name, function):
    """Spell `value` (a number, or a sequence of 1 or n numbers) out as a tuple of n ints."""
    if isinstance(value, (tuple, list)):
        if len(value) == 1:
            value = value * n
        if len(value) != n:
            raise RuntimeError(
                f"{function}: expected {name} to be a single integer value or a list of {n} values to match the "
                f"convolution dimensions, but got {name}={list(value)}"
            )
        return tuple(map(int, value))
    return (int(value),) * n


def batch_last(xp, images, low=None, high=None, fill=0):
    """Lay (N, C, *S) out as contiguous (C, *S, N), `low` / `high` elements of `fill` around each axis of S.

    With the batch innermost a window that slides by one is still one long contiguous run, so that gathering
    windows, pooling and the element-wise ops that follow all move memory in large pieces.
    """
    images = images.transpose((*range(1, images.ndim), 0))
    if low is None or not (any(low) or any(high)):
        return images if images.flags.c_contiguous else xp.ascontiguousarray(images)
    size = images.shape[1:-1]
    shape = (images.shape[0], *(a + s + b for a, s, b in zip(low, size, high)), images.shape[-1])
    padded = xp.zeros(shape, images.dtype) if fill == 0 else xp.full(shape, fill, images.dtype)
    padded[(slice(None), *(slice(a, a + s) for a, s in zip(low, size)))] = images
    return padded


def batch_first(images):
    """The logical (N, C, *S) view of `batch_last` memory."""
    return images.transpose((images.ndim - 1, *range(images.ndim - 1)))


def windows(xp, images, kernel, stride, dilation, size):
    """View batch-last (C, *S, N) as (C, *kernel, *size, N): element k of the window at each output position."""
    channel, *steps, batch = images.strides
    strides = (
        channel,
        *(s * d for s, d in zip(steps, dilation)),
        *(s * t for s, t in zip(steps, stride)),
        batch,
    )
    shape = (images.shape[0], *kernel, *size, images.shape[-1])
    if xp.__name__ == "numpy":  # as_strided does the same, and takes longer than the copy that follows
        return xp.ndarray(shape, images.dtype, images, 0, strides)
    return xp.lib.stride_tricks.as_strided(images, shape, strides)


def window_count(size, kernel, stride, dilation, low, high):
    """How many windows fit along each axis, padding included (may be <= 0 when none does)."""
    return tuple(
        (s + a + b - d * (k - 1) - 1) // t + 1
        for s, k, t, d, a, b in zip(size, kernel, stride, dilation, low, high)
    )


def grid(lengths):
    """Every position inside a box of these lengths, in row-major order."""
    positions = [()]
    for length in lengths:
        positions = [(*p, i) for p in positions for i in range(length)]
    return positions
