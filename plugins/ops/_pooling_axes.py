"""The geometry of pooling: which elements the windows along one axis consist of."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import NamedTuple

from ._checks import as_int, up_to
from ._geometry import key, per_axis


class _Numbers(NamedTuple):
    """What decides how windows lie along one axis; `kernel` is None for windows of nearly equal length."""

    length: int
    size: int
    kernel: int | None = None
    stride: int = 1
    padding: int = 0
    dilation: int = 1


class Axis(_Numbers):
    """How windows lie along one axis; all of it follows from numbers, of which programs for many sizes have others.

    `taps[k]` picks element k of every window out of the padded axis: a slice, or a list of positions. `size`
    is the number of windows; `low` and `high` the padding. `counts` says how many elements of the input each
    window has, `spans` also counts the padding asked for. `disjoint` when no element is in two windows,
    `covers` when in addition none is in none.
    """

    __eq__, __hash__ = object.__eq__, object.__hash__  # there is one for given arguments, and caches ask for it faster

    low = property(lambda self: self.padding)

    @cached_property
    def steps(self):
        """Kernel, stride, padding and dilation, or None for windows of nearly equal length."""
        return None if self.kernel is None else self[2:]

    @cached_property
    def high(self):
        if self.kernel is None:
            return 1
        return max((self.size - 1) * self.stride + self._reach - self.length - self.padding, 0)

    @property
    def _reach(self):
        return self.dilation * (self.kernel - 1) + 1

    @cached_property
    def _bounds(self):
        """From floor(i * length / size) to ceil((i + 1) * length / size)."""
        length, size = self.length, self.size
        return [(i * length // size, -(-(i + 1) * length // size)) for i in up_to(size)]

    @cached_property
    def taps(self):
        if self.kernel is None:  # a shorter window is filled up with the element of padding behind the end
            longest = range(max(self.counts, default=1))
            return [[a + k if a + k < b else self.length for a, b in self._bounds] for k in longest]
        last, d = (self.size - 1) * self.stride, self.dilation
        return [slice(k * d, k * d + last + 1, self.stride) for k in up_to(self.kernel)]

    @cached_property
    def _starts(self):
        return [i * self.stride - self.padding for i in up_to(self.size)]

    @cached_property
    def counts(self):
        if self.kernel is None:
            return [b - a for a, b in self._bounds]
        return [max(min(a + self.kernel, self.length) - max(a, 0), 0) for a in self._starts]

    @cached_property
    def spans(self):
        if self.kernel is None:
            return self.counts
        return [min(a + self.kernel, self.length + self.padding) - a for a in self._starts]

    @cached_property
    def disjoint(self):
        return self.kernel is not None and self.stride >= self._reach

    @cached_property
    def covers(self):
        whole = self.padding + self.length + self.high
        return self.disjoint and self.kernel == self.stride and whole == self.size * self.kernel

    @classmethod
    def sliding(cls, length, kernel, stride, padding, dilation, size):
        return cls(length, size, kernel, stride, padding, dilation)

    @classmethod
    def adaptive(cls, length, size):
        """Windows of nearly equal length; where they are of one length they slide."""
        return cls(length, size, *(length // size,) * 2) if size and length % size == 0 else cls(length, size)


def sliding_axes(function, n, shape, kernel, stride, padding, dilation, ceil_mode):
    """The axes of a pooling with a sliding window, from the arguments as the user gave them."""
    return _sliding_axes(
        function, n, tuple(shape), key(kernel), key(stride), key(padding), key(dilation), bool(ceil_mode)
    )


@lru_cache(maxsize=4096)
def _sliding_axes(function, n, shape, kernel, stride, padding, dilation, ceil_mode):
    kernel = _numbers(function, n, kernel, "kernel_size")
    stride = kernel if stride is None or stride == () else _numbers(function, n, stride, "stride")
    padding = _numbers(function, n, padding, "padding")
    dilation = _numbers(function, n, dilation, "dilation")
    for name, values in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
        if min(values) <= 0:
            raise RuntimeError(f"{function}: {name} must be greater than zero, but got {min(values)}")
    for p, k, d in zip(padding, kernel, dilation):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
    check_input(function, n, shape)
    size = []
    for length, k, t, p, d in zip(shape[-n:], kernel, stride, padding, dilation):
        room = length + 2 * p - d * (k - 1) - 1
        windows = (-(-room // t) if ceil_mode else room // t) + 1
        size.append(windows - 1 if ceil_mode and (windows - 1) * t >= length + p else windows)
    if min(size) < 1:
        raise RuntimeError(
            f"{function}: given input size {list(shape)} and kernel_size {kernel}. Invalid computed output size: "
            f"{min(size)}. Output size is too small (the input is smaller than kernel size)"
        )
    return tuple(map(Axis.sliding, shape[-n:], kernel, stride, padding, dilation, size))


def _numbers(function, n, value, name):
    if isinstance(value, tuple) and len(value) not in (1, n):
        raise RuntimeError(f"{function}: {name} must either be a single int, or a tuple of {n} ints, got {value}")
    return per_axis(value, n, name, function)


def check_input(function, n, shape):
    """Raise RuntimeError unless the shape is (C, *S) or (N, C, *S) with elements in C and S."""
    expected = f"{n + 1}D or {n + 2}D (batch mode) tensor"
    if len(shape) not in (n + 1, n + 2) and n > 1:
        raise RuntimeError(f"{function}: non-empty {expected} expected for input, but got: {list(shape)}")
    if len(shape) not in (n + 1, n + 2) or 0 in shape[-n - 1 :]:
        raise RuntimeError(
            f"{function}: Expected {expected} with optional 0 dim batch size for input, but got:{list(shape)}. "
            "Expected input's non-batch dimensions to have positive length"
        )


def adaptive_axes(function, n, shape, output_size):
    """The axes of an adaptive pooling; an entry None of `output_size` keeps the size of its axis."""
    return _adaptive_axes(function, n, tuple(shape), key(output_size))


@lru_cache(maxsize=4096)
def _adaptive_axes(function, n, shape, output_size):
    one = not isinstance(output_size, tuple)
    if one:
        output_size = (output_size,) * n
    if len(shape) < n + 1:
        raise (RuntimeError if one or n == 1 else ValueError)(
            f"{function}: Input dimension should be at least {n + 1}, but got {len(shape)}"
        )
    if len(output_size) != n:
        wanted = "'output_size' should contain one int" if n == 1 else f"output_size must be {n}"
        raise RuntimeError(f"{function}: {wanted} numbers, but got {output_size}")
    size = [length if s is None else as_int(s) for s, length in zip(output_size, shape[-n:])]
    if max(size) >= 1 << 31:
        raise RuntimeError(f"{function}: not enough memory for a result of the size {output_size}")
    if min(size) < 0:
        raise RuntimeError(
            f"{function}: elements of output_size must be greater than or equal to 0, but got {output_size}. "
            "Trying to create tensor with negative dimension"
        )
    # The first dimension may be 0 even where it is the channels; for means in one and two dimensions all channels may.
    if len(shape) > n + 2 or 0 in shape[-n if "avg" in function and n < 3 else 1 :]:
        raise RuntimeError(
            f"{function}(): Expected input to have non-zero size for non-batch dimensions, and {n + 1} or {n + 2} of "
            f"them, but input has sizes {list(shape)}"
        )
    return tuple(map(Axis.adaptive, shape[-n:], size))


def as_images(axes, *arrays):
    """Return the arrays as (M, H, W) and the geometry as kernels in C take it; None for what they do not serve."""
    numbers, sizes = _in_c(tuple(axes)), slice(-len(axes), None)
    if numbers is None or not all([array.flags.c_contiguous for array in arrays]):
        return None
    one = (-1, 1) if len(axes) == 1 else (-1,)
    return [array.reshape(one + array.shape[sizes]) for array in arrays], numbers


@lru_cache(maxsize=4096)
def _in_c(axes):
    """Return (KH, KW, strides, paddings, dilations) as kernels in C take them; None for what they do not serve."""
    steps = [axis.steps for axis in axes]
    if len(axes) > 2 or None in steps:
        return None
    return tuple([number for pair in zip(*(steps if len(axes) == 2 else ((1, 1, 0, 1), *steps))) for number in pair])


def check_gradient(axes, shape):
    """Raise RuntimeError where an adaptive pooling to nothing is differentiated, as PyTorch does."""
    if 0 in [axis.size for axis in axes]:
        raise RuntimeError(
            "adaptive pooling, backward: Expected grad_output to have non-zero size for non-batch dimensions, but "
            f"grad_output has sizes {list(pooled_shape(shape, axes))}; leave out the loss of an empty result"
        )


def tapped(position, tap):
    """Return the index that applies `tap` to the axis at `position`, which is negative."""
    return (..., tap) + (slice(None),) * (-1 - position)


def padded_by(xp, input, axes, fill):
    """Pad the last dimensions as the axes say, keeping the memory layout."""
    if not any(axis.low or axis.high for axis in axes):
        return input
    n, shape = len(axes), input.shape
    grown = shape[:-n] + tuple(a.low + s + a.high for a, s in zip(axes, shape[-n:]))
    padded = xp.empty_like(input, shape=grown)
    padded[...] = fill
    padded[(..., *(slice(a.low, a.low + s) for a, s in zip(axes, shape[-n:])))] = input
    return padded


def cropped(padded, axes):
    """Return what was padded without its padding."""
    if not any(axis.low or axis.high for axis in axes):
        return padded
    return padded[(..., *(slice(a.low, s - a.high) for a, s in zip(axes, padded.shape[-len(axes) :])))]


@lru_cache(maxsize=4096)
def pooled_shape(shape, axes):
    """Return the shape of pooled images."""
    return (*shape[: -len(axes)], *(axis.size for axis in axes))
