"""Few singular values, principal components and eigenvectors of matrices."""

from __future__ import annotations

import plugrad
from plugrad.overrides import overridable


def _basis(A, q: int, niter: int, M: plugrad.Tensor | None):
    """Return orthonormal columns that nearly span the range of A - M, by iterating on random ones."""
    R = plugrad.randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype, device=A.device)
    A = A if M is None else A - M
    Q = plugrad.linalg.qr(A @ R).Q
    for _ in range(niter):
        Q = plugrad.linalg.qr(A.mH @ Q).Q
        Q = plugrad.linalg.qr(A @ Q).Q
    return Q


@overridable
def svd_lowrank(A, q: int | None = 6, niter: int | None = 2, M: plugrad.Tensor | None = None):
    """Return (U, S, V) with the q largest singular values of A, or of A - M.

    The values are exact where the rank is at most q; more iterations `niter` make others more exact.

    >>> import plugrad as torch
    >>> A = torch.outer(torch.arange(1.0, 9.0), torch.ones(6))
    >>> U, S, V = torch.svd_lowrank(A, q=2)
    >>> torch.allclose(U @ torch.diag(S) @ V.T, A, atol=1e-4)
    True
    """
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    m, n = A.shape[-2:]
    centred = A if M is None else A - M
    if m < n:
        Q = _basis(A.mH, q, niter, None if M is None else M.expand_as(A).mH)
        U, S, Vh = plugrad.linalg.svd((centred @ Q), full_matrices=False)
        return U, S, Q @ Vh.mH
    Q = _basis(A, q, niter, M)
    U, S, Vh = plugrad.linalg.svd(Q.mH @ centred, full_matrices=False)
    return Q @ U, S, Vh.mH


@overridable
def pca_lowrank(A, q: int | None = None, center: bool = True, niter: int = 2):
    """Return (U, S, V) of principal components: `A @ V` are the projections.

    Args:
        A: shape (*, items, features).
        q: how many, by default min(6, items, features).
        center: whether to subtract the mean of each feature.
        niter: iterations, which make it more exact.

    Raises ValueError for a q that is greater than the matrix.
    """
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


@overridable
def lobpcg(
    A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
    ortho_iparams=None, ortho_fparams=None, ortho_bparams=None,
):  # fmt: skip
    """Return k extreme eigenvalues of a symmetric matrix, and their eigenvectors.

    They are computed exactly, from all of them, so that starting vectors, preconditioner, iterations and tolerance are
    accepted and have no meaning.

    Args:
        A: symmetric, shape (*, m, m).
        k: how many; by default as X has columns, or 1.
        B: symmetric positive definite, of the problem A x = E B x; the identity when None.
        largest: whether the greatest are wanted, the default.

    Raises ValueError for a matrix of fewer than 3 k rows, as PyTorch's algorithm needs them.

    >>> import plugrad as torch
    >>> torch.lobpcg(torch.diag(torch.tensor([1.0, 5.0, 3.0])), 1)[0]
    tensor([5.])
    """
    k = k or n or (1 if X is None else X.shape[-1])
    m = A.shape[-1]
    if m < 3 * k:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={k})"
        )
    L = None
    if B is not None:
        L = plugrad.linalg.cholesky(B)
        A = plugrad.linalg.solve_triangular(L, plugrad.linalg.solve_triangular(L, A, upper=False).mH, upper=False).mH
    values, vectors = plugrad.linalg.eigh(A)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    values, vectors = values[..., :k], vectors[..., :k]
    return values, vectors if L is None else plugrad.linalg.solve_triangular(L.mH, vectors, upper=True)
