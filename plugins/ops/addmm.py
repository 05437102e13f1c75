"""Products of matrices and vectors, added to something: `addmm` and its relatives; and those of groups of rows."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, is_half, op

from ._checks import dtype_word, fitted, number
from .matmul import check_batches, check_matrix, product, product_shape
from .shape import sum_to_shape

_ONE = 1  # factors that are this very int need no look


def _check_added(input, mat1, mat2) -> None:
    check_matrix("mat1", mat1)
    check_matrix("mat2", mat2)
    for array in (input, mat1):
        if array.dtype != mat2.dtype:
            raise RuntimeError(
                "self and mat2 must have the same dtype, but got "
                f"{dtype_word(array.dtype)} and {dtype_word(mat2.dtype)}"
            )


def _check_expands(shape, target) -> None:
    """Raise RuntimeError unless `shape` can be expanded to `target`."""
    if len(shape) > len(target):
        raise RuntimeError(
            f"expand(tensor of shape {list(shape)}, size={list(target)}): the number of sizes provided "
            f"({len(target)}) must be greater or equal to the number of dimensions in the tensor "
            f"({len(shape)})"
        )
    for i, n in enumerate(shape, len(target) - len(shape)):
        if n not in (1, target[i]):
            raise RuntimeError(
                f"The expanded size of the tensor ({target[i]}) must match the existing size ({n}) at "
                f"non-singleton dimension {i}.  Target sizes: {list(target)}.  Tensor sizes: "
                f"{list(shape)}"
            )


def _factors(dtype, beta, alpha):
    """Return beta and alpha as numbers that may scale a dtype, which have to fit: whole ones for integers."""
    beta, alpha, real = number(beta), number(alpha), "complex" not in str(dtype)
    for factor in (beta, alpha):
        if real and isinstance(factor, complex) and factor.imag:
            raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: it is complex")
    return fitted(dtype, beta), fitted(dtype, alpha)


def added(input, result, beta, alpha):
    """`beta * input + alpha * result`; with `beta=0` a NaN in `input` doesn't count."""
    dtype = result.dtype
    if beta is not _ONE or alpha is not _ONE:
        beta, alpha = _factors(dtype, beta, alpha)
    _check_expands(input.shape, result.shape)
    if alpha != 1:
        result = result * alpha
    if beta != 0:
        result = result + (input if beta == 1 else input * beta)
    return result if result.dtype == dtype else result.astype(dtype)  # bfloat16 times a Python number is float32


@op(inplace=True, autocast="lower", older=("beta", "alpha"))
def addmm(xp, input, mat1, mat2, *, beta=1, alpha=1):
    """`beta * input + alpha * (mat1 @ mat2)` for matrices.

    Args:
        input: what is added; it broadcasts to the product.
        mat1, mat2: matrices (n, k) and (k, m).
        beta, alpha: factors. With `beta=0`, `input` is ignored, NaNs included.

    >>> import plugrad as torch
    >>> torch.addmm(torch.tensor([10., 20.]), torch.eye(2), torch.ones(2, 2))
    tensor([[11., 21.],
            [11., 21.]])
    """
    _check_added(input, mat1, mat2)
    if is_half(mat1.dtype) and mat1.dtype == mat2.dtype:  # one rounding, of the sum
        input, one, two = input.astype("float32"), mat1.astype("float32"), mat2.astype("float32")
        return added(input, product(xp, one, two), beta, alpha).astype(mat1.dtype)
    return added(input, product(xp, mat1, mat2), beta, alpha)


@addmm.meta
def addmm_meta(input, mat1, mat2, *, beta=1, alpha=1):
    _check_added(input, mat1, mat2)
    shape = product_shape(mat1.shape, mat2.shape)
    _check_expands(input.shape, shape)
    return shape, mat1.dtype


def times(F, g, factor):
    """`g` times the conjugate of a Python number."""
    return g if factor == 1 else g * factor.conjugate()


@addmm.vjp("input")
def addmm_vjp_input(F, g, input_shape, beta):
    return times(F, sum_to_shape(F, g, input_shape), beta)


@addmm.vjp("mat1")
def addmm_vjp_mat1(F, g, mat2, alpha):
    return times(F, F.mm(g, F.transpose(F.conjugated(mat2), 0, 1)), alpha)


@addmm.vjp("mat2")
def addmm_vjp_mat2(F, g, mat1, alpha):
    return times(F, F.mm(F.transpose(F.conjugated(mat1), 0, 1), g), alpha)


@addmm.samples
def addmm_samples(make):
    yield make(3, 2), make(3, 4), make(4, 2)
    yield make.args(make(2), make(3, 4), make(4, 2), beta=0.5, alpha=2)


def _plus(F, input, result, beta, alpha, widens=False):
    """What `added` does, recorded; `widens` lets numbers of single precision scale halves."""
    target = tuple(result.shape)
    _check_expands(tuple(input.shape), target)
    if input.dtype != result.dtype:
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {input.dtype} and {result.dtype}")
    dtype = result.dtype.numpy
    beta, alpha = _factors(plugrad.float32.numpy if widens and is_half(dtype) else dtype, beta, alpha)
    result = result if alpha == 1 else result * alpha
    if beta == 0:
        return result
    return result + (input if beta == 1 else input * beta)


@composite(inplace=True, autocast={"cuda": "lower"}, older=("beta", "alpha"))
def addmv(F, input, mat, vec, *, beta=1, alpha=1):
    """`beta * input + alpha * (mat @ vec)` for a matrix and a vector.

    Arguments as for `addmm`.

    >>> import plugrad as torch
    >>> torch.addmv(torch.tensor([10., 20.]), torch.eye(2), torch.ones(2))
    tensor([11., 21.])
    """
    if mat.ndim != 2 or vec.ndim != 1 or input.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")
    if mat.shape[1] != vec.shape[0] or input.numel() not in (1, mat.shape[0]):
        raise RuntimeError(
            f"size mismatch, got input ({mat.shape[0]}), mat ({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})"
        )
    return _plus(F, input, F.mv(mat, vec), beta, alpha)


@addmv.samples
def addmv_samples(make):
    yield make.args(make(3), make(3, 4), make(4), beta=0.5, alpha=2)


@composite(inplace=True, autocast={"cuda": "lower"}, older=("beta", "alpha"))
def addr(F, input, vec1, vec2, *, beta=1, alpha=1):
    """`beta * input + alpha * outer(vec1, vec2)`; arguments as for `addmm`.

    >>> import plugrad as torch
    >>> torch.addr(torch.zeros(2, 2), torch.tensor([1., 2.]), torch.tensor([3., 4.]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    for name, vector in (("vec1", vec1), ("vec2", vec2)):
        if vector.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {vector.ndim}-D")
    _check_expands(tuple(input.shape), (*vec1.shape, *vec2.shape))
    dtype = plugrad.promote_types(plugrad.promote_types(vec1.dtype, vec2.dtype), input.dtype)
    for factor, name in ((beta, "beta"), (alpha, "alpha")):
        factor = number(factor)
        if isinstance(factor, (float, complex)) and not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
        if isinstance(factor, bool) and dtype is not plugrad.bool:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results; write {int(factor)}")
    beta, alpha = _factors(dtype.numpy, beta, alpha)
    result = F.outer(vec1, vec2).to(dtype)
    if dtype is plugrad.bool:
        result = result & bool(alpha)
        return result | input if beta else result
    result = result if alpha == 1 else result * alpha
    return result if beta == 0 else result + (input if beta == 1 else input.to(dtype) * beta)


@addr.samples
def addr_samples(make):
    yield make.args(make(3, 4), make(3), make(4), beta=0.5, alpha=2)


@composite(inplace=True, autocast="lower", older=("beta", "alpha"))
def baddbmm(F, input, batch1, batch2, *, beta=1, alpha=1):
    """`beta * input + alpha * bmm(batch1, batch2)`; arguments as for `addmm`.

    >>> import plugrad as torch
    >>> torch.baddbmm(torch.zeros(1), torch.ones(5, 2, 3), torch.ones(5, 3, 4)).shape
    torch.Size([5, 2, 4])
    """
    return _plus(F, input, F.bmm(batch1, batch2), beta, alpha, True)


@baddbmm.samples
def baddbmm_samples(make):
    yield make.args(make(2, 3, 5), make(2, 3, 4), make(2, 4, 5), beta=0.5, alpha=2)


@composite(autocast="lower", older=("beta", "alpha"))
def addbmm(F, input, batch1, batch2, *, beta=1, alpha=1):
    """`beta * input + alpha` times the sum of the products in a batch.

    Arguments as for `addmm`.

    >>> import plugrad as torch
    >>> torch.addbmm(torch.zeros(2, 4), torch.ones(5, 2, 3), torch.ones(5, 3, 4))[0]
    tensor([15., 15., 15., 15.])
    """
    check_batches(batch1, batch2)
    b, n, k = batch1.shape
    flat = F.reshape(F.transpose(batch1, 0, 1), (n, b * k)), F.reshape(batch2, (b * k, batch2.shape[2]))
    return _plus(F, input, F.mm(*flat), beta, alpha, True)


@composite(name="addbmm_", at=("Tensor.addbmm_",), older=("beta", "alpha"))
def addbmm_(F, input, batch1, batch2, *, beta=1, alpha=1):
    """In-place version of `addbmm`.

    A tensor that is broadcast gets the shape of the result. Raises RuntimeError when such a one requires grad.

    >>> import plugrad as torch
    >>> torch.zeros(1).addbmm_(torch.ones(5, 2, 3), torch.ones(5, 3, 2))
    tensor([[15., 15.],
            [15., 15.]])
    """
    result = F.addbmm(input, batch1, batch2, beta=beta, alpha=alpha)
    if result.shape == input.shape:
        return input.copy_(result)
    if input.requires_grad:
        raise RuntimeError(
            f"addbmm_: a tensor that requires grad can't be broadcast to {list(result.shape)}: write x = x.addbmm(...)"
        )
    input.data = result.detach()
    return input


@addbmm_.samples
def addbmm_in_place_samples(make):
    yield make.on_copy(make(3, 5), make(2, 3, 4), make(2, 4, 5), beta=0.5, alpha=2)


@addbmm.samples
def addbmm_samples(make):
    yield make.args(make(3, 5), make(2, 3, 4), make(2, 4, 5), beta=0.5, alpha=2)


def _check_groups(mat_a, mat_b, offs, bias, out_dtype):
    if mat_a.dim() not in (2, 3) or mat_b.dim() not in (2, 3):
        raise RuntimeError(f"grouped_mm() takes 2D and 3D tensors, got {mat_a.dim()}D and {mat_b.dim()}D")
    if (mat_a.dim() == mat_b.dim() == 3) != (offs is None):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if mat_a.dtype != mat_b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {mat_a.dtype} != {mat_b.dtype}")
    if not mat_a.dtype.is_floating_point:
        raise RuntimeError(f"Expected mat_a to be Float32, BFloat16 or Float16 matrix, got {mat_a.dtype}")
    if bias is not None:
        raise RuntimeError("Bias not supported yet: add it to the result")
    if out_dtype not in (None, mat_a.dtype):
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if offs is None:
        if len(mat_a) != len(mat_b):
            raise RuntimeError("batched dimension has to match")
        return
    if offs.dtype != plugrad.int32:
        raise RuntimeError(f"Offsets have to be int32, not {offs.dtype}")
    if any(len(offs) != len(mat) for mat in (mat_a, mat_b) if mat.dim() == 3):
        raise RuntimeError(f"matrix batch sizes have to match: there are {len(offs)} offsets")


@composite(at=("nn.functional.grouped_mm",))
def grouped_mm(F, mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Products of groups of rows or columns, where experts have own matrices.

    Args:
        mat_a, mat_b: of shapes [n, k] and [groups, k, m], whose product has shape [n, m]; or [groups, n, k] and
            [k, m], whose product has shape [n, m]; or [n, k] and [k, m], of shape [groups, n, m]; or both 3D, as `bmm`.
        offs: int32 numbers, for each group the end of its rows, columns or, where both are 2D, of its part of k;
            rows and columns behind the last are zero. None if both are 3D.
        bias, out_dtype: None, as PyTorch has it.

    >>> import plugrad as torch
    >>> experts = torch.tensor([[[1.0]], [[10.0]]])
    >>> torch.nn.functional.grouped_mm(torch.ones(3, 1), experts, offs=torch.tensor([2, 3], dtype=torch.int32))
    tensor([[ 1.],
            [ 1.],
            [10.]])
    """
    _check_groups(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return F.bmm(mat_a, mat_b)
    ends = offs.tolist()
    groups = [slice(begin, end) for begin, end in zip([0, *ends], ends)]
    if mat_a.dim() == mat_b.dim():
        return F.stack([F.matmul(mat_a[:, part], mat_b[part]) for part in groups])
    by_rows = mat_a.dim() == 2
    parts = [
        F.matmul(mat_a[part], mat_b[k]) if by_rows else F.matmul(mat_a[k], mat_b[:, part])
        for k, part in enumerate(groups)
    ]
    rest = (len(mat_a) if by_rows else mat_b.shape[1]) - ends[-1]
    if rest:
        shape = (rest, mat_b.shape[2]) if by_rows else (mat_a.shape[1], rest)
        parts.append(plugrad.zeros(shape, dtype=mat_a.dtype, device=mat_a.device))
    return F.cat(parts, 0 if by_rows else 1)


@grouped_mm.samples
def grouped_mm_samples(make):
    yield make(2, 4, 8), make(2, 8, 4)
    yield make.args(make(4, 8), make(2, 8, 3), offs=plugrad.tensor([1, 4], dtype=plugrad.int32))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
