"""Distances between the rows of one matrix."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl


@composite(at=("nn.functional.pdist", "pdist"))
def pdist(F, input, p=2.0):
    """The `p`-norm of the difference of each pair of rows.

    The pairs are (0, 1), (0, 2), ... (1, 2), ... `input` is (N, M); gives N (N - 1) / 2 distances. Raises
    `RuntimeError` for other numbers of dimensions, integers, a negative `p`.

    >>> import plugrad as torch
    >>> torch.pdist(torch.tensor([[0., 0.], [3., 4.], [0., 1.]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist only supports floating-point dtypes, got: {input.dtype}; write input.float()")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.shape[0]
    one, other = plugrad.triu_indices(n, n, 1, device=input.device)
    apart = F.index_select(input, 0, one) - F.index_select(input, 0, other)
    if p == 0:
        return F.sum(F.abs(F.sign(apart)), -1)  # a count, whose gradient is zero
    return F.linalg_vector_norm(apart, p, -1)


@pdist.samples
def pdist_samples(make):
    for p in (1.0, 2.0, 3.0, float("inf")):
        yield make.args(make(4, 3), p)


@pdist.errors
def pdist_errors(make):
    yield RuntimeError, "only supports 2D tensors", make.args(make(4))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
