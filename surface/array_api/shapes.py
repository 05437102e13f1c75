"""The standard's functions that rearrange and index arrays."""

from __future__ import annotations

import plugrad as torch
from plugrad.array_api.dtypes import together

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat",
    "reshape", "roll", "squeeze", "stack", "take", "take_along_axis", "tile", "unstack",
]  # fmt: skip


def broadcast_arrays(*arrays):
    """Arrays expanded to their common shape."""
    return list(torch.broadcast_tensors(*arrays))


def broadcast_to(x, /, shape):
    """An array expanded to a shape."""
    return torch.broadcast_to(x, shape)


def concat(arrays, /, *, axis=0):
    """Arrays one after the other along an axis; flattened for `axis=None`."""
    arrays = together(*arrays)
    return torch.cat([one.reshape(-1) for one in arrays], 0) if axis is None else torch.cat(arrays, axis)


def stack(arrays, /, *, axis=0):
    """Arrays side by side along a new axis."""
    return torch.stack(together(*arrays), axis)


def unstack(x, /, *, axis=0):
    """The slices along an axis, as a tuple."""
    return torch.unbind(x, axis)


def expand_dims(x, /, axis):
    """An array with a new axis of size 1."""
    return torch.unsqueeze(x, axis)


def squeeze(x, /, axis):
    """An array without some axes of size 1; ValueError for others."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    for one in axes:
        if x.shape[one] != 1:
            raise ValueError(f"axis {one} has size {x.shape[one]}: only axes of size 1 can be left out")
    return torch.squeeze(x, axes)


def flip(x, /, *, axis=None):
    """An array with the elements along axes, by default all, in reverse order."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return torch.flip(x, axes) if axes else x.clone()


def roll(x, /, shift, *, axis=None):
    """An array rolled along axes: what leaves comes in again at the other end."""
    return torch.roll(x, shift) if axis is None else torch.roll(x, shift, axis)


def moveaxis(x, source, destination, /):
    """An array with some axes in other places."""
    return torch.movedim(x, source, destination)


def permute_dims(x, /, axes):
    """An array with its axes in another order."""
    return torch.permute(x, axes)


def reshape(x, /, shape, *, copy=None):
    """An array of another shape.

    `copy=False` raises ValueError where its memory can't be kept.
    """
    if copy is False:
        try:
            return x.view(shape)
        except RuntimeError as error:
            raise ValueError(f"this array can't be reshaped without a copy: {error}") from None
    result = torch.reshape(x, shape)
    return result.clone() if copy and result._is_view() else result


def repeat(x, repeats, /, *, axis=None):
    """An array with each element repeated along an axis, or flattened."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    return torch.repeat_interleave(x, repeats if isinstance(repeats, int) else repeats.to(torch.int64), axis)


def tile(x, repetitions, /):
    """An array repeated as a whole along its axes."""
    return torch.tile(x, repetitions)


def take(x, indices, /, *, axis=None):
    """The slices along an axis that 1-d indices name.

    Only 1-d arrays go without an axis.
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"axis is needed for an array of {x.ndim} dimensions: only 1-d arrays go without")
        axis = 0
    return torch.index_select(x, axis, indices)


def take_along_axis(x, indices, /, *, axis=-1):
    """The elements that indices name, one for each place, along an axis."""
    return torch.take_along_dim(x, indices, axis)
