"""Writes into memory that overlaps itself, as that of expanded tensors: refused but for a few ops, as in PyTorch."""

from __future__ import annotations

from plugrad.autograd.graph import increment_version
from plugrad.autograd.rare.reshaped import unlock
from plugrad.errors import warn

# Ops that PyTorch lets write there, and whether it warns of it.
_ALLOWED = {
    "masked_fill": True, "index_fill": True, "index_put": True, "setitem": True,
    "fill_diagonal": False, "tril": False, "triu": False, "nan_to_num": False,
}  # fmt: skip
_REFUSAL = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


def refuse_overlap():
    """Raise the error of a write into memory that overlaps itself."""
    raise RuntimeError(_REFUSAL)


def store_overlapping(error, op, target, values, result):
    """Write what an op of PyTorch's few changed of an expanded tensor; raise the error if it is none of them."""
    basic = op.name == "setitem" and values[1] == (Ellipsis,)
    refused = basic or op.name == "nan_to_num" and target.is_floating_point() or target._edge or result._edge
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
    array, new = target._data, result._data.astype(target._data.dtype)
    changed = ~((new == array) | (new != new) & (array != array))  # what is as it was does not undo what was written
    increment_version(target)
    unlocked = array[...]  # the array itself stays locked: the next write is asked about, too
    unlock(unlocked)
    unlocked[changed] = new[changed]
    return target
