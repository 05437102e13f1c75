"""Distances and similarity of vectors."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl


@composite(at=("nn.functional.cosine_similarity", "cosine_similarity"), autocast={"cuda": "float32"})
def cosine_similarity(F, x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along `dim`.

    Norms are taken to be at least `eps`.
    Raises RuntimeError when neither argument is floating point.

    >>> import plugrad as torch
    >>> torch.cosine_similarity(torch.tensor([[1., 0.]]), torch.tensor([[1., 1.]]))
    tensor([0.7071])
    """
    if x1.dtype.is_complex or x2.dtype.is_complex or not (x1.dtype.is_floating_point or x2.dtype.is_floating_point):
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {x1.dtype}, {x2.dtype}")
    if eps < 0:
        raise RuntimeError(f"cosine_similarity(): eps must be non-negative, but got {eps}")
    if x1.dtype != x2.dtype:
        common = (x1[..., :0] + x2[..., :0]).dtype if x1.ndim and x2.ndim else (x1 + x2).dtype
        x1, x2 = x1.to(common), x2.to(common)
    x1, x2 = F.broadcast_tensors(x1, x2)
    one = F.clamp_min(F.norm(x1, 2, dim, True), eps)
    other = F.clamp_min(F.norm(x2, 2, dim, True), eps)
    return F.sum((x1 / one) * (x2 / other), dim)


def _count(F, apart):
    """How many elements differ, whose gradient is zero; NaN where elements cannot be compared."""
    return F.sum(F.where(F.isnan(apart), apart, F.abs(F.sign(apart))), -1)


@composite(at=("nn.functional.pairwise_distance", "pairwise_distance"), kinds={"x1": "tensor", "x2": "tensor"})
def pairwise_distance(F, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The `p`-norm of x1 - x2 + eps along the last dimension.

    >>> import plugrad as torch
    >>> torch.pairwise_distance(torch.tensor([[3., 0.]]), torch.tensor([[0., 4.]]))
    tensor([5.])
    """
    return F.norm(x1 - x2 + eps, p, -1, keepdim)


@composite(kinds={"p": "float", "compute_mode": "any"}, autocast="float32")
def cdist(F, x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The `p`-norm of the difference of each row of `x1` and each of `x2`.

    Args:
        x1, x2: shapes (*, P, M) and (*, R, M); the result is (*, P, R).
        p: not negative; infinity is allowed.
        compute_mode: PyTorch's ways to compute it, accepted: differences are always taken one by one.

    >>> import plugrad as torch
    >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    for name, value in (("X1", x1), ("X2", x2)):
        if not value.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {value.dtype}")
        if value.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {value.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if x1.dtype is not x2.dtype:
        raise RuntimeError(f"expected one dtype, but X1 is {x1.dtype} and X2 {x2.dtype}; convert one with .to()")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode not in _CDIST_MODES:
        raise ValueError(
            f"{compute_mode} is not a valid value for compute_mode; write one of {', '.join(_CDIST_MODES)}"
        )
    apart = F.unsqueeze(F.contiguous(x1), -2) - F.unsqueeze(F.contiguous(x2), -3)
    if p == 0:
        return _count(F, apart)
    if not x1.shape[-1]:
        return F.sum(apart, -1)
    return F.linalg_vector_norm(apart, p, -1)


_CDIST_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@cdist.samples
def cdist_samples(make):
    yield make(3, 4), make(2, 4)
    yield make(2, 3, 4), make(2, 2, 4), 1.5


@cosine_similarity.samples
@pairwise_distance.samples
def pair_samples(make):
    yield make(3, 4), make(3, 4)


@composite(at=("nn.functional.pdist", "pdist"), autocast={"cuda": "float32"})
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
    if not p >= 0:  # NaN, too
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.shape[0]
    one, other = plugrad.triu_indices(n, n, 1, device=input.device)
    apart = F.index_select(input, 0, one) - F.index_select(input, 0, other)
    if p == 0:
        return _count(F, apart)
    return F.linalg_vector_norm(apart, p, -1)


@pdist.samples
def pdist_samples(make):
    for p in (1.0, 2.0, 3.0, float("inf")):
        yield make.args(make(4, 3), p)


@pdist.errors
def pdist_errors(make):
    yield RuntimeError, "only supports 2D tensors", make.args(make(4))
    yield RuntimeError, "non-negative p", make.args(make(4, 3), float("nan"))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
