"""What the linear algebra ops share: checks of matrices, PyTorch's errors, conjugate transposes, an LU loop."""

from __future__ import annotations

import plugrad

from ._checks import dtype_word


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive definite, or an iteration did not converge."""


LinAlgError.__module__ = "plugrad.linalg"
plugrad.linalg.LinAlgError = LinAlgError


def check_float(name, *arrays) -> None:
    """Raise RuntimeError unless the arrays are of a dtype that LAPACK computes in."""
    for array in arrays:
        kind, size = array.dtype.kind, array.dtype.itemsize
        if kind in "biu":
            raise RuntimeError(
                f"{name}: Expected a floating point or complex tensor as input. Got "
                f"{dtype_word(array.dtype)}; write input.float()"
            )
        if kind not in "fc" or size == 2:
            raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {dtype_word(array.dtype)}")


def check_matrix(name, array, argument="A") -> None:
    """Raise RuntimeError unless the array is a batch of float matrices."""
    if array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    check_float(name, array)


def check_square(name, array, argument="A") -> None:
    """Raise RuntimeError unless the array is a batch of square float matrices."""
    check_matrix(name, array, argument)
    rows, columns = array.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {rows} by {columns} matrices"
        )


class Described:
    """Shape and NumPy dtype of a tensor or array."""

    __slots__ = ("shape", "ndim", "dtype")

    def __init__(self, tensor):
        self.shape, self.ndim = tuple(tensor.shape), tensor.ndim
        self.dtype = getattr(tensor.dtype, "numpy", tensor.dtype)


def adjoint(F, input):
    """Conjugate transpose of the last two dimensions, in a formula."""
    return F.transpose(F.conj(input), -2, -1)


def raw_adjoint(xp, array):
    """Conjugate transpose of the last two dimensions of a raw array."""
    array = array.swapaxes(-2, -1)
    return xp.conjugate(array) if array.dtype.kind == "c" else array


def batch_label(xp, failed) -> str:
    """PyTorch's "(Batch element 1): " for the first of a batch that failed, or nothing for a single matrix."""
    return f"(Batch element {int(failed.reshape(-1).argmax())}): " if failed.ndim else ""


def lu_packed(xp, array, pivot=True):
    """LU factors with partial pivoting of each matrix: packed into one array, and the row swaps, from 1.

    Golub and Van Loan, Matrix Computations, section 3.4: one rank-1 update per column, for a whole batch at once.
    """
    *batch, m, n = array.shape
    k = min(m, n)
    lu = array.copy().reshape((-1, m, n) if array.size else (0, m, n))
    one = xp.arange(len(lu))
    pivots = xp.zeros((len(lu), k), "int32")
    for j in range(k):
        column = lu[:, j:, j]
        if pivot:
            size = abs(column.real) + abs(column.imag) if column.dtype.kind == "c" else abs(column)
            chosen = j + size.argmax(axis=1)
            rows = lu[one, chosen].copy()
            lu[one, chosen] = lu[:, j]
            lu[:, j] = rows
            pivots[:, j] = chosen + 1
        else:
            pivots[:, j] = j + 1
        top = lu[:, j, j]
        factor = lu[:, j + 1 :, j] / xp.where(top == 0, xp.ones_like(top), top)[:, None]
        lu[:, j + 1 :, j] = factor
        lu[:, j + 1 :, j + 1 :] -= factor[:, :, None] * lu[:, None, j, j + 1 :]
    return lu.reshape(array.shape), pivots.reshape((*batch, k) if array.size else (*batch, k))


def first_zero(xp, lu):
    """Number, from 1, of the first zero on the diagonal of each matrix; 0 where there is none."""
    zero = xp.diagonal(lu, axis1=-2, axis2=-1) == 0
    if not zero.shape[-1]:
        return xp.zeros(zero.shape[:-1], "int32")
    return xp.where(zero.any(axis=-1), zero.argmax(axis=-1) + 1, 0).astype("int32")
