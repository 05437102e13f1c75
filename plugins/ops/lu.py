"""LU factors of matrices, and solutions from them."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, op, write_out

from ._linalg import Described, adjoint, check_matrix, check_square, first_failure, first_zero, lu_packed


@op(at=("linalg.lu_factor_ex",), returns="LU pivots info")
def linalg_lu_factor_ex(xp, A, *, pivot=True, check_errors=False):
    """Packed LU factors, row swaps, and which matrices are singular.

    A named tuple (LU, pivots, info).

    >>> import plugrad as torch
    >>> torch.linalg.lu_factor_ex(torch.eye(2)).pivots
    tensor([1, 2], dtype=torch.int32)
    """
    check_matrix("torch.linalg.lu_factor_ex", A)
    lu, pivots = lu_packed(xp, A, pivot)
    info = first_zero(xp, lu)
    if check_errors and info.any():
        raise _singular_lu("torch.linalg.lu_factor_ex", info)
    return lu, pivots, info


def _singular_lu(name, info):
    batch, number = first_failure(info)
    return RuntimeError(
        f"{name}: {batch}U[{number},{number}] is zero and using it on lu_solve would result in a division by "
        "zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)"
    )


@linalg_lu_factor_ex.meta
def linalg_lu_factor_ex_meta(A, *, pivot=True, check_errors=False):
    check_matrix("torch.linalg.lu_factor_ex", A)
    batch, k = A.shape[:-2], min(A.shape[-2:])
    return [(A.shape, A.dtype), (batch + (k,), "int32"), (batch, "int32")]


@linalg_lu_factor_ex.vjp
def linalg_lu_factor_ex_vjp(F, g, y0, y1, A_shape):
    g, lu, pivots = g[0], y0, y1
    m, n = A_shape[-2:]
    k = min(m, n)
    square, for_square = lu[..., :k, :k], g[..., :k, :k]
    low, up = F.tril(for_square, -1), F.triu(for_square)
    if m > n:  # A2 = L2 U
        tall = adjoint(F, F.triangular_matrices(square, adjoint(F, g[..., k:, :]), True, False))
        up = up - F.triu(F.matmul(adjoint(F, lu[..., k:, :]), tall))
    if n > m:  # A2 = L U2
        wide = F.triangular_matrices(adjoint(F, square), g[..., k:], True, True)
        low = low - F.tril(F.matmul(wide, adjoint(F, lu[..., k:])), -1)
    unit = F.tril(square, -1)
    inner = F.tril(F.matmul(adjoint(F, unit), low) + low, -1) + F.triu(F.matmul(up, adjoint(F, F.triu(square))))
    inner = F.triangular_matrices(adjoint(F, square), inner, True, True)
    result = adjoint(F, F.triangular_matrices(square, adjoint(F, inner), True, False))
    if m > n:
        result = F.cat([result, tall], -2)
    if n > m:
        result = F.cat([result, wide], -1)
    return F.take_rows(result, F.permutation_rows(pivots, m, True))


@linalg_lu_factor_ex.samples
def linalg_lu_factor_ex_samples(make):
    yield make(3, 3)
    yield make(2, 4, 3)
    yield make(3, 4)


@op(at=(), vjp=None)
def permutation_rows(xp, pivots, size, inverse):
    """Which rows of A the row swaps bring to the top: `A[rows] = L U`.

    Or the inverse of that permutation.
    """
    batch, k = pivots.shape[:-1], pivots.shape[-1]
    swaps = pivots.reshape((-1, k) if pivots.size else (0, k))
    if swaps.size and (swaps.min() < 1 or swaps.max() > size):
        raise RuntimeError(
            "pivots must all be greater or equal to 1 and smaller or equal to LU.size(-2), that is between 1 and "
            f"LU.size(-2). That is {size}, but they are from {swaps.min()} to {swaps.max()}. Did you properly pass the "
            "result of lu_factor?"
        )
    one = xp.arange(len(swaps))
    rows = xp.tile(xp.arange(size), (len(swaps), 1))
    for j in range(k):
        other = swaps[:, j] - 1
        kept = rows[one, other].copy()
        rows[one, other] = rows[:, j]
        rows[:, j] = kept
    rows = xp.argsort(rows, axis=-1) if inverse else rows
    return (
        rows.reshape((*batch, size) if pivots.size else (*batch, size))
        if len(rows)
        else xp.tile(xp.arange(size), (*batch, 1))
    )


@permutation_rows.meta
def permutation_rows_meta(pivots, size, inverse):
    return pivots.shape[:-1] + (size,), "int64"


@permutation_rows.samples
def permutation_rows_samples(make):
    yield plugrad.tensor([[2, 3, 3], [1, 2, 3]], dtype=plugrad.int32), 3, True


@op(at=(), like="input")
def take_rows(xp, input, rows):
    """The rows of matrices in the order of a permutation."""
    return xp.take_along_axis(input, xp.broadcast_to(rows, input.shape[:-2] + rows.shape[-1:])[..., None], -2)


@take_rows.vjp
def take_rows_vjp(F, g, rows):
    return F.take_rows(g, F.argsort(rows, -1))


@take_rows.samples
def take_rows_samples(make):
    yield make(3, 2), plugrad.tensor([2, 0, 1])


@composite(at=("linalg.lu_factor",), returns="LU pivots")
def linalg_lu_factor(F, A, *, pivot=True):
    """LU factors packed into one matrix, and the row swaps.

    A named tuple (LU, pivots).

    Raises `RuntimeError` when a matrix is singular.

    >>> import plugrad as torch
    >>> torch.linalg.lu_factor(torch.tensor([[0., 2.], [4., 0.]])).LU
    tensor([[4., 0.],
            [0., 2.]])
    """
    lu, pivots, info = F.linalg_lu_factor_ex(A, pivot=pivot)
    if not info.is_meta and bool(F.any(info)):
        raise _singular_lu("torch.linalg.lu_factor", info)
    return linalg_lu_factor.returns(lu, pivots)


@composite(name="_lu_with_info", at=("_lu_with_info",), returns="LU pivots info", autocast={"cpu": "float32"})
def lu_with_info(F, A, pivot=True):
    """Packed LU factors, row swaps, and which matrices are singular."""
    return lu_with_info.returns(*F.linalg_lu_factor_ex(A, pivot=pivot))


@composite(at=("lu",), autocast={"cpu": "float32"})
def lu(F, A, pivot=True, get_infos=False):
    """LU factors packed into one matrix, and the row swaps.

    `linalg.lu_factor` is the newer form.

    >>> import plugrad as torch
    >>> torch.lu(torch.eye(2))[1]
    tensor([1, 2], dtype=torch.int32)
    """
    factors = lu_with_info.kernels["*"](F, A, pivot)
    return factors if get_infos else tuple(factors[:2])


@composite(at=("Tensor.lu",), autocast={"cpu": "float32"})
def lu_method(F, input, pivot=True, get_infos=False):
    """LU factors packed into one matrix, and the row swaps; see `torch.lu`.

    >>> import plugrad as torch
    >>> torch.eye(2).lu()[1]
    tensor([1, 2], dtype=torch.int32)
    """
    return tuple(F.lu(input, pivot, get_infos))


@linalg_lu_factor.samples
@lu_with_info.samples
@lu.samples
@lu_method.samples
def matrix_samples(make):
    yield make(3, 3)
    yield make(2, 3, 3)


@composite(at=("lu_unpack",), returns="P L U")
def lu_unpack(F, LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """Permutation, lower and upper factor from packed LU factors.

    A named tuple (P, L, U).

    >>> import plugrad as torch
    >>> torch.lu_unpack(*torch.linalg.lu_factor(torch.eye(2))).L
    tensor([[1., 0.],
            [0., 1.]])
    """
    if LU_data.ndim < 2:
        raise RuntimeError(
            f"torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {list(LU_data.shape)} instead"
        )
    if "int32" not in str(LU_pivots.dtype):
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. "
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    batch, (m, n) = LU_data.shape[:-2], LU_data.shape[-2:]
    k = min(m, n)
    if unpack_pivots and LU_pivots.shape[-1:] != (k,):
        raise RuntimeError(
            f"torch.lu_unpack: LU_pivots must have {k} elements for each matrix, it is of shape {list(LU_pivots.shape)}"
        )
    like = {"dtype": LU_data.dtype, "device": LU_data.device}
    low = up = permutation = F.zeros((0,), **like)
    if unpack_data:
        low = F.tril(LU_data[..., :k], -1) + F.eye(m, k, **like)
        up = F.triu(LU_data[..., :k, :])
    if unpack_pivots:
        rows = F.permutation_rows(LU_pivots, m, True)
        permutation = F.take_rows(F.expand(F.eye(m, **like), (*batch, m, m)), rows)
    return lu_unpack.returns(permutation, low, up)


@lu_unpack.samples
def lu_unpack_samples(make):
    yield make(3, 3), plugrad.tensor([2, 3, 3], dtype=plugrad.int32)


@composite(at=("linalg.lu",), returns="P L U")
def linalg_lu(F, A, *, pivot=True):
    """Factors of `A = P @ L @ U`: permutation, unit lower and upper triangular.

    A named tuple (P, L, U).

    With `pivot=False`, P is empty.

    >>> import plugrad as torch
    >>> torch.linalg.lu(torch.tensor([[0., 2.], [4., 0.]])).U
    tensor([[4., 0.],
            [0., 2.]])
    """
    factors, pivots, _ = F.linalg_lu_factor_ex(A, pivot=pivot)
    return linalg_lu.returns(*F.lu_unpack(factors, pivots, True, pivot))


linalg_lu.samples(matrix_samples)


@composite(at=("linalg.lu_solve",))
def linalg_lu_solve(F, LU, pivots, B, *, left=True, adjoint=False, out=None):
    """Solution of `A X = B` from the packed LU factors of A.

    With `left=False` of `X A = B`.

    With `adjoint` the conjugate transpose of A is meant.

    >>> import plugrad as torch
    >>> torch.linalg.lu_solve(*torch.linalg.lu_factor(2 * torch.eye(2)), torch.ones(2, 1))
    tensor([[0.5000],
            [0.5000]])
    """
    name = "linalg.lu_solve"
    if B.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    check_square(name, Described(LU), "LU")
    if "int32" not in str(pivots.dtype):
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    if pivots.shape[-1:] != LU.shape[-1:]:
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix: {list(pivots.shape)} "
            f"for matrices {list(LU.shape)}"
        )
    if LU.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected LU and B to have the same dtype, but found LU of type {LU.dtype} and B "
            f"of type {B.dtype} instead"
        )
    if LU.shape[:-1] != pivots.shape:
        raise RuntimeError(
            f"{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if LU.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({LU.shape[-2]}x{LU.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    if not left:  # X A = B is A^H X^H = B^H
        B, adjoint = F.transpose(F.conjugated(B), -2, -1), not adjoint
    batch = plugrad.broadcast_shapes(tuple(LU.shape[:-2]), tuple(B.shape[:-2]))
    B = F.expand(B, (*batch, *B.shape[-2:]))
    if adjoint:
        conjugate = F.transpose(F.conjugated(LU), -2, -1)
        half = F.triangular_matrices(conjugate, B, False, False)
        result = F.take_rows(
            F.triangular_matrices(conjugate, half, True, True), F.permutation_rows(pivots, LU.shape[-1], True)
        )
    else:
        rows = F.take_rows(B, F.permutation_rows(pivots, LU.shape[-1], False))
        result = F.triangular_matrices(LU, F.triangular_matrices(LU, rows, False, True), True, False)
    result = result if left else F.transpose(F.conjugated(result), -2, -1)
    return result if out is None else write_out(linalg_lu_solve, result, out)


@linalg_lu_solve.samples
def linalg_lu_solve_samples(make):
    yield make(3, 3), plugrad.tensor([2, 3, 3], dtype=plugrad.int32), make(3, 2)


@composite(autocast={"cpu": "float32"})
def lu_solve(F, input, LU_data, LU_pivots):
    """Solution of `A X = input` from the packed LU factors of A.

    `linalg.lu_solve` is the newer form.

    >>> import plugrad as torch
    >>> torch.lu_solve(torch.ones(2, 1), *torch.linalg.lu_factor(2 * torch.eye(2)))
    tensor([[0.5000],
            [0.5000]])
    """
    return F.linalg_lu_solve(LU_data, LU_pivots, input)


@lu_solve.samples
def lu_solve_samples(make):
    yield make(3, 2), make(3, 3), plugrad.tensor([2, 3, 3], dtype=plugrad.int32)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
