"""Inverses and solutions of linear equations."""

from __future__ import annotations

import functools
import itertools
import math

import numpy

import plugrad
from plugrad.extend import Op, broadcast_shapes, collect, composite, hookimpl, is_half, op, scipy_of, write_out

from ._linalg import (
    Described,
    LinAlgError,
    adjoint,
    check_matrix,
    check_square,
    first_failure,
    lapack_pays,
    nan_spread,
    zero_pivots,
)
from .shape import sum_to_shape

_WORDS = {"float32": "Float", "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble"}


# ---------------------------------------------------------------- inverses


def _inverse(xp, A):
    """Inverses, and for each singular matrix the number of its zero pivot; the inverse is then NaN."""
    info = xp.zeros(A.shape[:-2], "int32")
    try:
        return nan_spread(xp, A, xp.linalg.inv), info
    except xp.linalg.LinAlgError:
        info = zero_pivots(xp, A)
        singular = (info > 0)[..., None, None]
        return nan_spread(xp, xp.where(singular, A.dtype.type(math.nan), A), xp.linalg.inv), info


def singular_error(name, info):
    """What to raise for matrices of which `info` says that they are singular."""
    batch, number = first_failure(info)
    return LinAlgError(
        f"{name}: {batch}The diagonal element {number} is zero, the inversion could "
        "not be completed because the input matrix is singular."
    )


@op(
    at=("linalg.inv", "Tensor.inverse"), ref="numpy.linalg.inv", node="LinalgInvExBackward0",
    autocast={"cpu": "float32"},
)  # fmt: skip
def linalg_inv(xp, A):
    """Inverse of square matrices.

    Raises `torch.linalg.LinAlgError` when one is singular.

    >>> import plugrad as torch
    >>> torch.linalg.inv(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square("linalg.inv", A)
    inverse, info = _inverse(xp, A)
    if info.any():
        raise singular_error("linalg.inv", info)
    return inverse


@linalg_inv.meta
def linalg_inv_meta(A):
    check_square("linalg.inv", A)
    return A.shape, A.dtype


def square_samples(make):
    """Well-conditioned square matrices."""
    yield make(3, 3)
    yield make(2, 3, 3)


linalg_inv.samples(square_samples)


@composite(at=("inverse",))
def inverse(F, input):
    """Inverse of square matrices, `linalg.inv`.

    >>> import plugrad as torch
    >>> torch.inverse(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return F.linalg_inv(input)


inverse.samples(square_samples)


@linalg_inv.vjp
def linalg_inv_vjp(F, g, y):
    # Giles, An extended collection of matrix derivative results for forward and reverse mode, 2008, section 2.2.3.
    return -F.matmul(adjoint(F, y), F.matmul(g, adjoint(F, y)))


@op(at=("linalg.inv_ex",), returns="inverse info", autocast={"cpu": "float32"})
def linalg_inv_ex(xp, A, *, check_errors=False):
    """Inverses of square matrices, and which of those are singular.

    A named tuple (inverse, info).

    `info` is 0, or the number of the zero pivot; the inverse is then NaN. With `check_errors` that raises.

    >>> import plugrad as torch
    >>> torch.linalg.inv_ex(torch.zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    check_square("linalg.inv_ex", A)
    inverse, info = _inverse(xp, A)
    if check_errors and info.any():
        raise singular_error("linalg.inv_ex", info)
    return inverse, info


@linalg_inv_ex.meta
def linalg_inv_ex_meta(A, *, check_errors=False):
    check_square("linalg.inv_ex", A)
    return [(A.shape, A.dtype), (A.shape[:-2], "int32")]


@linalg_inv_ex.vjp
def linalg_inv_ex_vjp(F, g, y0):
    return linalg_inv_vjp(F, g[0], y0)


linalg_inv_ex.samples(square_samples)


# ---------------------------------------------------------------- linear equations


@op(at=(), node="LinalgSolveExBackward0")
def solve_matrices(xp, A, B):
    """The X of A X = B, for batches of matrices that broadcast."""
    if A.shape[:-2] != B.shape[:-2]:  # NumPy would broadcast them, CuPy refuses
        shape = broadcast_shapes(A.shape[:-2], B.shape[:-2])
        A, B = (xp.broadcast_to(part, shape + part.shape[-2:]) for part in (A, B))
    try:
        return nan_spread(xp, A, lambda A: xp.linalg.solve(A, B))
    except xp.linalg.LinAlgError:
        batch, _ = first_failure(zero_pivots(xp, A))
        raise LinAlgError(
            f"torch.linalg.solve: {batch}The solver failed because the input matrix is singular."
        ) from None


@solve_matrices.meta
def solve_matrices_meta(A, B):
    return broadcast_shapes(A.shape[:-2], B.shape[:-2]) + B.shape[-2:], A.dtype


@solve_matrices.vjp("A", "B")
def solve_matrices_vjp(F, g, y, A, B_shape, needs):
    # Giles 2008, section 2.3.1.
    for_b = F.solve_matrices(adjoint(F, A), g)
    for_a = sum_to_shape(F, -F.matmul(for_b, adjoint(F, y)), A.shape) if needs[0] else None
    return for_a, sum_to_shape(F, for_b, B_shape)


@solve_matrices.samples
def solve_matrices_samples(make):
    yield make(3, 3), make(3, 2)
    yield make(2, 3, 3), make(3, 1)


def _check_equation(name, A, B, left) -> None:
    """Check A and B, both of two or more dimensions, of A X = B (or X A = B)."""
    check_square(name, A)
    if A.dtype != B.dtype:
        one, two = (_WORDS.get(str(t.dtype).rpartition(".")[2], t.dtype) for t in (A, B))
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {one} and B of type {two} instead"
        )
    n, m = B.shape[-2:]
    if A.shape[-1] != (n if left else m):
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {n}x{m})"
        )


@composite(fresh=True, at=("linalg.solve",), autocast={"cpu": "float32"})
def linalg_solve(F, A, B, *, left=True, out=None):
    """Solution X of `A X = B` (or `X A = B` with `left=False`) for square A.

    Args:
        A: matrices (*, n, n).
        B: matrices (*, n, k), or vectors: one of size n, or of shape (*, n) with the batch of `A`.
        left: on which side A stands.

    Raises `torch.linalg.LinAlgError` when a matrix is singular.

    >>> import plugrad as torch
    >>> torch.linalg.solve(torch.tensor([[2., 0.], [0., 4.]]), torch.tensor([2., 2.]))
    tensor([1.0000, 0.5000])
    """
    check_square("linalg.solve", Described(A))
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In "
            "this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    B = F.unsqueeze(B, -1) if vector else B
    if B.ndim < 2:
        raise RuntimeError("linalg.solve: The input tensor B must have at least 2 dimensions.")
    _check_equation("linalg.solve", Described(A), Described(B), left)
    if left:
        result = F.solve_matrices(A, B)
    else:
        result = F.transpose(F.solve_matrices(F.transpose(A, -2, -1), F.transpose(B, -2, -1)), -2, -1)
    result = F.squeeze(result, -1) if vector else result
    return result if out is None else write_out(linalg_solve, result, out)


@composite(fresh=True, at=("linalg.solve_ex",), returns="result info")
def linalg_solve_ex(F, A, B, *, left=True, check_errors=False):
    """Solution as of `linalg.solve`, and which matrices are singular.

    A named tuple (result, info).

    >>> import plugrad as torch
    >>> torch.linalg.solve_ex(2 * torch.eye(2), torch.ones(2)).result
    tensor([0.5000, 0.5000])
    """
    check_square("linalg.solve", Described(A))
    info = F.linalg_inv_ex(A).info
    if check_errors or info.is_meta or not bool(F.any(info)):
        return linalg_solve_ex.returns(F.linalg_solve(A, B, left=left), info)
    bad = F.reshape(info > 0, (*info.shape, 1, 1))
    return linalg_solve_ex.returns(F.linalg_solve(F.where(bad, math.nan, A), B, left=left), info)


@linalg_solve.samples
@linalg_solve_ex.samples
def solve_samples(make):
    yield make(3, 3), make(3, 2)
    yield make.args(make(2, 3, 3), make(2, 2, 3), left=False)


@composite(at=("linalg.tensorsolve",), autocast={"cpu": "float32"})
def linalg_tensorsolve(F, input, other, dims=None, *, out=None):
    """Solution X of `tensordot(A, X) = B`, over all dimensions of X.

    `input` has the dimensions of `other` first (those in `dims` are moved to the end), then those of X.

    >>> import plugrad as torch
    >>> torch.linalg.tensorsolve(torch.eye(6).reshape(2, 3, 6), torch.ones(2, 3))
    tensor([1., 1., 1., 1., 1., 1.])
    """
    if dims is not None:
        input = F.movedim(input, tuple(dims), tuple(range(-len(dims), 0)))
    shape = tuple(input.shape[other.ndim :])
    n, m = math.prod(shape), math.prod(input.shape[: other.ndim])
    if n != m:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {n} != {m}"
        )
    result = F.reshape(F.linalg_solve(F.reshape(input, (n, n)), F.reshape(other, (n,))), shape)
    return result if out is None else write_out(linalg_tensorsolve, result, out)


@linalg_tensorsolve.samples
def linalg_tensorsolve_samples(make):
    yield make(2, 3, 6), make(2, 3)


@composite(at=("linalg.tensorinv",), autocast={"cpu": "float32"})
def linalg_tensorinv(F, input, ind=2, *, out=None):
    """Inverse of `input` with respect to `tensordot` over its first `ind` dimensions.

    >>> import plugrad as torch
    >>> torch.linalg.tensorinv(torch.eye(6).reshape(2, 3, 6)).shape
    torch.Size([6, 2, 3])
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    first, last = tuple(input.shape[:ind]), tuple(input.shape[ind:])
    n, m = math.prod(first), math.prod(last)
    if n != m:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            f"but got {m} != {n}"
        )
    result = F.reshape(F.linalg_inv(F.reshape(input, (n, n))), last + first)
    return result if out is None else write_out(linalg_tensorinv, result, out)


@linalg_tensorinv.samples
def linalg_tensorinv_samples(make):
    yield make(2, 3, 6)
    yield make.args(make(4, 2, 2), ind=1)


# ---------------------------------------------------------------- triangular equations


@op(at=(), node="LinalgSolveTriangularBackward0")
def triangular_matrices(xp, A, B, upper, unitriangular):
    """The X of A X = B for triangular A, of which only one triangle is read."""
    dtype, batch = A.dtype, broadcast_shapes(A.shape[:-2], B.shape[:-2])
    if is_half(dtype):
        A, B = A.astype("float32"), B.astype("float32")
    A, X = xp.broadcast_to(A, batch + A.shape[-2:]), xp.broadcast_to(B, batch + B.shape[-2:]).copy()
    singular = not unitriangular and (A.diagonal(0, -2, -1) == 0).any()  # substitution gives PyTorch's infinities
    if X.size and not singular and lapack_pays(A):
        solve = _triangular_solver(xp, A, X, upper, unitriangular)
        for place in itertools.product(*map(range, batch)):
            X[place] = solve(A[place], X[place])
        return X.astype(dtype, copy=False)
    return _substitute(xp, A, X, upper, unitriangular).astype(dtype, copy=False)


def _triangular_solver(xp, A, X, upper, unitriangular):
    """Return the function that solves one system of triangular equations.

    LAPACK's `trtrs`, which SciPy calls, wakes all threads of OpenBLAS for a matrix of 3 x 3: that takes milliseconds
    where other programs run. `trsm` of BLAS, which is what it calls then, takes 3 us; it wants columns in a row.
    """
    linalg = scipy_of(xp, "linalg")
    if xp is not numpy:
        options = {"lower": not upper, "unit_diagonal": unitriangular, "check_finite": False}
        return functools.partial(linalg.solve_triangular, **options)
    (trsm,) = linalg.get_blas_funcs(("trsm",), (A, X))
    return lambda a, b: trsm(1, a.T, b, lower=upper, trans_a=1, diag=unitriangular)


def _substitute(xp, A, X, upper, unitriangular):
    """Solve triangular equations in place, row by row, for a whole batch at once."""
    n = A.shape[-1]
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        row = X[..., i : i + 1, :] - xp.matmul(A[..., i : i + 1, known], X[..., known, :])
        X[..., i : i + 1, :] = row if unitriangular else row / A[..., i : i + 1, i : i + 1]
    return X


@triangular_matrices.meta
def triangular_matrices_meta(A, B, upper, unitriangular):
    return solve_matrices_meta(A, B)


@triangular_matrices.vjp("A", "B")
def triangular_matrices_vjp(F, g, y, A, B_shape, upper, unitriangular, needs):
    for_b = F.triangular_matrices(adjoint(F, A), g, not upper, unitriangular)
    for_a = None
    if needs[0]:
        for_a = -F.matmul(for_b, adjoint(F, y))
        offset = int(bool(unitriangular))
        for_a = sum_to_shape(F, F.triu(for_a, offset) if upper else F.tril(for_a, -offset), A.shape)
    return for_a, sum_to_shape(F, for_b, B_shape)


@triangular_matrices.samples
def triangular_matrices_samples(make):
    for upper in (True, False):
        yield make.args(make(3, 3, low=1, high=2), make(3, 2), upper, False)
        yield make.args(make(2, 3, 3, low=1, high=2), make(3, 2), upper, True)


@composite(fresh=True, at=("linalg.solve_triangular",))
def linalg_solve_triangular(F, input, B, *, upper, left=True, unitriangular=False, out=None):
    """Solution X of `A X = B` (or `X A = B` with `left=False`) for triangular A.

    Args:
        input: matrices (*, n, n) of which one triangle is read.
        B: matrices (*, n, k), or (*, k, n) with `left=False`.
        upper: which triangle.
        unitriangular: take the diagonal of A as ones.

    >>> import plugrad as torch
    >>> torch.linalg.solve_triangular(torch.tensor([[1., 0.], [1., 2.]]), torch.ones(2, 1), upper=False)
    tensor([[1.],
            [0.]])
    """
    name = "linalg.solve_triangular"
    check_matrix(name, Described(B), "B")
    _check_equation(name, Described(input), Described(B), left)
    if left:
        result = F.triangular_matrices(input, B, upper, unitriangular)
    else:
        result = F.transpose(
            F.triangular_matrices(F.transpose(input, -2, -1), F.transpose(B, -2, -1), not upper, unitriangular), -2, -1
        )
    return result if out is None else write_out(linalg_solve_triangular, result, out)


@linalg_solve_triangular.samples
def linalg_solve_triangular_samples(make):
    yield make.args(make(3, 3, low=1, high=2), make(3, 2), upper=True)
    yield make.args(make(3, 3, low=1, high=2), make(2, 3), upper=False, left=False, unitriangular=True)


@composite(returns="solution cloned_coefficient", autocast={"cpu": "float32"})
def triangular_solve(F, input, A, upper=True, transpose=False, unitriangular=False):
    """Solution of triangular equations, and their coefficients.

    `linalg.solve_triangular` is the newer form.

    >>> import plugrad as torch
    >>> torch.triangular_solve(torch.ones(2, 1), 2 * torch.eye(2)).solution
    tensor([[0.5000],
            [0.5000]])
    """
    for name, tensor in (("b", input), ("A", A)):
        if tensor.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has "
                f"{tensor.ndim} dimensions instead"
            )
    matrix = F.transpose(A, -2, -1) if transpose else A
    solution = F.linalg_solve_triangular(matrix, input, upper=upper != transpose, unitriangular=unitriangular)
    return triangular_solve.returns(solution, F.clone(F.expand(A, (*solution.shape[:-2], *A.shape[-2:]))))


@triangular_solve.samples
def triangular_solve_samples(make):
    yield make(3, 2), make(3, 3, low=1, high=2)


@composite(autocast={"cpu": "float32"}, kinds={"input2": "tensor"})
def cholesky_solve(F, input, input2, upper=False):
    """Solution X of `A X = input` from the Cholesky factor of A.

    >>> import plugrad as torch
    >>> torch.cholesky_solve(torch.ones(2, 1), 2 * torch.eye(2))
    tensor([[0.2500],
            [0.2500]])
    """
    for name, tensor in (("b", input), ("u", input2)):
        if tensor.ndim < 2:
            raise RuntimeError(f"{name} should have at least 2 dimensions, but has {tensor.ndim} dimensions instead")
    _check_equation("cholesky_solve", Described(input2), Described(input), True)
    factor = F.transpose(F.conjugated(input2), -2, -1) if upper else input2
    half = F.triangular_matrices(factor, input, False, False)
    return F.triangular_matrices(F.transpose(F.conjugated(factor), -2, -1), half, True, False)


@cholesky_solve.samples
def cholesky_solve_samples(make):
    yield make(3, 2), make(3, 3, low=1, high=2)


@composite(autocast={"cpu": "float32"})
def cholesky_inverse(F, input, upper=False):
    """Inverse of the matrix whose Cholesky factor is `input`.

    >>> import plugrad as torch
    >>> torch.cholesky_inverse(2 * torch.eye(2))
    tensor([[0.2500, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square("cholesky_inverse", Described(input))
    diagonal = input.detach().diagonal(dim1=-2, dim2=-1)
    if not input.is_meta and bool((diagonal == 0).any()):
        first = int((diagonal == 0).reshape(-1).nonzero()[0]) % input.shape[-1] + 1
        raise plugrad.linalg.LinAlgError(
            f"cholesky_inverse: The diagonal element {first} is zero, the inversion could not be completed because the "
            "input matrix is singular."
        )
    identity = F.expand(F.eye(input.shape[-1], dtype=input.dtype, device=input.device), tuple(input.shape))
    return F.cholesky_solve(identity, input, upper)


@cholesky_inverse.samples
def cholesky_inverse_samples(make):
    yield make(3, 3, low=1, high=2)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
