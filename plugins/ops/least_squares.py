"""Pseudoinverses and least squares."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, op

from ._checks import dtype_word
from ._linalg import Described, adjoint, check_float, check_matrix, check_square, checked_svd, decomposed, raw_adjoint


def cutoff(xp, values, shape, atol, rtol):
    """Below which singular values count as zero: max(atol, rtol * largest), with a last dimension of size 1."""
    if rtol is None:
        default = xp.finfo(values.dtype).eps * max(shape[-2:])
        rtol = 0.0 if atol is not None and not hasattr(atol, "dtype") and atol > 0 else default
        if hasattr(atol, "dtype"):
            rtol = xp.where(atol > 0, 0.0, default)
    atol = 0.0 if atol is None else atol
    top = values.max(axis=-1, keepdims=True) if values.shape[-1] else values.sum(axis=-1, keepdims=True)
    bounds = [bound[..., None] if hasattr(bound, "dtype") and bound.ndim else bound for bound in (atol, rtol)]
    return xp.maximum(bounds[1] * top, xp.asarray(bounds[0], values.dtype))


def check_bounds(name, **bounds) -> None:
    """Raise RuntimeError for a bound of singular values that is a tensor of complex numbers."""
    for argument, bound in bounds.items():
        if hasattr(bound, "dtype") and bound.dtype.kind == "c":
            raise RuntimeError(
                f"torch.{name}: {argument} tensor of complex type is not supported. Got {dtype_word(bound.dtype)}"
            )


@op(at=("linalg.pinv",), kinds={"rcond": "tensor|float?", "rtol": "tensor|float?", "atol": "tensor|float?"})
def linalg_pinv(xp, input, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """Moore-Penrose pseudoinverse of matrices.

    Args:
        input: matrices (*, m, n).
        rcond: older name of `rtol`.
        hermitian: A equals its conjugate transpose; eigenvalues are used and only the lower triangle is read.
        atol, rtol: singular values below max(atol, rtol * largest) count as zero; numbers or tensors. By default
            `rtol` is max(m, n) times the resolution of the dtype.

    >>> import plugrad as torch
    >>> torch.linalg.pinv(torch.tensor([[2., 0.], [0., 0.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    check_matrix("linalg.pinv", input)
    check_bounds("linalg.pinv", rcond=rcond, atol=atol, rtol=rtol)
    rtol = rcond if rtol is None else rtol
    if not input.size:
        return xp.zeros(input.shape[:-2] + input.shape[:-3:-1], input.dtype)
    if hermitian:
        check_square("linalg.pinv", input)
        values, right = decomposed(xp, "linalg.pinv", xp.linalg.eigh, input)
        left, size = raw_adjoint(xp, right), abs(values)
    else:
        left, values, right = checked_svd(xp, input, full_matrices=False)
        left, right, size = raw_adjoint(xp, left), raw_adjoint(xp, right), values
    kept = size > cutoff(xp, size, input.shape, atol, rtol)
    inverse = xp.where(kept, 1 / xp.where(kept, values, values.dtype.type(1)), values.dtype.type(0))
    return xp.matmul(right * inverse[..., None, :], left).astype(input.dtype)


@linalg_pinv.meta
def linalg_pinv_meta(input, rcond=None, hermitian=False, *, atol=None, rtol=None):
    check_matrix("linalg.pinv", input)
    return input.shape[:-2] + (input.shape[-1], input.shape[-2]), input.dtype


@linalg_pinv.vjp
def linalg_pinv_vjp(F, g, y, input):
    # Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems, 1973, (4.12).
    yh, gh = adjoint(F, y), adjoint(F, g)
    right, left = F.matmul(gh, F.matmul(y, yh)), F.matmul(F.matmul(yh, y), gh)
    return (
        right - F.matmul(input, F.matmul(y, right)) + left - F.matmul(F.matmul(left, y), input)
        - F.matmul(yh, F.matmul(g, yh))
    )


@linalg_pinv.samples
def linalg_pinv_samples(make):
    yield make(3, 3)
    yield make(2, 4, 3)


@composite(at=("pinverse", "Tensor.pinverse"), autocast={"cpu": "float32"})
def pinverse(F, input, rcond=1e-15):
    """Moore-Penrose pseudoinverse; see `linalg.pinv`.

    >>> import plugrad as torch
    >>> torch.pinverse(torch.tensor([[2., 0.]]))
    tensor([[0.5000],
            [0.0000]])
    """
    return F.linalg_pinv(input, rcond)


@pinverse.samples
def pinverse_samples(make):
    yield make(4, 3)


@composite(
    fresh=True,
    at=("linalg.lstsq",), returns="solution residuals rank singular_values", autocast={"cpu": "float32"},
    kinds={"b": "tensor"},
)  # fmt: skip
def linalg_lstsq(F, input, b, rcond=None, *, driver=None):
    """Least squares: the smallest X that minimizes the norm of A X - B.

    Args:
        input: matrices (*, m, n).
        b: matrices (*, m, k), or vectors (*, m) with the batch of `input`.
        rcond: singular values below rcond times the largest count as zero; "gels" has no use for it, and "gelsd" for
            none but those between 0 and 1.
        driver: "gelsy" (the default), "gels", "gelsd" or "gelss": which of the fields are filled, as LAPACK does.

    Returns a named tuple (solution, residuals, rank, singular_values); what was not computed is empty.

    >>> import plugrad as torch
    >>> torch.linalg.lstsq(torch.eye(2), torch.ones(2, 1)).solution
    tensor([[1.],
            [1.]])
    """
    name = "torch.linalg.lstsq"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if input.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got {input.dtype} and {b.dtype}"
        )
    driver = "gelsy" if driver is None else driver
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    check_float(name, Described(input))
    if not 0 <= input.ndim - b.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1, but "
            f"they are {input.ndim} and {b.ndim}"
        )
    vector = b.ndim == 1 or input.ndim - 1 == b.ndim and tuple(input.shape[:-1]) == tuple(b.shape)
    right = F.unsqueeze(b, -1) if vector else b
    if right.ndim < 2 or input.shape[-2] != right.shape[-2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-{1 if vector else 2})")
    m, n = input.shape[-2:]
    if driver == "gels" or driver == "gelsd" and rcond is not None and not 0 < rcond < 1:
        rcond = None
    solution = F.matmul(F.linalg_pinv(input, rcond), right)
    none = F.reshape(F.real(solution) if input.is_complex() else solution, (solution.numel(),))[:0]
    values = F.linalg_svdvals(input).detach() if driver in ("gelsd", "gelss") else none.detach()
    rank = F.linalg_matrix_rank(input, rtol=rcond) if driver != "gels" else F.full((0,), 0, dtype=plugrad.int64)
    residuals = none
    if m > n and driver != "gelsy" and (driver == "gels" or bool(F.all(rank == n))):
        away = F.abs(F.matmul(input, solution) - right)
        residuals = F.sum(away * away, -2)
    return linalg_lstsq.returns(F.squeeze(solution, -1) if vector else solution, residuals, rank, values)


@linalg_lstsq.samples
def linalg_lstsq_samples(make):
    yield make(4, 3), make(4, 2)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
