"""What the linear algebra ops share: checks of matrices, PyTorch's errors, conjugate transposes, LU factors."""

from __future__ import annotations

import math
import warnings

import numpy

import plugrad
from plugrad.extend import is_half, is_integral, process_lock, scipy_of

from ._checks import dtype_word

LinAlgError = plugrad.linalg.LinAlgError


def check_float(name, *arrays) -> None:
    """Raise NotImplementedError, a RuntimeError, unless the arrays are of a dtype that LAPACK computes in."""
    for array in arrays:
        if is_integral(array.dtype):
            raise NotImplementedError(
                f"{name}: Expected a floating point or complex tensor as input. Got "
                f"{dtype_word(array.dtype)}; write input.float()"
            )
        if is_half(array.dtype):
            raise NotImplementedError(f"{name}: Low precision dtypes not supported. Got {dtype_word(array.dtype)}")


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
    return F.transpose(F.conjugated(input), -2, -1)


def raw_adjoint(xp, array):
    """Conjugate transpose of the last two dimensions of a raw array."""
    array = array.swapaxes(-2, -1)
    return xp.conjugate(array) if array.dtype.kind == "c" else array


def decomposed(xp, name, function, A, **options):
    """Call a decomposition of `xp.linalg`; for matrices that are not finite all that it returns is NaN.

    LAPACK may never come back from those: OpenBLAS' singular values of a matrix with an infinity do not.
    """
    finite = xp.isfinite(A).all(axis=(-2, -1))
    whole = bool(finite.all())
    try:
        results = function(A if whole else xp.where(finite[..., None, None], A, A.dtype.type(0)), **options)
    except xp.linalg.LinAlgError as error:
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix is ill-conditioned ({error})"
        ) from None
    if whole:
        return results if hasattr(results, "dtype") else tuple(results)
    parts = [results] if hasattr(results, "dtype") else results
    spread = [
        xp.where(finite.reshape(finite.shape + (1,) * (part.ndim - finite.ndim)), part, part.dtype.type(math.nan))
        for part in parts
    ]
    return spread[0] if hasattr(results, "dtype") else tuple(spread)


def checked_svd(xp, A, **options):
    """`xp.linalg.svd`; as in PyTorch a NaN raises LinAlgError, and infinities come to NaN."""
    broken = xp.isnan(A).any(axis=(-2, -1))
    if broken.any():
        place = first_failure(broken)[0]
        raise LinAlgError(
            f"linalg.svd: {place}The algorithm failed to converge because the input matrix contained non-finite values."
        )
    return decomposed(xp, "linalg.svd", xp.linalg.svd, A, **options)


def first_failure(info) -> tuple[str, int]:
    """PyTorch's "(Batch element 1): ", or nothing for a single matrix, for the first `info` that is not 0; and that."""
    numbers = info.reshape(-1).tolist()
    place = next(i for i, number in enumerate(numbers) if number)
    return f"(Batch element {place}): " if info.ndim else "", numbers[place]


def lapack_pays(array) -> bool:
    """Whether to call LAPACK, through SciPy, for each matrix of a batch: where there are no more of them than rows.

    SciPy takes 4 to 9 us a matrix for the call alone. For many small matrices a step of NumPy's for the whole batch
    is cheaper: 10,000 matrices of 4 x 4 are factored in 4 ms so, in 46 ms one by one.
    """
    return math.prod(array.shape[:-2]) <= array.shape[-2]


_filters = process_lock()


def _factors(xp, matrices):
    """Yield the factors of each matrix and its row swaps, from 0, without a warning of one that is singular."""
    linalg = scipy_of(xp, "linalg")
    if xp is numpy:
        (getrf,) = linalg.get_lapack_funcs(("getrf",), (matrices,))
        yield from (getrf(matrix)[:2] for matrix in matrices)
        return
    # Threads share the filters: two that put them back in the wrong order would leave them changed.
    for matrix in matrices:
        with _filters, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            factors = linalg.lu_factor(matrix, check_finite=False)
        yield factors


def lu_packed(xp, array, pivot=True):
    """LU factors with partial pivoting of each matrix: packed into one array, and the row swaps, from 1."""
    *batch, m, n = array.shape
    k = min(m, n)
    lu = array.copy().reshape(math.prod(batch), m, n)
    pivots = xp.zeros((len(lu), k), "int32")
    # LAPACK's routines differ in what they make of NaN, some lose it: elimination as it is written spreads it.
    if pivot and lu.size and lapack_pays(array) and not xp.isnan(array).any():
        for i, (factors, swaps) in enumerate(_factors(xp, lu)):
            lu[i], pivots[i] = factors, swaps
        pivots += 1
    else:
        _eliminate(xp, lu, pivots, pivot)
    return lu.reshape(array.shape), pivots.reshape((*batch, k))


def nan_spread(xp, A, function):
    """Return what a function gives for matrices: NaN throughout wherever the one in A holds a NaN.

    That is what elimination comes to, though LAPACK's routines may lose a NaN on the way, and cuSOLVER's refuse it.
    """
    broken = xp.isnan(A).any(axis=(-2, -1))
    if not broken.any():
        return function(A)
    result = function(xp.where(broken[..., None, None], xp.eye(A.shape[-1], dtype=A.dtype), A))
    return xp.where(broken[..., None, None], result.dtype.type(math.nan), result)


def _eliminate(xp, lu, pivots, pivot) -> None:
    """Gaussian elimination in place, of a whole batch at once.

    Golub and Van Loan, Matrix Computations, section 3.4: one rank-1 update per column.
    """
    one = xp.arange(len(lu))
    for j in range(pivots.shape[1]):
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


def first_zero(xp, lu):
    """Number, from 1, of the first zero on the diagonal of each matrix; 0 where there is none."""
    zero = xp.diagonal(lu, axis1=-2, axis2=-1) == 0
    if not zero.shape[-1]:
        return xp.zeros(zero.shape[:-1], "int32")
    return xp.where(zero.any(axis=-1), zero.argmax(axis=-1) + 1, 0).astype("int32")


def zero_pivots(xp, array):
    """Number, from 1, of the zero pivot of each singular matrix that was refused; 0 for the others."""
    # Which ones are singular is asked of NumPy again: SciPy's LAPACK may round otherwise.
    singular, factors = xp.linalg.slogdet(array)[0] == 0, lu_packed(xp, array)[0]
    if not singular.any():  # cuSOLVER's and cuBLAS' eliminations, of which one refused, may round otherwise, too
        least = abs(xp.diagonal(factors, axis1=-2, axis2=-1)).min(axis=-1)
        singular = least == least.min()
    return xp.where(singular, xp.maximum(first_zero(xp, factors), 1), 0).astype("int32")
