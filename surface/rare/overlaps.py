"""Writes into memory that overlaps itself, as that of expanded tensors, or the inputs: refused where PyTorch does."""

from __future__ import annotations

import warnings

import numpy

from plugrad import Tensor, nest
from plugrad.autograd.forward_ad import check_out as check_tangents
from plugrad.autograd.graph import increment_version
from plugrad.autograd.rare.reshaped import keep_shape, unlock
from plugrad.dispatch.families import Elementwise
from plugrad.errors import warn

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
    keep_shape(out)


# Ops whose `out=` must have nothing of the memory of their inputs, and those where it may only be all of it, as of
# elementwise ones: what is written first would be read again.
_APART = frozenset(
    "cat cross gather index_add index_copy index_select kthvalue masked_select scatter scatter_add stack take".split()
)
_SHIFTED = frozenset(
    "addmv cumprod cumsum div logcumsumexp max median min nan_to_num renorm sort topk where".split()
)
_SHARED = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def check_out(op, values, out) -> None:
    """Raise if a call can't write `out`: NotImplementedError for tangents, RuntimeError for memory of its inputs."""
    check_tangents(op, out)
    shifted = isinstance(op, Elementwise)
    apart = not shifted and not _APART.isdisjoint(op.names)
    if shifted or apart or not _SHIFTED.isdisjoint(op.names):
        for value in nest.leaves(values) if apart else values:
            if isinstance(value, Tensor) and _share(value._raw, out._raw, apart):
                raise RuntimeError(_SHARED)


def _share(one, other, wholly: bool) -> bool:
    """Whether two dense arrays share memory; being the same elements counts `wholly` only."""
    if not type(one) is type(other) is numpy.ndarray or not numpy.may_share_memory(one, other):
        return False
    if not (one.flags.forc and other.flags.forc):
        return False
    same = one.nbytes == other.nbytes and one.__array_interface__["data"] == other.__array_interface__["data"]
    same = same and (one.strides == other.strides or one.shape != other.shape)  # a transpose has them elsewhere
    return wholly or not same
