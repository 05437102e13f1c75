"""Writes into memory that overlaps itself, as that of expanded tensors, or the inputs: refused where PyTorch does."""

from __future__ import annotations

import math
import warnings

import numpy

from plugrad import Tensor, nest
from plugrad.autograd.forward_ad import check_out as check_tangents
from plugrad.autograd.graph import increment_version
from plugrad.autograd.rare.reshaped import keep_shape, unlock
from plugrad.dispatch.families import Elementwise
from plugrad.errors import warn
from plugrad.storage import memory_of
from plugrad.tensor.indices import is_basic_index

# Ops that PyTorch lets write there, and whether it warns of it.
_ALLOWED = {
    "masked_fill": True, "index_fill": True, "index_put": True, "setitem": True,
    "fill": False, "zero": False, "fill_diagonal": False, "tril": False, "triu": False, "nan_to_num": False,
}  # fmt: skip
_REFUSAL = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


def refuse_overlap():
    """Raise the error of a write into memory that overlaps itself."""
    raise RuntimeError(_REFUSAL)


def check_written_dtype(op, target, result) -> None:
    """Raise RuntimeError for a `dtype=` other than that of the tensor which an op writes in place."""
    if result is not target:
        told = f"input tensor dtype {target} and output tensor dtype {result} should match"
        raise RuntimeError(f"Bad in-place call: {told}; leave dtype= out of {op.name}_()")


def store_overlapping(error, op, target, values, result):
    """Write what an op of PyTorch's few changed of an expanded tensor; raise the error if it is none of them."""
    basic = op.name == "setitem" and values[1] == (Ellipsis,)
    basic = basic or op.name == "index_put" and values[3]  # what is added counts once for each place
    basic = basic or op.name == "fill" and isinstance(values[1], Tensor)
    recorded = target._edge is not None or result._edge is not None
    refused = basic or recorded or op.name == "nan_to_num" and target.is_floating_point()
    if error.args != (_REFUSAL,) or op.name not in _ALLOWED or refused:
        raise error
    if _ALLOWED[op.name]:
        name = "index_put" if op.name == "setitem" and isinstance(values[2], type(target)) else op.name
        warn(
            f"Use of {'masked_fill' if name == 'setitem' else name}_ on expanded tensors is deprecated. Please clone() "
            "the tensor before performing this operation. This also applies to advanced indexing e.g. tensor[mask] = "
            "scalar",
            UserWarning,
        )
    array, new = target._raw, result._raw.astype(target._raw.dtype)
    changed = ~((new == array) | (new != new) & (array != array))  # what is as it was does not undo what was written
    increment_version(target)
    unlocked = array[...]  # the array itself stays locked: the next write is asked about, too
    unlock(unlocked)
    unlocked[changed] = new[changed]
    return target


def _check_longer(tensor, shape) -> None:
    """Raise RuntimeError if the memory of a tensor is too short for a shape, and NumPy would not follow."""
    storage = memory_of(tensor)
    needed = (tensor.storage_offset() + math.prod(shape)) * tensor.element_size()
    if needed > storage.nbytes() and not storage.resizable():
        raise RuntimeError(
            "Trying to resize storage that is not resizable: an array of NumPy's shares it; clone() the tensor first"
        )


_RESIZED = (
    "An output with one or more elements was resized since it had shape {}, which does not match the required output "
    "shape {}. This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they "
    "have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with "
    "t.resize_(0)."
)


def resizing(out, result, warns: bool) -> None:
    """Prepare a tensor given as `out=` for the shape of the result, and other memory with it; say so if it `warns`."""
    if warns and out.numel():
        warnings.warn(_RESIZED.format(list(out.shape), list(result.shape)), stacklevel=6)
    if not out.is_meta and out.device.type == "cpu":
        _check_longer(out, result.shape)
    keep_shape(out)


# Ops that must write nothing of the memory of their inputs, and those that may only write all of it, as elementwise
# ones: what is written first would be read again.
_APART = frozenset(
    "cat cross gather index_add index_copy index_fill index_put index_reduce index_select kthvalue masked_select put "
    "scatter scatter_add scatter_reduce setitem stack take".split()
)
_SHIFTED = frozenset("div max median min nan_to_num".split())
_SHIFTED_OUT = _SHIFTED | set("addmv cumprod cumsum logcumsumexp renorm sort topk where".split())
_SHIFTED_IN_PLACE = _SHIFTED | set("addr bernoulli copy setitem".split())
_BY_ONE = frozenset({"masked_fill", "index_fill"})  # whose last argument is one element, which is read first
_SHARED = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def check_out(op, values, out) -> None:
    """Raise if a call can't write `out`: NotImplementedError for tangents, RuntimeError for memory of its inputs."""
    check_tangents(op, out)
    _check(op, values, out, _APART, _SHIFTED_OUT, not isinstance(op, Elementwise))


def check_read(op, target, values) -> None:
    """Raise RuntimeError if an op that writes `target` in place reads memory of it that it has written by then."""
    values = values[:-1] if op.name in _BY_ONE else values
    apart, read = _APART, [one for one in values[1:] if not isinstance(one, Tensor) or _may_show(target, one)]
    if op.name == "setitem" and values[1] == (Ellipsis,):  # it copies; what is expanded first may be a part
        apart, read = (), [value for value in read if isinstance(value, Tensor) and value.numel() == target.numel()]
    if op.name != "ldexp" and not _fills(op, values):  # which multiplies by a power
        _check(op, read, target, apart, _SHIFTED_IN_PLACE, not apart)


def _may_show(target, value) -> bool:
    """Whether one of two tensors can be a view of the other's memory; conjugates are copied before they are written."""
    views = target._is_view() or value._is_view()
    return views and not (target.is_conj() or value.is_conj() or target.is_neg() or value.is_neg())


def _fills(op, values) -> bool:
    """Whether an op fills the places of masks with one element, which it reads first."""
    if op.name not in ("setitem", "index_put") or op.name == "index_put" and values[3]:
        return False
    index = values[1] if isinstance(values[1], (tuple, list)) else (values[1],)
    masks = [item for item in index if isinstance(item, Tensor)]
    one = isinstance(values[2], Tensor) and values[2].numel() == 1
    return one and bool(masks) and all([str(mask.dtype) in ("torch.bool", "torch.uint8") for mask in masks])


def _check(op, values, written, apart, shifted, reduces) -> None:
    names, elementwise = {op.name, *op.names}, isinstance(op, Elementwise)
    wholly = not elementwise and not names.isdisjoint(apart)
    if wholly or elementwise or not names.isdisjoint(shifted):
        for value in nest.leaves(values) if wholly else values:
            if isinstance(value, Tensor) and _share(value._raw, written._raw, wholly, reduces):
                raise RuntimeError(_SHARED)


def meet(target, value, index=()) -> bool:
    """Whether a tensor may show memory that is to be written: another one's, or of its part with a basic index."""
    written = target._raw
    if index != () and is_basic_index(index if isinstance(index, tuple) else (index,)):
        written = written[index]
    return _overlap(written, value._raw)


def _begin(array) -> int | None:
    """Return the address of an array's first element; None if it has no memory."""
    if type(array) is numpy.ndarray:
        return array.__array_interface__["data"][0]
    return getattr(getattr(array, "data", None), "ptr", None)


def _overlap(one, other) -> bool:
    """Whether two arrays lie in the same memory, between their first and last elements."""
    if type(one) is type(other) is numpy.ndarray:
        return numpy.may_share_memory(one, other)
    begins = _begin(one), _begin(other)
    if None in begins or not one.size or not other.size:
        return False
    ends = [
        begin + sum([(n - 1) * step for n, step in zip(array.shape, array.strides)]) + array.itemsize
        for begin, array in zip(begins, (one, other))
    ]  # fmt: skip
    return begins[0] < ends[1] and begins[1] < ends[0]


def _is_dense(array) -> bool:
    """Whether the elements of an array lie one beside another, in some order of its dimensions."""
    expected = array.itemsize
    for step, n in sorted([(step, n) for step, n in zip(array.strides, array.shape) if n > 1]):
        if step != expected:
            return False
        expected *= n
    return True


def _share(one, other, wholly: bool, reduces: bool) -> bool:
    """Whether two dense arrays share memory; being the same elements, also of another shape if it `reduces`, may do."""
    if not _overlap(one, other) or _root(one) is not _root(other) or not _is_dense(one) or not _is_dense(other):
        return False
    same = one.nbytes == other.nbytes and _begin(one) == _begin(other)
    same = same and (_steps(one) == _steps(other) or reduces and one.shape != other.shape)  # not of a transpose
    return wholly or not same


def _steps(array) -> list:
    """Return the size and stride of each dimension; where there is one element only, strides mean nothing."""
    return [(n, step) if n > 1 else 1 for n, step in zip(array.shape, array.strides)]


def _root(array):
    """Return the array that an array is a view of: of a tensor's memory, not of what was handed out to NumPy."""
    base = array.base
    while base is not None and (type(base) is type(array) or not isinstance(base, numpy.ndarray)):
        array = base if type(base) is type(array) else array  # NumPy's as_strided puts an object of its own between
        base = getattr(base, "base", None)
    return array
