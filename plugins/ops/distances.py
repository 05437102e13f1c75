"""Distances and similarity of vectors."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, broadcast_shapes, collect, composite, hookimpl, native, op


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
    if x1.shape != x2.shape:
        x1, x2 = F.broadcast_tensors(x1, x2)
    one = F.clamp_min(F.linalg_vector_norm(x1, 2, dim, True), eps)
    other = F.clamp_min(F.linalg_vector_norm(x2, 2, dim, True), eps)
    return F.sum((x1 / one) * (x2 / other), dim)


def _count(F, apart):
    """How many elements differ, whose gradient is zero; NaN where elements cannot be compared."""
    return F.sum(F.where(F.isnan(apart), apart, F.abs(F.sign(apart))), -1)


@composite(
    at=("nn.functional.pairwise_distance", "pairwise_distance"), kinds={"x1": "tensor", "x2": "tensor", "p": "float"},
)  # fmt: skip
def pairwise_distance(F, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The `p`-norm of x1 - x2 + eps along the last dimension.

    >>> import plugrad as torch
    >>> torch.pairwise_distance(torch.tensor([[3., 0.]]), torch.tensor([[0., 4.]]))
    tensor([5.])
    """
    return F.norm(x1 - x2 + eps, p, -1, keepdim)


@cosine_similarity.samples
@pairwise_distance.samples
def pair_samples(make):
    yield make(3, 4), make(3, 4)


@op(at=(), node="CdistBackward0")
def euclidean_distances(xp, x1, x2):
    """The distance of each row of `x1` and each of `x2`.

    Of (*, P, M) and (*, R, M) it gives (*, P, R).
    """
    apart = x1[..., :, None, :] - x2[..., None, :, :]
    return xp.sqrt((apart * apart).sum(-1))


@euclidean_distances.meta
def euclidean_distances_meta(x1, x2):
    return (*x1.shape[:-1], x2.shape[-2]), x1.dtype


@euclidean_distances.vjp("x1", "x2")
def euclidean_distances_vjp(F, g, y, x1, x2, needs):
    apart = F.unsqueeze(x1, -2) - F.unsqueeze(x2, -3)
    share = apart / F.unsqueeze(F.where(y == 0, _INF, y), -1) * F.unsqueeze(g, -1)
    return F.sum(share, -2) if needs[0] else None, -F.sum(share, -3) if needs[1] else None


@euclidean_distances.kernel("cpu")
@native("distances", otherwise=euclidean_distances)
def euclidean_distances_in_c(call, xp, x1, x2):
    if not (x1.size and x2.size):
        return NotImplemented
    result = xp.empty((*x1.shape[:-1], x2.shape[-2]), x1.dtype)
    done = call(*[a.reshape(-1, *a.shape[-2:]) for a in (x1, x2, result)])
    return result if done is None else done


@euclidean_distances.vjp_kernel("cpu", "x1", "x2")
@native("distances_grad")
def euclidean_distances_grad_in_c(call, xp, g, y, x1, x2, needs):
    if not (x1.size and x2.size and g.flags.c_contiguous):
        return NotImplemented
    g, y, a, b = [array.reshape(-1, *array.shape[-2:]) for array in (g, y, x1, x2)]
    grads = [None, None]
    for i, pair in enumerate(((a, b), (b, a))):
        if needs[i]:
            grads[i] = xp.empty(pair[0].shape, y.dtype)
            if call(*pair, g, y, grads[i], i) is NotImplemented:
                return NotImplemented
    return [grad if grad is None else grad.reshape(x.shape) for grad, x in zip(grads, (x1, x2))]


@euclidean_distances.samples
def euclidean_distances_samples(make):
    yield make(3, 4), make(2, 4)
    yield make(2, 7, 3), make(2, 5, 3)


_INF = float("inf")


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
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode not in _CDIST_MODES:
        raise ValueError(
            f"{compute_mode} is not a valid value for compute_mode; write one of {', '.join(_CDIST_MODES)}"
        )
    x1, x2 = F.contiguous(x1), F.contiguous(x2)
    if p == 2 and x1.dtype in _NATIVE and x1.shape[-1]:
        if x1.shape[:-2] != x2.shape[:-2]:
            batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
            x1, x2 = (F.contiguous(F.expand(x, (*batch, *x.shape[-2:]))) for x in (x1, x2))
        return F.euclidean_distances(x1, x2)
    apart = F.unsqueeze(x1, -2) - F.unsqueeze(x2, -3)
    if p == 0:
        return _count(F, apart)
    if not x1.shape[-1]:
        return F.sum(apart, -1)
    return F.linalg_vector_norm(apart, p, -1)


_NATIVE = (plugrad.float32, plugrad.float64)
_CDIST_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@cdist.samples
def cdist_samples(make):
    yield make(3, 4), make(2, 4)
    yield make(2, 3, 4), make(2, 2, 4), 1.5


@composite(at=("nn.functional.pdist", "pdist"), kinds={"p": "float"}, autocast={"cuda": "float32"})
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
