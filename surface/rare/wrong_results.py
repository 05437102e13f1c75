"""What plugins return that is no result: errors that name the record, whose it is, and what to return instead."""

from __future__ import annotations

import numbers

import numpy

from plugrad import Tensor
from plugrad.nest import leaves

MAKES_NO_DTYPE = "OSUmM"  # kinds of NumPy's dtypes that no tensor has


def named(record) -> str:
    """Return how a message names an op: with the distribution that brings it, if one does.

    >>> from plugrad import registry
    >>> named(registry.op("exp"))
    "op 'exp' of plugrad"
    """
    return f"op {record.qualname!r}{whose(record)}"


def whose(record) -> str:
    """Return how a message says which distribution brings a record; nothing for what the program defines itself."""
    provider = record.provider
    return "" if provider is None or provider.distribution == "session" else f" of {provider.distribution}"


def told(value) -> str:
    """Return in a few words what a value is."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None and not isinstance(value, Tensor):
        return f"{value!r:.100}, a {type(value).__name__} of dtype {dtype}"
    return "None" if value is None else f"{value!r:.100}, a {type(value).__name__}"


def wrong_result(op, value) -> TypeError:
    """Return the error for a kernel that returned neither an array, nor a number, nor a tuple of such."""
    return TypeError(
        f"the kernel of {named(op)} returned {told(value)}: it must return an array of numbers, or a tuple of arrays. "
        "It gets arrays, not Tensors, and computes with `xp`; what is written in other ops is declared by @composite"
    )


def composed(op, result):
    """Return what a third party's composite made; TypeError for arrays, iterators and NotImplemented."""
    for one in leaves(result):
        is_array = hasattr(one, "dtype") and hasattr(one, "strides") and not isinstance(one, Tensor)
        if is_array or one is NotImplemented or hasattr(one, "__next__"):
            raise TypeError(
                f"{named(op)}, a composite, returned {told(one)}: it must return what the ops that it calls return, "
                "Tensors, or a tuple or list of these; what computes with arrays is a kernel, see @op"
            )
    return result


def wrong_length(op, count) -> TypeError:
    """Return the error for a kernel that returned so many results where its record names others."""
    fields = op.returns._fields
    return TypeError(
        f"the kernel of {named(op)} returned {count}: it must return a tuple of {len(fields)}, as "
        f"returns={' '.join(fields)!r} says"
    )


def rule_of(op, raw):
    """Return what the shape rule of an op says for raw arguments; TypeError where that is no shape and dtype."""
    n = len(op.positional)
    said = op.meta_function(*raw[:n], **dict(zip(op.keyword_only, raw[n:])))
    if op.trusted:
        return said
    several = isinstance(said, list) or isinstance(said, tuple) and len(said) > 0 and isinstance(said[-1], tuple)
    pairs = said if several else [said]
    if not all(map(_is_pair, pairs)) or not pairs and isinstance(said, tuple):
        raise TypeError(
            f"the shape rule of {named(op)} returned {told(said)}: it must return (shape, dtype), a tuple of sizes,"
            " none of them below 0, and NumPy's dtype, such as (input.shape, input.dtype), or a tuple of "
            "such pairs, one for each result"
        )
    return said


def _is_pair(pair) -> bool:
    if not isinstance(pair, tuple) or not 2 <= len(pair) <= 3 or not isinstance(pair[0], (tuple, list)):
        return False
    if not all(isinstance(n, numbers.Integral) and n >= 0 for n in pair[0]) or isinstance(pair[1], Tensor):
        return False
    try:
        kind = numpy.dtype(pair[1]).kind
    except TypeError:
        return False
    return pair[1] is not None and kind not in MAKES_NO_DTYPE and isinstance(pair[-1], list) is (len(pair) == 3)


def check_tangents(op, tangents, count: int) -> tuple:
    """Return what a jvp rule gave as a tuple of tangents; TypeError unless these are Tensors or None, one a result."""
    given = tangents if isinstance(tangents, (tuple, list)) else (tangents,) * (count if tangents is None else 1)
    if len(given) != count or not all(one is None or isinstance(one, Tensor) for one in given):
        wanted = "a Tensor, computed with `F`, or None" if count == 1 else f"a tuple of {count} Tensors, one for each"
        raise TypeError(f"the jvp of {named(op)} returned {told(tangents)}: it must return {wanted}")
    return tuple(given)


def check_batch(op, pair, size: int):
    """Return what a rule for batches gave, (results, their dims); TypeError or ValueError for anything else."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(
            f"the vmap rule of {named(op)} returned {told(pair)}: it must return (result, out_dims), or NotImplemented"
        )
    results, placed = pair
    leaves = results if isinstance(results, (tuple, list)) else (results,)
    dims = placed if isinstance(placed, (tuple, list)) else (placed,) * len(leaves)
    right = len(dims) == len(leaves) and all(isinstance(one, Tensor) for one in leaves)
    if not right or not all(dim is None or isinstance(dim, int) and not isinstance(dim, bool) for dim in dims):
        raise TypeError(
            f"the vmap rule of {named(op)} returned {told(pair)}: its results must be Tensors, with an int for each "
            "that says where the batch is in it, or None"
        )
    for one, dim in zip(leaves, dims):
        if dim is not None and (not -one.ndim <= dim < one.ndim or one.shape[dim] != size):
            raise ValueError(
                f"the vmap rule of {named(op)} says that the batch of {size} is dimension {dim} of a result of shape "
                f"{list(one.shape)}"
            )
    return pair
