"""What libraries take from PyTorch's inside: `torch._utils`, `_six`, `nn.modules.utils`, `nn.common_types`."""

from __future__ import annotations

import collections.abc
import itertools
import math
import sys
import traceback
import typing

import plugrad

# What `torch._six` had while Python 2 was spoken.
PY3, string_classes, int_classes, container_abcs = True, (str, bytes), int, collections.abc
inf, nan = math.inf, math.nan


def _ntuple(n, name="parse"):
    """Return a function that makes an n-tuple of a single value, and a tuple of what can be iterated over."""

    def parse(x):
        return tuple(x) if isinstance(x, collections.abc.Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = map(_ntuple, (1, 2, 3, 4), ("_single", "_pair", "_triple", "_quadruple"))


# `torch.nn.common_types`: what a parameter of a layer may be, for annotations.
_T = typing.TypeVar("_T")
_scalar_or_tuple_any_t = _T | tuple[_T, ...]
_scalar_or_tuple_1_t, _scalar_or_tuple_2_t, _scalar_or_tuple_3_t, _scalar_or_tuple_4_t, _scalar_or_tuple_5_t, \
    _scalar_or_tuple_6_t = (_T | tuple[(_T,) * n] for n in range(1, 7))
_size_any_t = _scalar_or_tuple_any_t[int]
_size_1_t, _size_2_t, _size_3_t, _size_4_t, _size_5_t, _size_6_t = (int | tuple[(int,) * n] for n in range(1, 7))
_ratio_2_t, _ratio_3_t = (float | tuple[(float,) * n] for n in (2, 3))
_ratio_any_t = _scalar_or_tuple_any_t[float]
_tensor_list_t = list[plugrad.Tensor] | tuple[plugrad.Tensor, ...]
_maybe_indices_t = plugrad.Tensor | tuple[plugrad.Tensor, plugrad.Tensor]


def _reverse_repeat_tuple(t, n):
    """Return the items in reverse order, each n times.

    >>> _reverse_repeat_tuple((1, 2), 2)
    (2, 2, 1, 1)
    """
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    """Return sizes, with the last of the defaults where one is None."""
    if isinstance(out_size, int) or out_size is None:
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [default if size is None else size for size, default in zip(out_size, last)]


def consume_prefix_in_state_dict_if_present(state_dict, prefix) -> None:
    """Strip a prefix such as "module." from the keys of a state_dict, and of its metadata, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None) or {}
    for key in [key for key in metadata if key]:
        below = f"{key}.".startswith(prefix)
        if below:
            metadata[key.removeprefix(prefix) if key.startswith(prefix) else ""] = metadata.pop(key)


def _accumulate(iterable, fn=lambda x, y: x + y):
    return itertools.accumulate(iterable, fn)


def _flatten_dense_tensors(tensors):
    """Return all elements of tensors of one dtype as one row."""
    return plugrad.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Return views of a row of elements in the shapes of tensors."""
    pieces = flat.split([tensor.numel() for tensor in tensors])
    return tuple(piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors))


def _get_device_index(device, optional=False, allow_cpu=False) -> int:
    """Return the index of a device; -1 for a CPU where that is allowed."""
    if isinstance(device, int):
        return device
    device = plugrad.device(device) if device is not None else plugrad.device("cuda")
    if device.type == "cpu":
        if not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        return -1
    if device.index is None and not optional:
        raise ValueError(f"Expected a device with a specified index or an integer, but got: {device}")
    return device.index or 0


class ExceptionWrapper:
    """Another thread's or process's exception, to be raised with its traceback.

    Args:
        exc_info: as `sys.exc_info()` gives it, by default of the exception that is handled.
        where: said in the message.
    """

    def __init__(self, exc_info=None, where="in background"):
        kind, value, frames = exc_info or sys.exc_info()
        self.exc_type, self.where = kind, where
        self.exc_msg = "".join(traceback.format_exception(kind, value, frames))

    def reraise(self):
        """Raise an exception of the same type."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:  # whose text would be shown with quotes and escaped line breaks
            raise RuntimeError(message)
        try:
            exception = self.exc_type(message)
        except Exception:  # its constructor takes other arguments
            raise RuntimeError(message) from None
        raise exception


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """Return a Parameter of data, as pickles of parameters ask for it."""
    return plugrad.nn.Parameter(data, requires_grad)


def _element_size(dtype) -> int:
    """Return the bytes that an element takes; ValueError for what is no dtype."""
    if not isinstance(dtype, plugrad.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize
