"""Norms of vectors and matrices, distances, and what is scaled by them."""

from __future__ import annotations

import functools
import math

import plugrad
from plugrad.extend import Op, axes, collect, composite, dtype_of, hookimpl, keep_dims, native, reduction, write_out

from .extremes import shared
from .reduction import summed_in_c, total

_INF = math.inf


# ---------------------------------------------------------------- vectors


def _order(ord):
    """Return a norm's order as a float; TypeError unless it is a number."""
    if isinstance(ord, str):
        raise TypeError(
            f"linalg.vector_norm(): argument 'ord' must be Number, not str: {ord!r}; for matrices write "
            "linalg.matrix_norm"
        )
    return float(ord)


def _check_empty(shape, dim, ord) -> None:
    if ord >= 0 and ord != _INF:
        return
    name = {_INF: "inf", -_INF: "-inf"}.get(ord, f"{ord:g}")
    if dim is None or dim == ():
        if math.prod(shape) == 0:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {name} norm on an empty tensor because the "
                "operation does not have an identity"
            )
        return
    for d in dim if isinstance(dim, tuple) else (dim,):
        if len(shape) and not shape[d]:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {name} norm on the dimension {d} because this "
                "dimension is empty and the operation does not have an identity"
            )


def _check_dtypes(name, dtype, asked) -> None:
    """Raise RuntimeError where a norm cannot be taken of `dtype`, or not after conversion to the dtype `asked` for."""
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {dtype._label}; write input.float()"
        )
    if asked is None or asked is dtype:
        return
    if not (asked.is_floating_point or asked.is_complex):
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {asked._label}")
    if asked.is_complex != dtype.is_complex:
        kind = "complex" if dtype.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {asked._label}")
    if plugrad.promote_types(dtype, asked) is not asked:
        raise RuntimeError(
            f"{name}: the dtype of the input ({dtype._label}) should be convertible without narrowing to the "
            f"specified dtype ({asked._label}); convert the input yourself: input.to({asked})"
        )


@reduction(
    at=("linalg.vector_norm",), kinds={"ord": "real"}, autocast={"cuda": "set_dtype"},
    meet=functools.partial(_check_dtypes, "linalg.vector_norm"),
)
def linalg_vector_norm(xp, input, ord=2, dim=None, keepdim=False, *, dtype=None):
    """Norm of all elements taken as a vector, or along `dim`: (sum |x|^ord)^(1/ord).

    Args:
        input: float or complex tensor.
        ord: 0 counts what is not zero, inf and -inf are the largest and smallest modulus.
        dim: int or tuple of ints; None for all.
        keepdim: keep the reduced dimensions with size 1.
        dtype: the input is converted to it first.

    The gradient where the norm is zero is zero.

    >>> import plugrad as torch
    >>> torch.linalg.vector_norm(torch.tensor([3., -4.])), torch.linalg.vector_norm(torch.tensor([3., -4.]), 1)
    (tensor(5.), tensor(7.))
    """
    _check_dtypes("linalg.vector_norm", dtype_of(input.dtype), None)
    ord, axis = _order(ord), None if dim == () else dim
    _check_empty(input.shape, dim, ord)
    if ord == 2:
        squares = input.real**2 + input.imag**2 if input.dtype.kind == "c" else input * input
        return xp.sqrt(total(xp, squares, axis, keepdim))
    size = abs(input)
    if ord == 1:
        return total(xp, size, axis, keepdim)
    if ord == 0:
        return total(xp, (size != 0).astype(size.dtype), axis, keepdim)
    if abs(ord) == _INF:
        return (size.max if ord > 0 else size.min)(axis=axis, keepdims=keepdim)
    return total(xp, size**ord, axis, keepdim) ** (1 / ord)


@linalg_vector_norm.kernel("cpu")
@native("sums", otherwise=linalg_vector_norm)
def vector_norm_in_c(call, xp, input, ord=2, dim=None, keepdim=False, *, dtype=None):
    if ord != 2 or dtype is not None:
        return NotImplemented
    return summed_in_c(call, xp, input, dim, keepdim, 1, True)


@linalg_vector_norm.vjp
def linalg_vector_norm_vjp(F, g, y, input, ord, dim, keepdim):
    ord, shape = float(ord), input.shape
    if ord == 0:
        return None
    g, y = keep_dims(F, g, shape, dim, keepdim), keep_dims(F, y, shape, dim, keepdim)
    if ord == 1:
        return F.sgn(input) * g
    if ord == 2:
        return input / F.where(y == 0, _INF, y) * g  # no more than g: one over a small norm may overflow
    size = F.abs(input)
    if abs(ord) == _INF:
        return F.sgn(input) * shared(F, g, (size == y) | ((size != size) & (y != y)), dim if len(shape) else None)
    # |x|^(ord - 1) / y^(ord - 1), as one quotient: neither power can overflow alone.
    share = size / F.where(y == 0, _INF, y)
    if ord < 1:
        share = F.where(size == 0, 1.0, F.where(y == 0, _INF, share))
    return F.sgn(input) * share ** (ord - 1) * g


@linalg_vector_norm.samples
def vector_norm_samples(make):
    for ord in (2, 1, 3, 0.5, _INF, -_INF, 0):
        yield make.args(make(3, 4), ord)
    yield make.args(make(3, 4), 2, 1, True)
    yield make.args(make(2, 3, 4), 3, (0, -1))


# ---------------------------------------------------------------- matrices

_SUMS = {1: 0, -1: 0, _INF: 1, -_INF: 1}  # order -> which of the two dimensions is summed


def _largest(F, values, dim):
    """Return what finds the largest of some moduli: of none it is 0, while there is no smallest."""
    return F.amax if values.shape[dim] else F.sum


@composite(at=("linalg.matrix_norm",), kinds={"dim": "ints", "ord": "number|str"}, autocast={"cuda": "set_dtype"})
def linalg_matrix_norm(F, input, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """Norm of matrices.

    Args:
        input: float or complex tensor of two or more dimensions.
        ord: "fro" (root of the sum of squares), "nuc" (sum of the singular values), 2 and -2 (largest and smallest
            singular value), 1 and -1 (largest and smallest sum of a column's moduli), inf and -inf (of a row's).
        dim: the two dimensions of the matrices.
        keepdim: keep them with size 1.
        dtype: the input is converted to it first.

    >>> import plugrad as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[3., 0.], [0., -4.]]), 2)
    tensor(4.)
    """
    check_name = "linalg.matrix_norm"
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(f"{check_name}: dim must be a 2-tuple. Got {dim}")
    if input.ndim < 2:
        raise RuntimeError(f"{check_name}: The input tensor A must have at least 2 dimensions.")
    given, input = input.dtype, input if dtype is None else input.to(dtype)
    _check_dtypes(check_name, given, input.dtype)
    first, second = axes(dim[0], input.ndim), axes(dim[1], input.ndim)
    if first == second:
        raise RuntimeError(f"{check_name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    if hasattr(ord, "item"):  # a tensor without dimensions stands for a number
        ord = ord.item()
    if ord == "fro":
        return F.linalg_vector_norm(input, 2, (first, second), keepdim)
    if ord in ("nuc", 2, -2):
        values = F.linalg_svdvals(F.movedim(input, (first, second), (-2, -1)))
        pick = F.sum if ord == "nuc" else _largest(F, values, -1) if ord == 2 else F.amin
        result = pick(values, -1)
        if not keepdim:
            return result
        return F.reshape(result, tuple(1 if i in (first, second) else n for i, n in enumerate(input.shape)))
    if isinstance(ord, str) or ord not in _SUMS:
        raise RuntimeError(f"{check_name}: Order {ord} not supported. It can be 'fro', 'nuc', 1, -1, 2, -2, inf, -inf")
    summed, other = (first, second)[_SUMS[ord]], (first, second)[1 - _SUMS[ord]]
    sums = F.linalg_vector_norm(input, 1, summed, True)
    result = (_largest(F, sums, other) if ord > 0 else F.amin)(sums, other, True)
    if keepdim:
        return result
    return F.reshape(result, tuple(n for i, n in enumerate(input.shape) if i not in (first, second)))


@linalg_matrix_norm.samples
def linalg_matrix_norm_samples(make):
    yield make(3, 4)
    yield make(2, 3, 4), "nuc"
    yield make.args(make(2, 3, 4), 1, keepdim=True)


@composite(at=("linalg.norm",), kinds={"ord": "number|str?"})
def linalg_norm(F, input, ord=None, dim=None, keepdim=False, *, dtype=None):
    """Norm of vectors or matrices.

    Args:
        input: float or complex tensor.
        ord: order of the norm, as for `vector_norm` or `matrix_norm`; None is the root of the sum of squares.
        dim: int for vectors, a pair for matrices; None is all of `input`, which then has one or two dimensions unless
            `ord` is None as well.

    >>> import plugrad as torch
    >>> torch.linalg.norm(torch.tensor([[3., 0.], [4., 0.]])), torch.linalg.norm(torch.tensor([[3., 0.], [4., 0.]]), 1)
    (tensor(5.), tensor(7.))
    """
    if isinstance(dim, (tuple, list)) and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is None:
        return F.linalg_vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if dim is None and input.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {input.ndim}D."
        )
    pair = input.ndim == 2 if dim is None else isinstance(dim, (tuple, list)) and len(dim) == 2
    if isinstance(ord, str) and not pair:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    if pair:
        return F.linalg_matrix_norm(input, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    return F.linalg_vector_norm(input, ord, dim, keepdim, dtype=dtype)


@composite(kinds={"p": "number|str?"}, autocast={"cuda": "set_dtype"})
def norm(F, input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """Norm of all elements, or along `dim`, taken as a vector.

    `torch.linalg.norm` is the newer form.

    Args:
        input: float or complex tensor.
        p: order of the vector norm; "fro" is 2, of at most two dimensions that are named; "nuc" is the nuclear norm of
            matrices.
        dim: int or tuple of ints; None for all.

    >>> import plugrad as torch
    >>> torch.norm(torch.tensor([3., -4.]))
    tensor(5.)
    """
    if p == "nuc" or p == "fro" and isinstance(dim, (tuple, list)) and len(dim) > 2:
        dims = tuple(range(input.ndim)) if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
        result = F.linalg_matrix_norm(input, p, dims, keepdim, dtype=dtype)
    elif isinstance(p, str) and p != "fro":
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    else:
        result = F.linalg_vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)
    return result if out is None else write_out(norm, result, out)


@linalg_norm.samples
@norm.samples
def norm_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), 3, dim=1)
    yield make(5), 2


def _of_nothing(F, input):
    return F.sum(F.real(input) if input.is_complex() else input, (-2, -1)) * 0.0


@composite(at=("linalg.cond",), kinds={"p": "number|str?"}, autocast={"cpu": "float32"})
def linalg_cond(F, input, p=None):
    """Condition number of matrices: the norm of `input` times the norm of its inverse.

    Args:
        input: batch of matrices; square unless `p` is None, 2 or -2.
        p: order of the matrix norm; None is 2. Singular matrices have an infinite condition number.

    >>> import plugrad as torch
    >>> torch.linalg.cond(torch.tensor([[4., 0.], [0., 2.]]))
    tensor(2.)
    """
    if input.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor A must have at least 2 dimensions.")
    if p is None or p in (2, -2):
        if not input.numel():
            return _of_nothing(F, input)
        values = F.linalg_svdvals(input)
        first, last = values[..., 0], values[..., -1]
        return last / first if p == -2 else first / last
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if input.shape[-1] != input.shape[-2]:
        raise RuntimeError(
            f"linalg.cond(ord={p}): A must be batches of square matrices, but they are {input.shape[-2]} by "
            f"{input.shape[-1]} matrices"
        )
    if not input.numel():
        return _of_nothing(F, input)
    inverse, info = F.linalg_inv_ex(input)
    product = F.linalg_matrix_norm(input, p) * F.linalg_matrix_norm(F.where(F.isfinite(inverse), inverse, 0.0), p)
    return F.where(info > 0, _INF, product)


@linalg_cond.samples
def linalg_cond_samples(make):
    yield make(3, 3)
    yield make(2, 3, 3), 1


# ---------------------------------------------------------------- distances


@composite(kinds={"p": "number", "input": "tensor", "other": "tensor"}, autocast={"cuda": "float32"})
def dist(F, input, other, p=2):
    """Norm of the difference of two tensors, of order `p`.

    >>> import plugrad as torch
    >>> torch.dist(torch.tensor([3., 0.]), torch.tensor([0., 4.]))
    tensor(5.)
    """
    return F.linalg_vector_norm(input - other, p)


@dist.samples
def dist_samples(make):
    yield make(3, 4), make(4)
    yield make(3, 4), make(3, 4), 3


@composite(inplace=True, kinds={"p": "real", "maxnorm": "real"}, autocast={"cuda": "float32"})
def renorm(F, input, p, dim, maxnorm):
    """Scale down the slices along `dim` whose norm of order `p` exceeds `maxnorm`.

    >>> import plugrad as torch
    >>> torch.renorm(torch.tensor([[3., 4.], [0.3, 0.4]]), 2, 0, 1)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    kept = axes(dim, input.ndim)
    input = F.clone(input)  # what is kept for the gradient of the norm must outlive `renorm_`
    dims, dtype = tuple(d for d in range(input.ndim) if d != kept), input.dtype
    wide = plugrad.float32 if dtype in (plugrad.float16, plugrad.bfloat16) else None
    size = F.linalg_vector_norm(input, p, dims, True, dtype=wide)
    long = size > maxnorm
    # One over the length of what stays as it is may be infinite, also where its gradient is multiplied by zero.
    scaled = input * F.where(long, maxnorm / (F.where(long, size, 1.0) + 1e-7), 1.0)
    return F.contiguous(scaled if scaled.dtype is dtype else scaled.to(dtype))


@renorm.samples
def renorm_samples(make):
    yield make(3, 4), 2, 0, 0.5


@composite(kinds={"pow": "int"})
def norm_except_dim(F, v, pow=2, dim=0):
    """Norm over all dimensions but one, which are kept with size 1.

    Args:
        v: float or complex tensor.
        pow: order of the norm.
        dim: the dimension that is kept; -1 for none: the result is then the norm of all elements.

    >>> import plugrad as torch
    >>> torch.norm_except_dim(torch.tensor([[3., 4.], [0., 2.]]))
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return F.linalg_vector_norm(v, pow)
    if not v.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    kept = axes(dim, v.ndim)
    if v.ndim == 1:  # no other dimension, which as `dim` would mean all
        return F.linalg_vector_norm(F.reshape(v, (-1, 1)), pow, 1)
    return F.linalg_vector_norm(v, pow, tuple(d for d in range(v.ndim) if d != kept), True)


@composite(at=("_weight_norm",))
def weight_norm(F, v, g, dim=0):
    """A weight of direction `v` and length `g`, which `norm_except_dim` measures.

    >>> import plugrad as torch
    >>> torch._weight_norm(torch.tensor([[3., 4.]]), torch.tensor([[10.]]))
    tensor([[6., 8.]])
    """
    v = F.contiguous(v)
    return v * (g / F.norm_except_dim(v, 2, dim))


@norm_except_dim.samples
def norm_except_dim_samples(make):
    yield make(3, 4)
    yield make(2, 3, 4), 1, 1
    yield make(3, 4), 2, -1
    yield make(3)


@weight_norm.samples
def weight_norm_samples(make):
    yield make(3, 4), make(3, 1)
    yield make(3, 2, 2), make(), -1


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
