"""Sums along neighbouring dimensions on CUDA, by one launch, or two where many elements are added up."""

from __future__ import annotations

import functools
import math
import pathlib

from plugrad.extend import is_half, load_inline

_load = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_name("sums.cu"), per="block", arrays=2, threads=1024,
    types="floating",
)  # fmt: skip
rows = _load(name="sum_rows", numbers=3)
_parts_of_rows = _load(name="sum_parts_of_rows", numbers=3, wide=(1,))
_join_rows = _load(name="join_rows", numbers=3, wide=(0,))
_columns = _load(name="sum_columns", numbers=5)
_parts_of_columns = _load(name="sum_parts_of_columns", numbers=5, wide=(1,))
_join_columns = _load(name="join_columns", numbers=5, wide=(0,))
OF_ROW, OF_COLUMN = 1 << 17, 1 << 12  # elements that a block adds up of each
MOST = 65535  # a grid is no higher


def summed(xp, input, dim, keepdim, divisor=1):
    """Return the sum over dimensions, divided by a number; NotImplemented for what the kernels do not serve."""
    if dim.__class__ is int:
        first, last = dim, dim + 1
    elif dim is None or not dim:
        first, last = 0, input.ndim
    else:
        first, last = min(dim), max(dim) + 1
        if last - first != len(dim):
            return NotImplemented
    if not input.flags.c_contiguous and last - first > 1:  # those that are added up may lie in any order
        order = sorted(range(first, last), key=lambda dim: -input.strides[dim])
        input = input.transpose([*range(first), *order, *range(last, input.ndim)])
    shape = input.shape
    outer, n, inner = math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])
    each = OF_ROW if inner == 1 else OF_COLUMN
    parts = -(-n // each)
    if not input.size or not input.flags.c_contiguous or outer * parts > MOST or input.dtype.kind not in "fV":
        return NotImplemented
    out = xp.ndarray(shape[:first] + (1,) * (keepdim and last - first) + shape[last:], input.dtype)
    if inner == 1:
        if parts == 1:
            done = rows(input, out, n, n, divisor, blocks=(1, outer))
        else:
            apart = xp.ndarray((outer, parts), _of_sums(input))
            done = _parts_of_rows(input, apart, n, each, 1, blocks=(parts, outer))
            done = done if done is NotImplemented else _join_rows(apart, out, parts, parts, divisor, blocks=(1, outer))
    else:
        wide = -(-inner // 32)
        if parts == 1:
            done = _columns(input, out, n, n, inner, 1, divisor, blocks=(wide, outer))
        else:
            apart = xp.ndarray((outer, parts, inner), _of_sums(input))
            done = _parts_of_columns(input, apart, n, each, inner, parts, 1, blocks=(wide, outer * parts))
            if done is not NotImplemented:
                done = _join_columns(apart, out, parts, parts, inner, 1, divisor, blocks=(wide, outer))
    return out if done is None else done


def _of_sums(array):
    return "float32" if is_half(array.dtype) else array.dtype
