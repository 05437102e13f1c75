"""The standard's extension for linear algebra, and the products that it has in its main namespace."""

from __future__ import annotations

from math import inf

import plugrad as torch
from plugrad.array_api.dtypes import together
from plugrad.array_api.reductions import sum as _sum

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip


def matmul(x1, x2, /):
    """Product of matrices, of stacks of them, or of vectors."""
    return torch.matmul(*together(x1, x2))


def matrix_transpose(x, /):
    """Matrices with rows and columns exchanged."""
    return x.mT


def tensordot(x1, x2, /, *, axes=2):
    """Sum of products over some axes of both.

    A number takes the last ones of the first array and the first ones of the other; two lists name them.
    """
    return torch.tensordot(*together(x1, x2), dims=axes)


def vecdot(x1, x2, /, *, axis=-1):
    """Inner product along an axis; of complex arrays the first is conjugated."""
    x1, x2 = together(x1, x2)
    if x1.dtype.is_floating_point or x1.dtype.is_complex:
        return torch.linalg.vecdot(x1, x2, dim=axis)
    return torch.sum(x1 * x2, axis, dtype=x1.dtype)


def outer(x1, x2, /):
    """Products of each element of a vector with each of another."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer() takes two vectors, got arrays of {x1.ndim} and {x2.ndim} dimensions")
    x1, x2 = together(x1, x2)
    return x1[:, None] * x2


def cross(x1, x2, /, *, axis=-1):
    """Cross products of vectors of three elements along an axis."""
    return torch.linalg.cross(*torch.broadcast_tensors(*together(x1, x2)), dim=axis)


def cholesky(x, /, *, upper=False):
    """The lower or upper triangular factor of positive definite matrices."""
    return torch.linalg.cholesky(x, upper=upper)


def det(x, /):
    """Determinants."""
    return torch.linalg.det(x)


def diagonal(x, /, *, offset=0):
    """A diagonal of each matrix: the main one, or the one that `offset` above it."""
    return torch.linalg.diagonal(x, offset=offset)


def trace(x, /, *, offset=0, dtype=None):
    """Sum of a diagonal of each matrix."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def eigh(x, /):
    """Eigenvalues and eigenvectors of Hermitian matrices."""
    return torch.linalg.eigh(x)


def eigvalsh(x, /):
    """Eigenvalues of Hermitian matrices."""
    return torch.linalg.eigvalsh(x)


def inv(x, /):
    """Inverses of square matrices."""
    return torch.linalg.inv(x)


def pinv(x, /, *, rtol=None):
    """Pseudo-inverses; singular values below `rtol` times the greatest count as zero."""
    return torch.linalg.pinv(x, rtol=rtol)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """Norms of matrices: a name or an order."""
    return torch.linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """Norms of vectors along axes, or of all elements."""
    if axis == ():
        return abs(x) if ord not in (0, inf, -inf) else torch.linalg.vector_norm(x[None], ord, 0)
    return torch.linalg.vector_norm(x, ord, axis, keepdims)


def matrix_power(x, n, /):
    """Square matrices to an integer power."""
    return torch.linalg.matrix_power(x, n)


def matrix_rank(x, /, *, rtol=None):
    """Ranks: how many singular values are above `rtol` times the greatest."""
    return torch.linalg.matrix_rank(x, rtol=rtol)


def qr(x, /, *, mode="reduced"):
    """Orthogonal and upper triangular factors."""
    return torch.linalg.qr(x, mode)


def slogdet(x, /):
    """Sign and logarithm of the absolute value of determinants."""
    return torch.linalg.slogdet(x)


def solve(x1, x2, /):
    """The solutions of systems of linear equations; a 1-d x2 is one vector for all matrices."""
    x1, x2 = together(x1, x2)
    if x2.ndim == 1:
        return torch.linalg.solve(x1, x2[:, None])[..., 0]
    return torch.linalg.solve(x1, x2)


def svd(x, /, *, full_matrices=True):
    """Singular value decompositions: U, S, Vh."""
    return torch.linalg.svd(x, full_matrices)


def svdvals(x, /):
    """Singular values."""
    return torch.linalg.svdvals(x)
