"""Factorizations into triangular matrices: Cholesky, QR and LU."""

from __future__ import annotations

import bisect

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, op, write_out

from ._checks import underived
from ._linalg import (
    LinAlgError,
    adjoint,
    check_matrix,
    check_square,
    first_failure,
    raw_adjoint,
)

# ---------------------------------------------------------------- Cholesky


def _factored(xp, A):
    """Lower factors, or None if there is a matrix that is not positive definite."""
    try:
        factor = xp.linalg.cholesky(A)
    except xp.linalg.LinAlgError:
        return None
    # NumPy's LAPACK passes NaN on, PyTorch's refuses it; NaN anywhere on the diagonal spreads to its end.
    return None if xp.isnan(factor[..., -1:, -1:]).any() else factor


def _bad_minor(xp, matrix) -> int:
    """Order of the first leading minor that is not positive definite; 0 if all are."""
    n = matrix.shape[-1]
    orders = range(1, n + 1)
    return (bisect.bisect_left(orders, True, key=lambda k: _factored(xp, matrix[:k, :k]) is None) + 1) % (n + 1)


def _cholesky(xp, A, upper):
    """Lower factors and, for each matrix, the order of the minor that failed (its factor is then NaN)."""
    A = raw_adjoint(xp, A) if upper else A
    factor = _factored(xp, A)
    if factor is not None:
        return factor, xp.zeros(A.shape[:-2], "int32")
    n = A.shape[-1]
    orders = [_bad_minor(xp, matrix) for matrix in A.reshape(-1, n, n)]
    info = xp.asarray(orders, "int32").reshape(A.shape[:-2])
    bad = (info > 0)[..., None, None]
    factor = xp.linalg.cholesky(xp.where(bad, xp.eye(n, dtype=A.dtype), A))
    return xp.where(bad, A.dtype.type("nan"), factor), info


def _not_definite(name, info):
    batch, order = first_failure(info)
    return LinAlgError(
        f"{name}: {batch}The factorization could not be completed because the input "
        f"is not positive-definite (the leading minor of order {order} is not positive-definite)."
    )


@op(at=("linalg.cholesky_ex",), returns="L info", autocast={"cpu": "float32"})
def linalg_cholesky_ex(xp, input, *, upper=False, check_errors=False):
    """Cholesky factors, and for which matrices there is none: a named tuple (L, info).

    `info` is 0, or the order of the leading minor that is not positive definite; the factor is then NaN. With
    `check_errors` that raises.

    >>> import plugrad as torch
    >>> torch.linalg.cholesky_ex(-torch.eye(2)).info
    tensor(1, dtype=torch.int32)
    """
    check_square("linalg.cholesky_ex", input)
    factor, info = _cholesky(xp, input, upper)
    if check_errors and info.any():
        raise _not_definite("linalg.cholesky_ex", info)
    return raw_adjoint(xp, factor) if upper else factor, info


@linalg_cholesky_ex.meta
def linalg_cholesky_ex_meta(input, *, upper=False, check_errors=False):
    check_square("linalg.cholesky_ex", input)
    return [(input.shape, input.dtype), (input.shape[:-2], "int32")]


def cholesky_gradient(F, g, factor):
    """Gradient of a lower Cholesky factor: Murray, Differentiation of the Cholesky decomposition, 2016, (10)."""
    low = F.tril(F.matmul(adjoint(F, factor), g))
    both = (low + adjoint(F, F.tril(low, -1))) * 0.5
    upper = adjoint(F, factor)
    half = F.triangular_matrices(upper, both, True, False)
    return adjoint(F, F.triangular_matrices(upper, adjoint(F, half), True, False))


@linalg_cholesky_ex.vjp
def linalg_cholesky_ex_vjp(F, g, y0, upper):
    if upper:
        return cholesky_gradient(F, adjoint(F, g[0]), adjoint(F, y0))
    return cholesky_gradient(F, g[0], y0)


def _of_square(function, matrix):
    """The factor of a symmetric, positive definite matrix."""
    return function(matrix @ matrix.mT + plugrad.eye(3, dtype=matrix.dtype, device=matrix.device))


def _definite_samples(make):
    yield make.through(_of_square, make(3, 3))
    yield make.through(_of_square, make(2, 3, 3))


linalg_cholesky_ex.samples(_definite_samples)


@op(at=("linalg.cholesky",), node="LinalgCholeskyExBackward0", autocast={"cpu": "float32"})
def linalg_cholesky(xp, input, *, upper=False):
    """Lower triangular L with `A = L @ L^H` for positive definite A.

    With `upper` its conjugate transpose.

    Raises `torch.linalg.LinAlgError` when a matrix is not positive definite. Only one triangle of A is read.

    >>> import plugrad as torch
    >>> torch.linalg.cholesky(torch.tensor([[4., 0.], [0., 9.]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    return _checked_cholesky(xp, "linalg.cholesky", input, upper)


def _checked_cholesky(xp, name, A, upper):
    check_square(name, A)
    factor, info = _cholesky(xp, A, upper)
    if info.any():
        raise _not_definite(name, info)
    return raw_adjoint(xp, factor) if upper else factor


@op(autocast={"cpu": "float32"})
def cholesky(xp, input, upper=False):
    """Cholesky factor of positive definite matrices.

    `linalg.cholesky` is the newer form.

    >>> import plugrad as torch
    >>> torch.cholesky(torch.tensor([[4.]]))
    tensor([[2.]])
    """
    return _checked_cholesky(xp, "cholesky", input, upper)


def _one_factor_vjp(F, g, y, upper):
    return linalg_cholesky_ex_vjp(F, (g,), y, upper)


for _op in (linalg_cholesky, cholesky):
    _op.vjp(_one_factor_vjp)
    _op.samples(_definite_samples)
del _op


@linalg_cholesky.meta
def linalg_cholesky_meta(input, *, upper=False):
    check_square("linalg.cholesky", input)
    return input.shape, input.dtype


@cholesky.meta
def cholesky_meta(input, upper=False):
    check_square("cholesky", input)
    return input.shape, input.dtype


# ---------------------------------------------------------------- QR


@op(at=("linalg.qr",), returns="Q R", kinds={"mode": "str"}, autocast={"cpu": "float32"})
def linalg_qr(xp, A, mode="reduced"):
    """Orthogonal Q and upper triangular R with `A = Q @ R`: a named tuple (Q, R).

    Args:
        A: matrices (*, m, n).
        mode: "reduced" (Q has min(m, n) columns), "complete" (Q is square) or "r" (Q is empty).

    >>> import plugrad as torch
    >>> q, r = torch.linalg.qr(torch.tensor([[3., 0.], [4., 5.]]))
    >>> torch.allclose(q @ r, torch.tensor([[3., 0.], [4., 5.]]), atol=1e-6)
    True
    """
    check_matrix("linalg.qr", A)
    if mode == "r":
        return xp.zeros((0,), A.dtype), xp.linalg.qr(A, mode="r")
    if mode not in ("reduced", "complete"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    q, r = xp.linalg.qr(A, mode=mode)
    return q, r


@linalg_qr.meta
def linalg_qr_meta(A, mode="reduced"):
    check_matrix("linalg.qr", A)
    *batch, m, n = A.shape
    k = m if mode == "complete" else min(m, n)
    return [((0,) if mode == "r" else (*batch, m, k), A.dtype), ((*batch, k, n), A.dtype)]


@linalg_qr.vjp
def linalg_qr_vjp(F, g, y, A_shape, mode):
    m, n = A_shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, mode='reduced') if you are going to require gradients"
        )
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols; use mode='reduced'"
        )
    (for_q, for_r), (q, r) = g, y
    if m >= n:
        return _qr_gradient(F, q, r, for_q, for_r)
    # A wide matrix is [A1 | A2] with A1 = Q R1 and R2 = Q^H A2.
    rest, for_rest = r[..., m:], for_r[..., m:]
    for_q = for_q + F.matmul(q, F.matmul(rest, adjoint(F, for_rest)))
    first = _qr_gradient(F, q, r[..., :m], for_q, for_r[..., :m])
    return F.cat([first, F.matmul(q, for_rest)], -1)


@linalg_qr.samples
def linalg_qr_samples(make):
    yield make(3, 3)
    yield make(2, 4, 3)
    yield make(3, 4)


def _qr_gradient(F, q, r, for_q, for_r):
    """Walter and Lehmann, Algorithmic differentiation of linear algebra functions, 2010, section 2.4."""
    inner = F.triu(F.matmul(for_r, adjoint(F, r)) - F.matmul(adjoint(F, q), for_q))
    above = F.triu(inner, 1)
    # The diagonal of a Hermitian matrix is real, so only the real part of this one has an effect.
    diagonal = inner - above
    both = above + adjoint(F, above) + (diagonal + adjoint(F, diagonal)) * 0.5
    right = for_q + F.matmul(q, both)
    return adjoint(F, F.triangular_matrices(r, adjoint(F, right), True, False))


@composite(returns="Q R", autocast={"cpu": "float32"})
def qr(F, input, some=True):
    """QR factors; `linalg.qr` is the newer form, `some=False` its mode "complete".

    >>> import plugrad as torch
    >>> torch.qr(torch.eye(2)).R.shape
    torch.Size([2, 2])
    """
    return qr.returns(*F.linalg_qr(input, "reduced" if some else "complete"))


@qr.samples
def qr_samples(make):
    yield make(4, 3)


@op(returns="a tau", autocast={"cpu": "float32"})
def geqrf(xp, input):
    """QR factors as LAPACK packs them: a named tuple (a, tau).

    Householder vectors stand below R, their scales are `tau`.

    >>> import plugrad as torch
    >>> torch.geqrf(torch.eye(2)).tau
    tensor([0., 0.])
    """
    check_matrix("torch.geqrf", input)
    packed, tau = xp.linalg.qr(input, mode="raw")
    return packed.swapaxes(-2, -1), tau


geqrf.vjp(underived("geqrf"))


@geqrf.meta
def geqrf_meta(input):
    return [(input.shape, input.dtype), (input.shape[:-2] + (min(input.shape[-2:]),), input.dtype)]


@geqrf.samples
def geqrf_samples(make):
    yield make(4, 3, requires_grad=False)


@composite(at=("linalg.householder_product",), autocast={"cpu": "float32"})
def linalg_householder_product(F, input, tau, *, out=None):
    """First columns of a product of Householder reflections, as `geqrf` packs them.

    Args:
        input: matrices (*, m, n), m >= n, with a vector in each column, below the diagonal.
        tau: scales (*, k), k <= n.

    >>> import plugrad as torch
    >>> torch.linalg.householder_product(torch.eye(2), torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    name = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    m, n = input.shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if tau.ndim < 1 or n < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to "
            f"{tau.ndim} and input.ndim is equal to {input.ndim}"
        )
    if input.dtype != tau.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau.dtype} does not match input dtype {input.dtype}")
    identity = F.eye(m, n, dtype=input.dtype, device=input.device)
    vectors = F.tril(input, -1) + identity
    result = F.where(F.zeros_like(input, dtype=plugrad.bool), input, identity)  # keeps its place in the graph
    for j in reversed(range(tau.shape[-1])):
        vector = vectors[..., j : j + 1]
        scale = F.reshape(tau[..., j], (*tau.shape[:-1], 1, 1))
        result = result - scale * F.matmul(vector, F.matmul(F.transpose(F.conjugated(vector), -2, -1), result))
    return result if out is None else write_out(linalg_householder_product, result, out)


@composite(at=("orgqr", "Tensor.orgqr"), kinds={"input2": "tensor"})
def orgqr(F, input, input2, *, out=None):
    """First columns of a product of reflections: `linalg.householder_product`.

    >>> import plugrad as torch
    >>> torch.orgqr(torch.eye(2), torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return F.linalg_householder_product(input, input2, out=out)


@linalg_householder_product.samples
@orgqr.samples
def linalg_householder_product_samples(make):
    yield make(4, 3), make(3, low=0.5, high=1.5)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
