"""Determinants, powers and exponentials of matrices, cross products, and other functions of `torch.linalg`."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Op, axes, broadcast_shapes, collect, composite, elementwise, hookimpl, op, write_out

from ._checks import BOOL, as_int, refuse
from ._linalg import Described, adjoint, check_square, decomposed, raw_adjoint
from .solvers import square_samples

# ---------------------------------------------------------------- determinants


def _number_per_matrix(A):
    check_square("linalg.det", A)
    return A.shape[:-2], A.dtype


@op(at=("linalg.det", "Tensor.det"), ref="numpy.linalg.det", node="LinalgDetBackward0")
def linalg_det(xp, A):
    """Determinant of square matrices; its gradient is right for singular ones, too.

    >>> import plugrad as torch
    >>> torch.linalg.det(torch.tensor([[2., 0.], [0., 4.]]))
    tensor(8.)
    """
    check_square("linalg.det", A)
    return xp.linalg.det(A)


linalg_det.meta(_number_per_matrix)
linalg_det.samples(square_samples)


@composite(at=("det",))
def det(F, input):
    """Determinant of square matrices, `linalg.det`.

    >>> import plugrad as torch
    >>> torch.det(torch.tensor([[2., 0.], [0., 4.]]))
    tensor(8.)
    """
    return F.linalg_det(input)


det.samples(square_samples)


@linalg_det.vjp
def linalg_det_vjp(F, g, A):
    return F.reshape(g, (*g.shape, 1, 1)) * adjoint(F, F.adjugate(A))


@op(at=(), like="A")
def adjugate(xp, A):
    """Transposed cofactors: the determinant times the inverse, or the limit of that.

    Stewart, On the adjugate matrix, 1998: from the singular value decomposition, by the product rule.
    """
    n = A.shape[-1]
    if not A.size:
        return A.copy()
    left, values, right = decomposed(xp, "adjugate", xp.linalg.svd, A)
    others = xp.where(xp.eye(n, dtype=bool), values.dtype.type(1), values[..., None, :]).prod(axis=-1)
    turn = xp.linalg.det(left) * xp.linalg.det(right)
    return xp.matmul(raw_adjoint(xp, right) * (others * turn[..., None])[..., None, :], raw_adjoint(xp, left))


@adjugate.vjp
def adjugate_vjp(F, g, y, A):
    # The product rule on det(A) * inv(A); for invertible matrices, which is where it is differentiated again.
    inverse, yh = F.linalg_inv_ex(A)[0], adjoint(F, y)
    along = F.sum(g * F.conjugated(inverse), (-2, -1), True)
    return along * yh - F.matmul(yh, F.matmul(g, adjoint(F, inverse)))


@adjugate.vjp_kernel("cpu", "A")
@adjugate.vjp_kernel("cuda", "A")
def adjugate_grad(xp, g, y, A):
    """The gradient for any matrix, with numbers that are not next to one another subtracted nowhere.

    With A = U S V^H a minor of S is the product of its other singular values: on the diagonal of U^H dA V each element
    moves the others by that without both, off it its own place by minus that.
    """
    if not A.size:
        return A.copy()
    n = A.shape[-1]
    left, values, right = decomposed(xp, "adjugate", xp.linalg.svd, A)
    inner = xp.matmul(xp.matmul(right, g), left) * xp.conj(xp.linalg.det(left) * xp.linalg.det(right))[..., None, None]
    moved = xp.empty_like(inner)
    for i in range(n):
        rest = values.copy()
        rest[..., i] = 1
        without = xp.cumprod(rest[..., :-1], -1), xp.cumprod(rest[..., :0:-1], -1)[..., ::-1]
        others = xp.ones_like(rest)
        others[..., 1:] *= without[0]
        others[..., :-1] *= without[1]
        moved[..., i, :] = -others * inner[..., i, :]
        others[..., i] = 0
        moved[..., i, i] = (others * xp.diagonal(inner, 0, -2, -1)).sum(-1)
    return xp.matmul(xp.matmul(left, moved), right)


@adjugate.samples
def adjugate_samples(make):
    yield make(3, 3)


@op(at=("linalg.slogdet",), returns="sign logabsdet")
def linalg_slogdet(xp, A):
    """Sign of the determinant of square matrices, and logarithm of its modulus.

    A named tuple (sign, logabsdet).

    >>> import plugrad as torch
    >>> torch.linalg.slogdet(torch.tensor([[2., 0.], [0., -4.]])).sign
    tensor(-1.)
    """
    check_square("linalg.slogdet", A)
    sign, size = xp.linalg.slogdet(A)
    return xp.where(size != size, sign.dtype.type(0), sign), size  # where there is no determinant there is no sign


@linalg_slogdet.meta
def linalg_slogdet_meta(A):
    check_square("linalg.slogdet", A)
    real = {"complex64": "float32", "complex128": "float64"}.get(str(A.dtype), A.dtype)
    return [(A.shape[:-2], A.dtype), (A.shape[:-2], real)]


@linalg_slogdet.vjp
def linalg_slogdet_vjp(F, g, y0, A):
    # d log det A = tr(A^-1 dA): its real part moves logabsdet, its imaginary part the angle of the sign.
    turn = F.conjugated(g[0]) * y0
    weight = g[1] - (turn - F.conjugated(turn)) * 0.5
    return F.reshape(weight, (*weight.shape, 1, 1)) * adjoint(F, F.linalg_inv_ex(A)[0])


linalg_slogdet.samples(square_samples)


@composite(returns="sign logabsdet")
def slogdet(F, input):
    """Sign and logarithm of the modulus of the determinant; see `linalg.slogdet`.

    >>> import plugrad as torch
    >>> torch.slogdet(torch.eye(2)).logabsdet
    tensor(0.)
    """
    return slogdet.returns(*F.linalg_slogdet(input))


@composite()
def logdet(F, input):
    """Logarithm of the determinant of square matrices; NaN where negative.

    >>> import plugrad as torch
    >>> torch.logdet(torch.eye(2))
    tensor(0.)
    """
    check_square("logdet", Described(input))
    sign, size = F.linalg_slogdet(input)
    if input.is_complex():
        return size + F.log(sign)
    return F.where(sign == -1, math.nan, size)


@slogdet.samples
@logdet.samples
def logdet_samples(make):
    yield (make(3, 3, low=-1, high=1).detach() + 2 * plugrad.eye(3, dtype=plugrad.float64)).requires_grad_()


# ---------------------------------------------------------------- powers and exponentials


@composite(at=("linalg.matrix_power", "matrix_power", "Tensor.matrix_power"))
def linalg_matrix_power(F, input, n, *, out=None):
    """Power of square matrices by squaring; of the inverse for negative `n`.

    >>> import plugrad as torch
    >>> torch.linalg.matrix_power(torch.tensor([[1., 1.], [0., 1.]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    if not hasattr(n, "__index__"):
        raise TypeError(f"matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}")
    n = as_int(n)
    if input.ndim < 2:
        raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    if input.shape[-1] != input.shape[-2]:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{input.shape[-2]} by {input.shape[-1]} matrices"
        )
    if n == 0:
        eye = F.eye(input.shape[-1], dtype=input.dtype, device=input.device)
        nowhere = F.zeros_like(input, dtype=plugrad.bool, memory_format=plugrad.contiguous_format)
        result = F.where(nowhere, input, eye)  # keeps its place in the graph
    else:
        square, result = F.linalg_inv(input) if n < 0 else input, None
        n = abs(n)
        while n:
            if n & 1:
                result = square if result is None else F.matmul(result, square)
            n >>= 1
            square = F.matmul(square, square) if n else square
        result = F.clone(input) if result is input else result
    return result if out is None else write_out(linalg_matrix_power, result, out)


@linalg_matrix_power.samples
def linalg_matrix_power_samples(make):
    yield make(3, 3), 3
    yield make(3, 3), 0
    yield make(3, 3), -2


# Higham, The scaling and squaring method for the matrix exponential revisited, 2005: coefficients of the [13/13] Padé
# approximant, and the norm up to which it is exact in float64. SciPy's `expm` is no substitute: measured against 120
# digits it is off by 850 eps for rotations where this is off by 10, in float32 by 12 for 0.5, and it takes 9 ms for
# 1,000 matrices of 3 x 3 where this takes 1.3.
_PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
_PADE_NORM = 5.371920351148152


@op(at=("linalg.matrix_exp", "matrix_exp", "Tensor.matrix_exp"))
def linalg_matrix_exp(xp, input):
    """Exponential of square matrices.

    >>> import plugrad as torch
    >>> torch.linalg.matrix_exp(torch.tensor([[0., 1.], [0., 0.]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    check_square("linalg.matrix_exp", input)
    if not input.size:
        return input.copy()
    given, input = input.dtype, input.astype("complex128" if input.dtype.kind == "c" else "float64")
    norms = abs(input).sum(axis=-2, keepdims=True).max(axis=-1, keepdims=True)
    finite = xp.isfinite(norms)
    if not finite.all():
        input, norms = xp.where(finite, input, math.nan), xp.where(finite, norms, 0.0)
    squarings = xp.ceil(xp.log2(xp.maximum(norms / _PADE_NORM, 1)))
    input = input * 0.5**squarings
    eye = xp.eye(input.shape[-1], dtype=input.dtype)
    c = [value / _PADE[0] for value in _PADE]
    A2 = xp.matmul(input, input)
    A4 = xp.matmul(A2, A2)
    A6 = xp.matmul(A2, A4)
    odd = xp.matmul(A6, c[13] * A6 + c[11] * A4 + c[9] * A2) + c[7] * A6 + c[5] * A4 + c[3] * A2 + c[1] * eye
    odd = xp.matmul(input, odd)
    even = xp.matmul(A6, c[12] * A6 + c[10] * A4 + c[8] * A2) + c[6] * A6 + c[4] * A4 + c[2] * A2 + eye
    result = xp.linalg.solve(even - odd, even + odd)
    for k in range(int(squarings.max())):
        result = xp.where(squarings > k, xp.matmul(result, result), result)
    return result.astype(given)


@linalg_matrix_exp.meta
def linalg_matrix_exp_meta(input):
    check_square("linalg.matrix_exp", input)
    return input.shape, input.dtype


linalg_matrix_exp.samples(square_samples)


@linalg_matrix_exp.vjp
def linalg_matrix_exp_vjp(F, g, input):
    # Higham, Functions of matrices, 2008, (3.16): a block triangular matrix carries the derivative along.
    n, ah = input.shape[-1], adjoint(F, input)
    block = F.cat([F.cat([ah, g], -1), F.cat([F.zeros_like(ah), ah], -1)], -2)
    return F.linalg_matrix_exp(block)[..., :n, n:]


# ---------------------------------------------------------------- products of vectors


def _one_dtype(*operands):
    dtypes = [dtype for dtype, _ in operands]
    if len(set(dtypes)) > 1:
        raise RuntimeError(f"linalg.cross: expected scalar type {dtypes[0]} but found {dtypes[1]}")


@elementwise(
    tensors=("input", "other"), at=("linalg.cross",), inplace=False, kinds={"other": "tensor"}, meet=_one_dtype,
    autocast={"cuda": "promote"}, ordered_by=(),
)
def linalg_cross(xp, input, other, *, dim=-1):
    """Cross product of vectors of three elements along `dim`.

    >>> import plugrad as torch
    >>> torch.linalg.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]))
    tensor([0., 0., 1.])
    """
    refuse(BOOL, "cross", input, other)
    _check_cross(input, other, dim)
    a, b = xp.moveaxis(input, dim, -1), xp.moveaxis(other, dim, -1)
    a1, a2, a3 = a[..., 0], a[..., 1], a[..., 2]
    b1, b2, b3 = b[..., 0], b[..., 1], b[..., 2]
    parts = [a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1]
    return xp.stack(parts, axis=axes(dim, input.ndim))


def _check_cross(input, other, dim) -> None:
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    place = axes(dim, input.ndim)
    if input.shape[place] != 3 or other.shape[place] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[place]} and "
            f"{other.shape[place]}"
        )
    broadcast_shapes(tuple(input.shape), tuple(other.shape))


@linalg_cross.meta
def linalg_cross_meta(input, other, *, dim=-1):
    _check_cross(input, other, dim)
    return broadcast_shapes(tuple(input.shape), tuple(other.shape)), input.dtype


@linalg_cross.vjp("input")
def linalg_cross_vjp_input(F, g, other, dim):
    return F.linalg_cross(F.expand(F.conjugated(other), g.shape), g, dim=dim)


@linalg_cross.vjp("other")
def linalg_cross_vjp_other(F, g, input, dim):
    return F.linalg_cross(g, F.expand(F.conjugated(input), g.shape), dim=dim)


@linalg_cross.samples
def linalg_cross_samples(make):
    yield make(2, 3), make(2, 3)
    yield make.args(make(3, 4), make(3, 1), dim=0)


@composite(kinds={"dim": "int?"}, autocast={"cuda": "promote"})
def cross(F, input, other, dim=None):
    """Cross product of vectors of three elements along `dim`.

    By default that is the first dimension of size 3.

    >>> import plugrad as torch
    >>> torch.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]), dim=0)
    tensor([0., 0., 1.])
    """
    if dim is None:
        if 3 not in input.shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = tuple(input.shape).index(3)
    return F.linalg_cross(input, other, dim=dim)


@cross.samples
def cross_samples(make):
    yield make(2, 3), make(2, 3)


@composite(at=("linalg.vecdot",), autocast="lower")
def linalg_vecdot(F, x, y, *, dim=-1, out=None):
    """Sum of the products of vectors along `dim`, the first one conjugated.

    >>> import plugrad as torch
    >>> torch.linalg.vecdot(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 1.]))
    tensor([3., 7.])
    """
    for name, tensor in (("x", x), ("y", y)):
        if not (tensor.is_floating_point() or tensor.is_complex()):
            raise RuntimeError(
                f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {tensor.dtype} for {name}"
            )
    if x.dtype != y.dtype:
        raise RuntimeError(f"linalg.vecdot: Expected vectors of same type, got {x.dtype} and {y.dtype}")
    result = F.sum(F.conjugated(x) * y, dim)
    return result if out is None else write_out(linalg_vecdot, result, out)


@linalg_vecdot.samples
def linalg_vecdot_samples(make):
    yield make(2, 3), make(2, 3)


@composite(at=("linalg.diagonal",))
def linalg_diagonal(F, A, *, offset=0, dim1=-2, dim2=-1):
    """Diagonals of matrices, as a view.

    >>> import plugrad as torch
    >>> torch.linalg.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return F.diagonal(A, offset, dim1, dim2)


@linalg_diagonal.samples
def linalg_diagonal_samples(make):
    yield make(2, 3, 4)
    yield make.args(make(3, 4), offset=1)


def _powers(F, x, N, increasing):
    """Matrices of the powers of the last dimension of `x`, as columns."""
    x = F.unsqueeze(x, -1)
    ones = F.ones_like(x)
    if N <= 1:
        return ones if N else ones[..., :0]
    columns = F.cat([ones, F.expand(x, (*x.shape[:-1], N - 1))], -1)
    columns = F.cumprod(columns, -1)
    return columns if increasing else F.flip(columns, (-1,))


@composite(at=("linalg.vander",))
def linalg_vander(F, x, N=None):
    """Vandermonde matrices: rows (1, x, x^2, ...) for the elements of each vector.

    Args:
        x: vectors (*, n).
        N: number of columns, n by default.

    >>> import plugrad as torch
    >>> torch.linalg.vander(torch.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    x = x if x.ndim else F.reshape(x, (1,))
    N = x.shape[-1] if N is None else N
    if N <= 1:
        raise RuntimeError("N must be greater than 1.")
    return _powers(F, x, N, True)


@linalg_vander.samples
def linalg_vander_samples(make):
    yield make(2, 3)


@composite(at=("vander",))
def vander(F, x, N=None, increasing=False):
    """Vandermonde matrix of a vector: columns of its powers, by default falling.

    >>> import plugrad as torch
    >>> torch.vander(torch.tensor([2, 3]))
    tensor([[2, 1],
            [3, 1]])
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    N = x.shape[0] if N is None else N
    if N < 0:
        raise RuntimeError("N must be non-negative.")
    return _powers(F, x, N, increasing)


@vander.samples
def vander_samples(make):
    yield make(3)
    yield make.args(make(3), 4, increasing=True)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
