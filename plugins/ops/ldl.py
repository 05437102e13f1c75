"""LDL factors of symmetric and Hermitian matrices, and solutions from them; products with reflections, `ormqr`."""

from __future__ import annotations

from itertools import groupby

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, op, scipy_of, write_out

from ._checks import underived
from ._linalg import check_square


def _lapack(xp, name, dtype, hermitian):
    """The LAPACK routine for symmetric matrices, or for Hermitian ones, of a dtype."""
    kind = "he" if hermitian and dtype.kind == "c" else "sy"
    routine = {"f": "s", "d": "d", "F": "c", "D": "z"}[dtype.char] + kind + name
    return getattr(scipy_of(xp, "linalg").lapack, routine)


def _first_bad(name, info):
    bad = info.ravel().nonzero()[0]
    where = f"(Batch element {bad[0]}): " if info.ndim else ""
    return RuntimeError(f"{name}: {where}The factorization has a zero on its diagonal; it can't be used to solve")


def _check_pivots(name, pivots, n):
    """Raise RuntimeError for row swaps that lead out of the matrix: LAPACK does not look, and writes there.

    A row is swapped with row |p|, counted from 1; two rows in succession belong to a block if they are negative.
    """
    if not ((abs(pivots) >= 1) & (abs(pivots) <= n)).all():
        raise RuntimeError(f"{name}: pivots must be rows from 1 to {n}, or their negatives, as of ldl_factor")
    for swaps in pivots.reshape(-1, n).tolist():
        if any(len(list(rows)) % 2 for in_block, rows in groupby(swaps, lambda swap: swap < 0) if in_block):
            raise RuntimeError(f"{name}: negative pivots must come in pairs, as ldl_factor returns them, not {swaps}")


@op(at=("linalg.ldl_factor_ex",), returns="LD pivots info", node="NotImplemented")
def linalg_ldl_factor_ex(xp, input, *, hermitian=False, check_errors=False):
    """Packed LDL factors, row swaps, and which matrices are singular.

    A named tuple (LD, pivots, info), as LAPACK packs them; without gradients, as in PyTorch.

    >>> import plugrad as torch
    >>> torch.linalg.ldl_factor_ex(torch.eye(2)).info
    tensor(0, dtype=torch.int32)
    """
    check_square("torch.linalg.ldl_factor_ex", input)
    batch, n = input.shape[:-2], input.shape[-1]
    factors, pivots = xp.zeros(input.shape, input.dtype), xp.zeros((*batch, n), "int32")
    info = xp.zeros(batch, "int32")
    if n:
        factorize = _lapack(xp, "trf", input.dtype, hermitian)
        for place in xp.ndindex(*batch):
            packed, swaps, number = factorize(input[place], lower=1)
            factors[place], pivots[place], info[place] = xp.tril(packed), swaps, number
    if check_errors and info.any():
        raise _first_bad("torch.linalg.ldl_factor_ex", info)
    return factors, pivots, info


linalg_ldl_factor_ex.vjp(underived("linalg_ldl_factor_ex"))


@linalg_ldl_factor_ex.meta
def linalg_ldl_factor_ex_meta(input, *, hermitian=False, check_errors=False):
    check_square("torch.linalg.ldl_factor_ex", input)
    return [(input.shape, input.dtype), (input.shape[:-1], "int32"), (input.shape[:-2], "int32")]


@linalg_ldl_factor_ex.samples
def linalg_ldl_factor_ex_samples(make):
    yield make(3, 3, requires_grad=False)
    yield make(2, 4, 4, requires_grad=False)


@composite(at=("linalg.ldl_factor",), returns="LD pivots")
def linalg_ldl_factor(F, input, *, hermitian=False):
    """Packed LDL factors of symmetric or Hermitian matrices, and row swaps.

    Only the lower triangle is read. Raises `RuntimeError` for singular matrices.

    >>> import plugrad as torch
    >>> torch.linalg.ldl_factor(torch.diag(torch.tensor([2.0, 3.0]))).LD
    tensor([[2., 0.],
            [0., 3.]])
    """
    factors, pivots, info = F.linalg_ldl_factor_ex(input, hermitian=hermitian)
    if not info.is_meta and bool((info != 0).any()):
        raise _first_bad("torch.linalg.ldl_factor", info.numpy())
    return linalg_ldl_factor.returns(factors, pivots)


@linalg_ldl_factor.samples
def linalg_ldl_factor_samples(make):
    yield make(3, 3, requires_grad=False)


@op(at=("linalg.ldl_solve",), node="NotImplemented")
def linalg_ldl_solve(xp, LD, pivots, B, *, hermitian=False):
    """Solutions X of A X = B from the LDL factors of A.

    >>> import plugrad as torch
    >>> factors = torch.linalg.ldl_factor(torch.diag(torch.tensor([2.0, 4.0])))
    >>> torch.linalg.ldl_solve(*factors, torch.ones(2, 1))
    tensor([[0.5000],
            [0.2500]])
    """
    name = "torch.linalg.ldl_solve"
    check_square(name, LD)
    if B.ndim < 2:
        raise RuntimeError(f"{name}: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead")
    if B.dtype != LD.dtype:
        raise RuntimeError(f"{name}: LD dtype {LD.dtype} does not match b dtype {B.dtype}")
    if pivots.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype}")
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if B.shape[-2] != LD.shape[-1]:
        raise RuntimeError(f"{name}: Incompatible shapes: LD is {list(LD.shape)} and B is {list(B.shape)}")
    batch = xp.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    result = xp.zeros((*batch, *B.shape[-2:]), B.dtype)
    if not result.size:
        return result
    _check_pivots(name, pivots, LD.shape[-1])
    LD, B = xp.broadcast_to(LD, (*batch, *LD.shape[-2:])), xp.broadcast_to(B, result.shape)
    pivots = xp.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    solve = _lapack(xp, "trs", B.dtype, hermitian)
    for place in xp.ndindex(*batch):
        result[place], info = solve(LD[place], pivots[place], B[place], lower=1)
        if info:
            raise RuntimeError(f"{name}: LAPACK refused argument {-info}")
    return result


linalg_ldl_solve.vjp("LD", "B")(underived("linalg_ldl_solve"))


@linalg_ldl_solve.meta
def linalg_ldl_solve_meta(LD, pivots, B, *, hermitian=False):
    batch = plugrad.broadcast_shapes(tuple(LD.shape[:-2]), tuple(B.shape[:-2]))
    return (*batch, *B.shape[-2:]), B.dtype


@linalg_ldl_solve.samples
def linalg_ldl_solve_samples(make):
    A = make(3, 3, requires_grad=False)
    factors = plugrad.linalg.ldl_factor(A + A.mT)
    yield factors.LD, factors.pivots, make(3, 2, requires_grad=False)


@linalg_ldl_solve.errors
def linalg_ldl_solve_errors(make):
    LD, B = make(2, 2, requires_grad=False), make(2, 1, requires_grad=False)
    for swaps in ([1, 3], [0, 1], [-1, 2], [1, -(2**31)]):
        yield RuntimeError, "pivots must", make.args(LD, plugrad.tensor(swaps, dtype=plugrad.int32), B)


@composite(
    fresh=True,
    at=("ormqr", "Tensor.ormqr"),
    autocast={"cpu": "float32"},
    kinds={"input2": "tensor", "input3": "tensor"},
)
def ormqr(F, input, input2, input3, left=True, transpose=False, *, out=None):
    """Product of `input3` with the orthogonal matrix Q that `geqrf` packs.

    Args:
        input: matrices (*, m, k) with a vector in each column, below the diagonal.
        input2: scales (*, k).
        input3: matrices (*, m, n), or (*, n, m) where not `left`.
        left: whether Q stands on the left of `input3`.
        transpose: whether it is the (conjugate) transpose of Q.

    >>> import plugrad as torch
    >>> A = torch.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> torch.ormqr(*torch.geqrf(A), A, transpose=True).triu().allclose(torch.linalg.qr(A).R, atol=1e-5)
    True
    """
    _check_ormqr(input, input2, input3, left)
    m, k = input.shape[-2:]
    vectors = F.tril(input, -1) + F.eye(m, k, dtype=input.dtype, device=input.device)
    result = input3 if left else F.transpose(F.conjugated(input3), -2, -1)
    backwards = transpose != left  # the first of the product is the last to be applied
    conjugated = transpose == left
    for j in reversed(range(input2.shape[-1])) if backwards else range(input2.shape[-1]):
        vector = vectors[..., j : j + 1]
        scale = F.reshape(input2[..., j], (*input2.shape[:-1], 1, 1))
        scale = F.conjugated(scale) if conjugated else scale
        result = result - scale * F.matmul(vector, F.matmul(F.transpose(F.conjugated(vector), -2, -1), result))
    result = result if left else F.transpose(F.conjugated(result), -2, -1)
    result = F.contiguous(result) if result.is_cuda else result  # CuPy's results lose the order that NumPy's keep
    return result if out is None else write_out(ormqr, result, out)


def _check_ormqr(input, tau, other, left):
    for name, value in (("input", input), ("other", other)):
        if value.ndim < 2:
            raise RuntimeError(f"torch.ormqr: {name} must have at least 2 dimensions.")
    which = -2 if left else -1
    if other.shape[which] != input.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{which}] must be equal to input.shape[-2]")
    if tau.shape[-1] > other.shape[which]:
        raise RuntimeError(f"torch.ormqr: other.shape[{which}] must be greater than or equal to tau.shape[-1]")
    if tau.shape[-1] != min(other.shape[which], input.shape[-1]):
        raise RuntimeError(f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{which}], input.shape[-1])")
    if input.ndim - tau.ndim != 1 or input.ndim != other.ndim:
        raise RuntimeError(
            "torch.ormqr: Expected tau to have one dimension less than input, and other as many, but they have "
            f"{tau.ndim}, {input.ndim} and {other.ndim}"
        )
    if tau.shape[:-1] != input.shape[:-2] or other.shape[:-2] != input.shape[:-2]:
        raise RuntimeError("torch.ormqr: Expected batch dimensions of tau and other to be equal to input.shape[:-2]")
    for name, value in (("tau", tau), ("other", other)):
        if value.dtype != input.dtype:
            raise RuntimeError(
                f"torch.ormqr: Expected input and {name} to have the same dtype, but input has dtype {input.dtype} and "
                f"{name} has dtype {value.dtype}"
            )


@ormqr.samples
def ormqr_samples(make):
    yield make(4, 3), make(3, low=0.5, high=1.5), make(4, 2)
    yield make(4, 3), make(3, low=0.5, high=1.5), make(2, 4), False, True


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
