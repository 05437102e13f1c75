"""Arithmetic of windows sliding over images, shared by convolution and pooling."""

from __future__ import annotations

from plugrad.extend import is_channels_last

from ._checks import as_int, ints

_SEEN: dict = {}  # by their ids, tuples of ints: layers hand over the same ones at each call


def key(value):
    """Return numbers as what can be a key of a cache; 1, 1.0 and True, which are equal, must not share one.

    Raises TypeError for a sequence of other things than ints and None.
    """
    if type(value) is int or _SEEN.get(id(value)) is value:
        return value
    if not isinstance(value, (tuple, list)):
        return value.item() if hasattr(value, "item") else value  # NumPy's numbers are compared otherwise
    try:
        if value and type(value[0]) is bool:
            raise TypeError
        numbers = tuple([item if item is None else as_int(item) for item in value])
    except TypeError:
        raise TypeError(f"expected a sequence of ints, but found {list(value)}") from None
    if type(value) is tuple and len(_SEEN) < 1024 and {int}.issuperset(map(type, value)):
        _SEEN[id(value)] = value
    return numbers


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
        return _checked(ints(value), name, function)
    return _checked((as_int(value),) * n, name, function)


def _checked(numbers, name, function):
    if max(map(abs, numbers), default=0) >= 1 << 31:  # no memory holds such an image
        fits = max(map(abs, numbers)) < 1 << 63
        text = f"Overflow when unpacking long long: {function} has {name}={numbers}"
        raise RuntimeError(text) if fits else ValueError(text)
    return numbers


def batch_last(xp, images):
    """Lay (N, C, *S) out as contiguous (C, *S, N).

    With the batch innermost a window that slides by one is still one long contiguous run, so that gathering
    windows, pooling and the element-wise ops that follow all move memory in large pieces.
    """
    images = images.transpose((*range(1, images.ndim), 0))
    return images if images.flags.c_contiguous else xp.ascontiguousarray(images)


def batch_first(images):
    """The logical (N, C, *S) view of `batch_last` memory."""
    return images.transpose((images.ndim - 1, *range(images.ndim - 1)))


def like_images(xp, result, *sources, any_order=False):
    """The images of `result` with the channels innermost in memory if those of a source have them there.

    Else they are row-major, or as they are in the result of an op in `any_order`.
    """
    if not any([is_channels_last(source.shape, source.strides) for source in sources]):
        # What nobody asked for channels innermost may have them there by chance, as with a batch of one.
        if any_order and (result.flags.c_contiguous or not is_channels_last(result.shape, result.strides)):
            return result
        return xp.ascontiguousarray(result)
    n = result.ndim
    images = result.transpose((0, *range(2, n), 1))
    # Of images of one pixel NumPy takes any strides for contiguous; a copy has those of the order.
    images = xp.array(images, order="C") if set(result.shape[2:]) == {1} else xp.ascontiguousarray(images)
    return images.transpose((0, n - 1, *range(1, n - 1)))


def window_count(size, kernel, stride, dilation, low, high):
    """How many windows fit along each axis, padding included (may be <= 0 when none does)."""
    return tuple(
        (s + a + b - d * (k - 1) - 1) // t + 1 for s, k, t, d, a, b in zip(size, kernel, stride, dilation, low, high)
    )


def grid(lengths):
    """Every position inside a box of these lengths, in row-major order."""
    positions = [()]
    for length in lengths:
        positions = [(*p, i) for p in positions for i in range(length)]
    return positions
