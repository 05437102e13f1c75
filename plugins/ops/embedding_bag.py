"""Bags of embeddings: sums, means and maxima of rows looked up together."""

from __future__ import annotations

import warnings

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl


def _flatten(input, offsets, per_sample_weights, include_last_offset):
    """The indices of all bags in a row, where each bag starts, and the weights in a row."""
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        bags, length = input.shape
        starts = plugrad.arange(bags, device=input.device) * length
        weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        return input.reshape(-1), starts, weights
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if offsets.numel() and not offsets.is_meta:
        if int(offsets[0]) != 0:
            raise RuntimeError(
                f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                f"However, got {int(offsets[0])}"
            )
        if int(offsets[-1]) > input.shape[0]:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {input.shape[0]} but got offsets[-1] of "
                f"{int(offsets[-1])}"
            )
    elif include_last_offset and not offsets.numel():
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    return input, offsets[:-1] if include_last_offset else offsets, per_sample_weights


def _check_indices(input, offsets, weight, padding_idx):
    for indices in (input, offsets):
        if indices is not None and indices.dtype not in (plugrad.int64, plugrad.int32, plugrad.int16, plugrad.int8):
            raise RuntimeError(
                "embedding_bag: Expected tensor for argument #1 'indices' to have one of the following scalar types: "
                f"Long, Int; but got {indices.dtype} instead; convert it with .long()"
            )
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but got {padding_idx}"
        )
    if input.numel() and not input.is_meta:
        for idx in (int(input.min()), int(input.max())):
            if not 0 <= idx < rows:
                raise RuntimeError(
                    "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be "
                    f"{idx}, of {rows} embeddings"
                )


def _check_mode(mode, weight, scale_grad_by_freq, sparse, per_sample_weights):
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if not weight.is_floating_point():
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, "
            f"Float, Double; but got {weight.dtype}: convert it with .float()"
        )
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}')."
        )


def _largest(F, rows, bag, empty):
    """The largest element of each bag and column, of equal ones the first; where bags are empty, what `empty` has."""
    values, n = rows.detach(), rows.shape[0]
    most = F.index_reduce(empty, 0, bag, values, "amax", include_self=False)[bag]
    places = F.where((values == most) | (values != values), F.arange(n, device=rows.device)[:, None], n)
    first = F.index_reduce(F.full_like(empty, n, dtype=places.dtype), 0, bag, places, "amin")
    return F.gather(F.cat([rows, empty.new_zeros((1, rows.shape[1]))]), 0, first)


@composite(at=("nn.functional.embedding_bag",))
def embedding_bag(
    F, input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """Sum, mean or maximum of the rows of a table that each bag of indices names.

    Args:
        input: indices, (B, n) for bags of one size, or (n) for bags one after another.
        weight: the table, (V, E).
        offsets: (B), where each bag of a 1-d `input` starts.
        max_norm, norm_type: scale rows of a greater norm down first, in place.
        scale_grad_by_freq: divide gradients of a row by how often it was looked up.
        mode: "sum", "mean" or "max"; empty bags give zeros.
        sparse: the gradient of a leaf is a sparse tensor; not for "max".
        per_sample_weights: factors of the rows, shaped like `input`; for sums only.
        include_last_offset: the last element of `offsets` is not a bag, but where the last one ends.
        padding_idx: an index that does not count.

    Gives (B, E). Raises `ValueError` for arguments that do not fit, `RuntimeError` for indices out of range.

    >>> import plugrad as torch
    >>> table = torch.tensor([[1., 2.], [3., 4.]])
    >>> torch.nn.functional.embedding_bag(torch.tensor([0, 1, 1]), table, torch.tensor([0, 2]))
    tensor([[2., 3.],
            [3., 4.]])
    """
    if weight.dtype is plugrad.int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=3,
        )
        input, weight = weight, input
    input, starts, factors = _flatten(input, offsets, per_sample_weights, include_last_offset)
    _check_mode(mode, weight, scale_grad_by_freq, sparse, factors)
    _check_indices(input, offsets, weight, padding_idx)
    if offsets is not None and offsets.dtype != input.dtype:
        input = input.to(plugrad.promote_types(input.dtype, offsets.dtype))
    if factors is not None and factors.dtype != weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights', but they are {weight.dtype} and {factors.dtype}; convert one with .to(dtype)"
        )
    bags = starts.shape[0]
    places = plugrad.arange(input.shape[0], dtype=starts.dtype, device=input.device)
    bag = F.searchsorted(starts, places, right=True) - 1
    if padding_idx is not None:
        kept = F.reshape(F.nonzero(input != padding_idx % weight.shape[0]), (-1,))
        input, bag = input[kept], bag[kept]
        factors = None if factors is None else factors[kept]
    rows = F.functional_embedding(input, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    if factors is not None:
        rows = rows * F.unsqueeze(factors, 1)
    empty = rows.new_zeros((bags, weight.shape[1]))
    if mode == "max":
        return _largest(F, rows, bag, empty)
    total = F.index_add(empty, 0, bag, rows)
    if mode == "sum":
        return total
    counts = F.index_add(rows.new_zeros(bags), 0, bag, rows.new_ones(bag.shape[0]))
    return total / F.unsqueeze(F.clamp_min(counts, 1), 1)


@embedding_bag.samples
def embedding_bag_samples(make):
    for mode in ("sum", "mean", "max"):
        yield make.args(make.ints(2, 3, low=0, high=5), make(5, 4), mode=mode)
    yield make.args(
        make.ints(6, low=0, high=5), make(5, 4), plugrad.tensor([0, 2, 2, 5]), mode="sum", per_sample_weights=make(6)
    )


@embedding_bag.errors
def embedding_bag_errors(make):
    yield ValueError, "offsets has to be a 1D Tensor", make.args(make.ints(3), make(3, 2))
    yield RuntimeError, "Expected idx >= 0", make.args(make.ints(2, 3, low=3, high=5), make(3, 2))
    yield ValueError, "mode has to be one of", make.args(make.ints(2, 3), make(3, 2), mode="min")


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
