"""Maxima over windows whose places are drawn at random: B. Graham, "Fractional max-pooling", arXiv:1412.6071."""

from __future__ import annotations

from math import prod

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, op

from ._checks import COMPLEX, refuse


def _starts(xp, samples, size, window, count):
    """Where the windows along an axis start, (N, C, count): the last one ends where the axis does."""
    last = xp.full((*samples.shape, 1), size - window, "int64")
    if count <= 1:
        return last[..., :count]
    step = samples.dtype.type((size - window) / (count - 1))
    places = (xp.arange(count - 1, dtype=samples.dtype) + samples[..., None]) * step
    first = (samples[..., None] * step).astype("int64")
    return xp.concatenate([places.astype("int64") - first, last], -1)


@op(at=(), vjp=None)
def fractional_argmax(xp, input, samples, kernel_size, output_size):
    """Flat places of the maxima of the windows.

    `input` is (N, C, *), `samples` (N, C, dimensions) are numbers of [0, 1) by which windows are placed.
    """
    refuse(COMPLEX, "fractional_max_pool", input)
    axes, sizes = len(kernel_size), input.shape[2:]
    flat, windows = 0, 0
    # In two dimensions the first sample belongs to the last axis, in three to the first: as PyTorch has it.
    columns = (1, 0) if axes == 2 else range(axes)
    for i, (size, window, count, column) in enumerate(zip(sizes, kernel_size, output_size, columns)):
        start = _starts(xp, samples[..., column], size, window, count)
        where = start[..., None] + xp.arange(window)  # (N, C, count, window)
        shape = [1] * (2 * axes)
        shape[i], shape[axes + i] = count, window
        flat = flat * size + where.reshape(*where.shape[:2], *shape)
    flat = flat.reshape(*input.shape[:2], prod(output_size), prod(kernel_size))
    values = input.reshape(*input.shape[:2], prod(sizes))
    windows = xp.take_along_axis(values, flat.reshape(*flat.shape[:2], prod(flat.shape[2:])), 2).reshape(flat.shape)
    best = xp.take_along_axis(flat, windows.argmax(-1)[..., None], -1)
    return best.reshape(*input.shape[:2], *output_size)


@fractional_argmax.meta
def fractional_argmax_meta(input, samples, kernel_size, output_size):
    return (*input.shape[:2], *output_size), "int64"


@fractional_argmax.samples
def fractional_argmax_samples(make):
    yield make.args(make(2, 3, 6, 7), make(2, 3, 2, low=0, high=1), (2, 3), (3, 2))


def _sizes(name, input, kernel_size, output_size, output_ratio, axes):
    """The sizes of windows and output as tuples; ValueError or RuntimeError for what does not fit."""
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    spread = [v if isinstance(v, (tuple, list)) else (v,) * axes for v in (kernel_size, output_size, output_ratio)]
    kernel, output, ratio = spread
    shape = input.shape[-axes:]
    if output_size is None:
        if len(ratio) != axes:
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints. It has {len(ratio)} numbers "
                f"for {axes} dimensions"
            )
        output = [int(n * r) for n, r in zip(shape, ratio)]
    if input.ndim not in (axes + 1, axes + 2) or 0 in input.shape[-axes - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, and to be a {axes + 1}D or "
            f"{axes + 2}D tensor, but got: {list(input.shape)}"
        )
    for what, values in (("kernel_size", kernel), ("output_size", output)):
        if len(values) != axes:
            raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of {axes} Ints")
    for what, n, window, count in zip(("time", "height", "width")[-axes:], shape, kernel, output):
        if window < 1 or count < 0:
            raise RuntimeError(
                f"{name}(): windows of {window} elements, {count} of them: a window has one element at least, and "
                "their number is not negative"
            )
        if count + window - 1 > n:
            raise RuntimeError(
                f"{name}(): pool {what} {window} too large relative to input {what} {n} for {count} windows"
            )
    return tuple(kernel), tuple(output)


def _pool(F, name, axes, input, kernel_size, output_size, output_ratio, samples):
    kernel, output = _sizes(name, input, kernel_size, output_size, output_ratio, axes)
    batch = input if input.ndim == axes + 2 else input[None]
    n, channels = batch.shape[:2]
    if samples is None:
        samples = plugrad.rand(n, channels, axes, dtype=input.dtype, device=input.device)
    if not isinstance(samples, plugrad.Tensor):
        raise TypeError(f"{name}(): argument '_random_samples' must be Tensor, not {type(samples).__name__}")
    if samples.ndim != 3 or samples.shape[0] < n or samples.shape[1:] != (channels, axes):
        raise RuntimeError(
            f"Expect _random_samples to have 3 dimensions, of sizes {[n, channels, axes]}, got {list(samples.shape)}; "
            "the first may be greater"
        )
    if samples.requires_grad and plugrad.is_grad_enabled():
        raise RuntimeError(f"The function {name!r} is not differentiable with respect to argument '_random_samples'")
    samples = samples[:n] if samples.shape[0] > n else samples
    if samples.dtype != input.dtype:
        raise RuntimeError(f"Expect _random_samples to have the dtype of input, {input.dtype}, not {samples.dtype}")
    where = F.fractional_argmax(batch.detach(), samples, kernel, output)
    flat = F.reshape(batch, (n, channels, prod(batch.shape[2:])))
    result = F.reshape(F.gather(flat, 2, F.reshape(where, (n, channels, prod(output)))), tuple(where.shape))
    return (result, where) if input.ndim == axes + 2 else (result[0], where[0])


_DOC = """Maxima over {axes}-d windows placed at random.

    Args:
        input: (N, C, {sizes}) or (C, {sizes}).
        kernel_size: of the windows, an int or one per dimension.
        output_size: how many windows, an int or one per dimension; or else
        output_ratio: their number as a part of the input's size.
        return_indices: return the flat places of the maxima too{always}.

    The places change from call to call; `_random_samples` (N, C, {axes}) in [0, 1) fixes them. Raises `ValueError`
    without a size, `RuntimeError` for windows that do not fit.

    >>> import plugrad as torch
    >>> torch.nn.functional.fractional_max_pool{axes}d(torch.zeros(1, {image}), 2, output_size=2).shape
    torch.Size([1, {result}])
    """


def _declare(axes):
    """The two functions of one number of dimensions."""
    name = f"fractional_max_pool{axes}d"

    def with_indices(
        F, input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
    ):
        return _pool(F, name, axes, input, kernel_size, output_size, output_ratio, _random_samples)

    def pool(F, input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        pooled = _pool(F, name, axes, input, kernel_size, output_size, output_ratio, _random_samples)
        return pooled if return_indices else pooled[0]

    for function, full, always in ((pool, name, ""), (with_indices, f"{name}_with_indices", ", as is always done")):
        function.__doc__ = _DOC.format(
            axes=axes, sizes=("H, W", "D, H, W")[axes - 2], image=", ".join(["5"] * axes), always=always,
            result=", ".join(["2"] * axes),
        )  # fmt: skip
        record = composite(fresh=True, name=full, at=(f"nn.functional.{full}",), autocast={"cpu": "float32"})(function)

        @record.samples
        def pool_samples(make):
            samples = make(2, 2, axes, low=0, high=1, requires_grad=False)
            yield make.args(make(2, 2, *(5,) * axes), 2, 3, _random_samples=samples)

        yield record


_records = [*_declare(2), *_declare(3)]


@hookimpl
def plugrad_ops():
    return [*collect(Op, globals()), *_records]
