"""Products of matrices and vectors."""

from __future__ import annotations

import math

from plugrad.extend import (
    Op,
    broadcast_shapes,
    collect,
    composite,
    conj,
    hookimpl,
    multilinear,
    native,
    native_function,
    op,
)

from ._checks import BOOL, dtype_word, refuse
from .shape import sum_to_shape

_IN_FLOAT32 = "?eE"  # NumPy's letters of bool, float16 and bfloat16, which its products are slow or wrong in
_C_NAMES = {
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "int64": "long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


# ---------------------------------------------------------------- what is refused


def _same_dtype(input, other) -> None:
    if input.dtype != other.dtype:
        one, two = (_C_NAMES.get(str(array.dtype), array.dtype) for array in (input, other))
        if input.ndim == other.ndim == 1:
            raise RuntimeError(
                "dot : expected both vectors to have same dtype, but found "
                f"{dtype_word(input.dtype)} and {dtype_word(other.dtype)}; convert one with .to(dtype)"
            )
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {one} != {two}; convert one with .to(dtype)"
        )


def _sizes_error(a, b):
    """What to raise when the shapes `a` and `b` cannot be multiplied."""
    if not a or not b:
        return RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {len(a)}D and {len(b)}D")
    if len(a) == len(b) == 1:
        return RuntimeError(
            f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same "
            f"number of elements, but got {a[0]} and {b[0]} elements respectively"
        )
    if len(b) == 1 and len(a) == 2:
        return RuntimeError(f"size mismatch, got input ({a[0]}), mat ({a[0]}x{a[1]}), vec ({b[0]})")
    if len(a) <= 2 or len(b) <= 2:
        rows = math.prod(a[:-1])
        columns = b[-1] if len(b) > 1 else 1
        return RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a[-1]} and {b[-2:][0]}x{columns})")
    if a[-1] != b[-2]:
        return RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{b[0]}, {a[-1]}] but "
            f"got: [{b[0]}, {b[-2]}]."
        )
    try:
        broadcast_shapes(a[:-2], b[:-2])
    except RuntimeError as error:
        return error
    return None


def product(xp, input, other):
    """`input @ other` of raw arrays; a batch of matrices times one matrix is a single larger product."""
    if input.dtype != other.dtype:
        _same_dtype(input, other)
    dtype = input.dtype
    if dtype.char in _IN_FLOAT32:
        refuse(BOOL, "addmm_impl_cpu_", input)
        if xp.__name__ == "cupy" and dtype.char != "?" and min(input.ndim, other.ndim) > 1:
            result = xp.gemm(input, other)
            if result is not NotImplemented:
                return result
        return product(xp, input.astype("float32"), other.astype("float32")).astype(dtype)
    try:
        if input.ndim == 2 >= other.ndim > 0:
            return input.dot(other)  # for a matrix and a vector the same as matmul, and twice as fast to call
        if input.ndim > 2 and other.ndim == 2 and input.flags.c_contiguous and input.size:
            return input.reshape(-1, input.shape[-1]).dot(other).reshape(*input.shape[:-1], other.shape[1])
        result = _batches(xp, input, other) if input.ndim > 2 < other.ndim else NotImplemented
        return xp.matmul(input, other) if result is NotImplemented else result
    except ValueError as error:
        raise _sizes_error(input.shape, other.shape) or error from None


def product_on_cuda(xp, input, other):
    """`product` by one call of cuBLAS, where it serves that."""
    if input.ndim > 1 < other.ndim:
        result = xp.gemm(input, other)
        if result is not NotImplemented:
            return result
    return product(xp, input, other)


_LARGE = 1 << 12  # multiplications from which a product in C repays the way to it
BY_THREADS = 9216  # elements of a matrix from which OpenBLAS multiplies few rows by it in threads, which then spin
_batches_in_c = native_function("product_batch", lambda *operands: NotImplemented)


def _batches(xp, input, other):
    """Products of as many matrices; NotImplemented where that is little, or one batch stands for several.

    What NumPy multiplies slowly, by columns that are not contiguous or by the same memory, is in C on one thread, too.
    """
    columns = other.shape[-1]
    if input.size * columns < _LARGE or columns < 4:
        return NotImplemented
    *lead, rows, inner = input.shape
    if [*lead, inner] != [*other.shape[:-1]] or rows < 4:
        return NotImplemented
    if type(input).__module__ != "numpy" or input.dtype.char not in "fd":
        return NotImplemented
    itself = input.base is other or input is other.base or input.base is other.base is not None
    itself = itself and input.__array_interface__["data"] == other.__array_interface__["data"]
    out = xp.empty((*lead, rows, columns), input.dtype)
    easy = other.strides[-1] == other.itemsize and not itself
    return out if _batches_in_c(input, other, out, easy) is None else NotImplemented


def product_in_c(call, xp, input, other, bias=None):
    """`input @ other`, and bias, for rows and a matrix; NotImplemented where NumPy is as fast."""
    size, (inner, columns) = input.size, other.shape
    if size * columns < _LARGE or columns < 4 or size < 4 * inner or input.shape[-1] != inner:
        return NotImplemented
    shape = None
    if input.ndim > 2:
        shape, input = (*input.shape[:-1], columns), xp.ascontiguousarray(input).reshape(-1, inner)
    out = xp.empty((size // inner, columns), input.dtype)
    if bias is None:
        done = call(input, other, out, False, False)
    else:
        done = call(input, other, out, bias, False, True)
    if done is not None:
        return NotImplemented
    return out if shape is None else out.reshape(shape)


def product_shape(a, b):
    """Shape of the product of arrays of shapes `a` and `b`."""
    wrong = not a or not b or a[-1] != b[-2:][0]
    if wrong:
        raise _sizes_error(a, b)
    batch = broadcast_shapes(a[:-2], b[:-2])
    return batch + a[-2:-1] + b[-1:] * (len(b) > 1)


# ---------------------------------------------------------------- matmul


@op(node="MmBackward0", ref="numpy.matmul", aliases=("linalg.matmul",), autocast="lower")
def matmul(xp, input, other):
    """Matrix product, `input @ other`.

    Args:
        input, other: vectors (1-d), matrices (2-d) or batches of matrices, whose leading dimensions broadcast.
            A vector counts as a row on the left and as a column on the right.

    Errors: `RuntimeError` when the inner sizes or the dtypes differ.

    >>> import plugrad as torch
    >>> torch.matmul(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 1.]))
    tensor([3., 7.])
    """
    return product(xp, input, other)


@matmul.kernel("cpu")
@native("product_2d", otherwise=matmul)
def matmul_in_c(call, xp, input, other):
    return product_in_c(call, xp, input, other) if other.ndim == 2 <= input.ndim else NotImplemented


matmul.kernel("cuda")(product_on_cuda)


@matmul.meta
def matmul_meta(input, other):
    _same_dtype(input, other)
    return product_shape(input.shape, other.shape), input.dtype


def as_rows(F, input):
    """`input` with all dimensions but the last joined into one."""
    return F.reshape(input, (math.prod(input.shape[:-1]), input.shape[-1]))


multilinear(matmul, "input", "other")


@matmul.vjp("input")
def matmul_vjp_input(F, g, other, input_shape):
    if len(input_shape) == 2 and other.ndim == 2:
        return F.mm(g, F.t(conj(F, other)))
    if other.ndim == 1:
        return F.unsqueeze(g, g.ndim) * conj(F, other)
    if len(input_shape) == 1:
        g = F.unsqueeze(g, g.ndim - 1)
        result = F.matmul(g, F.transpose(conj(F, other), -1, -2))
        return sum_to_shape(F, F.reshape(result, result.shape[:-2] + input_shape), input_shape)
    return sum_to_shape(F, F.matmul(g, F.transpose(conj(F, other), -1, -2)), input_shape)


@matmul.vjp("other")
def matmul_vjp_other(F, g, input, other_shape):
    input = conj(F, input)
    if len(other_shape) == 2:
        if input.ndim > 2:
            input, g = as_rows(F, input), as_rows(F, g)
        elif input.ndim == 1:
            return F.unsqueeze(input, 1) * g
        return F.mm(F.t(input), g)
    if len(other_shape) == 1:
        if input.ndim == 1:
            return input * g
        return F.matmul(F.reshape(g, (math.prod(g.shape),)), as_rows(F, input))
    if input.ndim == 1:
        return sum_to_shape(F, F.unsqueeze(input, 1) * F.unsqueeze(g, g.ndim - 1), other_shape)
    return sum_to_shape(F, F.matmul(F.transpose(input, -1, -2), g), other_shape)


@matmul.vmap
def matmul_vmap(F, info, in_dims, input, other):
    a, b = (x if dim is None else F.movedim(x, dim, 0) for x, dim in zip((input, other), in_dims))
    ranks = [x.ndim - (dim is not None) for x, dim in zip((a, b), in_dims)]
    if 0 in ranks:
        return NotImplemented  # an error, for which the loop has the words
    a = F.unsqueeze(a, -2) if ranks[0] == 1 else a
    b = F.unsqueeze(b, -1) if ranks[1] == 1 else b
    rank = max(2, *ranks)
    a, b = (
        x if dim is None else F.reshape(x, (info.batch_size, *[1] * (rank + 1 - x.ndim), *x.shape[1:]))
        for x, dim in zip((a, b), in_dims)
    )
    result = F.matmul(a, b)
    result = F.squeeze(result, -2) if ranks[0] == 1 else result
    return (F.squeeze(result, -1) if ranks[1] == 1 else result), 0


@matmul.samples
def matmul_samples(make):
    yield make(3, 4), make(4, 2)
    yield make(4), make(4)
    yield make(3, 4), make(4)
    yield make(4), make(4, 2)
    yield make(2, 3, 4), make(4, 2)
    yield make(2, 1, 3, 4), make(5, 4, 2)
    yield make(2, 3, 4), make(4)
    yield make(4), make(2, 4, 3)
    yield make(16, 16), make(16, 16)


@matmul.errors
def matmul_errors(make):
    yield RuntimeError, "mat1 and mat2 shapes cannot be multiplied", make.args(make(2, 3), make(4, 5))
    yield RuntimeError, "both arguments to matmul need to be at least 1D", make.args(make(), make(3))


# ---------------------------------------------------------------- products of given dimensions


def check_matrix(name, array) -> None:
    if array.ndim != 2:
        raise RuntimeError(f"{name} must be a matrix, got {array.ndim}-D tensor")


@op(autocast="lower")
def mm(xp, input, mat2):
    """Product of two matrices; for anything else see `matmul`.

    >>> import plugrad as torch
    >>> torch.mm(torch.tensor([[1., 2.]]), torch.tensor([[3.], [4.]]))
    tensor([[11.]])
    """
    if input.ndim != 2 or mat2.ndim != 2:
        check_matrix("self", input)
        check_matrix("mat2", mat2)
    return product(xp, input, mat2)


@mm.kernel("cpu")
@native("product_2d", otherwise=mm)
def mm_in_c(call, xp, input, mat2):
    return product_in_c(call, xp, input, mat2) if mat2.ndim == 2 == input.ndim else NotImplemented


@mm.kernel("cuda")
def mm_on_cuda(xp, input, mat2):
    return product_on_cuda(xp, input, mat2) if mat2.ndim == 2 == input.ndim else mm.kernels["*"](xp, input, mat2)


@mm.meta
def mm_meta(input, mat2):
    check_matrix("self", input)
    check_matrix("mat2", mat2)
    return matmul_meta(input, mat2)


multilinear(mm, "input", "mat2")


@mm.vjp("input")
def mm_vjp_input(F, g, mat2):
    return F.mm(g, F.t(conj(F, mat2)))


@mm.vjp("mat2")
def mm_vjp_mat2(F, g, input):
    return F.mm(F.t(conj(F, input)), g)


@mm.vmap
def mm_vmap(F, info, in_dims, input, mat2):
    if any(x.ndim - (dim is not None) != 2 for x, dim in zip((input, mat2), in_dims)):
        return NotImplemented
    return matmul_vmap(F, info, in_dims, input, mat2)


@mm.samples
def mm_samples(make):
    yield make(3, 4), make(4, 2)
    yield make(16, 16), make(16, 16)


def check_batches(input, mat2) -> None:
    for name, array in (("batch1", input), ("batch2", mat2)):
        if array.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor, got {array.ndim}D")
    if mat2.shape[:2] != (input.shape[0], input.shape[2]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, "
            f"{input.shape[2]}] but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )


@op(autocast="lower")
def bmm(xp, input, mat2):
    """Products of the matrices of two batches, (b, n, k) and (b, k, m), one by one.

    >>> import plugrad as torch
    >>> torch.bmm(torch.ones(5, 2, 3), torch.ones(5, 3, 4)).shape
    torch.Size([5, 2, 4])
    """
    if input.ndim != 3 or mat2.ndim != 3 or input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        check_batches(input, mat2)
    return product(xp, input, mat2)


@bmm.kernel("cuda")
def bmm_on_cuda(xp, input, mat2):
    if input.ndim == 3 == mat2.ndim and input.shape[0] == mat2.shape[0]:
        return product_on_cuda(xp, input, mat2)
    return bmm.kernels["*"](xp, input, mat2)


@bmm.meta
def bmm_meta(input, mat2):
    check_batches(input, mat2)
    return matmul_meta(input, mat2)


multilinear(bmm, "input", "mat2")


@bmm.vjp("input")
def bmm_vjp_input(F, g, mat2):
    return F.bmm(g, F.transpose(conj(F, mat2), 1, 2))


@bmm.vjp("mat2")
def bmm_vjp_mat2(F, g, input):
    return F.bmm(F.transpose(conj(F, input), 1, 2), g)


@bmm.samples
def bmm_samples(make):
    yield make(2, 3, 4), make(2, 4, 5)


def _check_mv(input, vec) -> None:
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {vec.ndim}, {input.ndim}, {vec.ndim}")
    refuse(BOOL, "addmv_impl_cpu", input)


@op(autocast={"cuda": "lower"})
def mv(xp, input, vec):
    """Product of a matrix and a vector.

    >>> import plugrad as torch
    >>> torch.mv(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 1.]))
    tensor([3., 7.])
    """
    _check_mv(input, vec)
    return product(xp, input, vec)


@mv.meta
def mv_meta(input, vec):
    _check_mv(input, vec)
    return matmul_meta(input, vec)


multilinear(mv, "input", "vec")


@mv.vjp("input")
def mv_vjp_input(F, g, vec):
    return F.unsqueeze(g, 1) * conj(F, vec)


@mv.vjp("vec")
def mv_vjp_vec(F, g, input):
    return F.mv(F.t(conj(F, input)), g)


@mv.samples
def mv_samples(make):
    yield make(3, 4), make(4)


def _check_dot(input, tensor) -> None:
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    refuse(BOOL, "dot", input)


@op(autocast={"cuda": "promote"})
def dot(xp, input, tensor):
    """Sum of the products of two vectors.

    >>> import plugrad as torch
    >>> torch.dot(torch.tensor([1., 2.]), torch.tensor([3., 4.]))
    tensor(11.)
    """
    _check_dot(input, tensor)
    return product(xp, input, tensor)


@dot.meta
def dot_meta(input, tensor):
    _check_dot(input, tensor)
    return matmul_meta(input, tensor)


multilinear(dot, "input", "tensor")


@dot.vjp("input")
def dot_vjp_input(F, g, tensor):
    return g * conj(F, tensor)


@dot.vjp("tensor")
def dot_vjp_tensor(F, g, input):
    return g * conj(F, input)


@dot.samples
def dot_samples(make):
    yield make(4), make(4)


@op(autocast={"cuda": "promote"})
def vdot(xp, input, other):
    """Sum of the products of two vectors, the first one conjugated.

    >>> import plugrad as torch
    >>> torch.vdot(torch.tensor([1j, 2]), torch.tensor([1j, 1]))
    tensor(3.+0.j)
    """
    _check_dot(input, other)
    return product(xp, xp.conj(input), other)


@vdot.meta
def vdot_meta(input, other):
    return dot_meta(input, other)


@vdot.vjp("input")
def vdot_vjp_input(F, g, other):
    return conj(F, g) * other


@vdot.vjp("other")
def vdot_vjp_other(F, g, input):
    return g * input


@vdot.samples
def vdot_samples(make):
    yield make(3), make(3)
    yield make(3, dtype="complex128"), make(3, dtype="complex128")


@composite()
def inner(F, input, other):
    """Products of vectors along the last dimensions of `input` and `other`.

    0-d tensors are factors.

    >>> import plugrad as torch
    >>> torch.inner(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 1.]))
    tensor([3., 7.])
    """
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.dtype != other.dtype:
        raise RuntimeError(f"both inputs should have same dtype, but they are {input.dtype} and {other.dtype}")
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    return F.tensordot(input, other, ((-1,), (-1,)))


@inner.samples
def inner_samples(make):
    yield make(2, 3), make(4, 3)


@composite(aliases=("ger",))
def outer(F, input, vec2):
    """All products of an element of `input` with one of `vec2`, as a matrix.

    >>> import plugrad as torch
    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    for name, vector in (("self", input), ("vec2", vec2)):
        if vector.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {vector.ndim}-D")
    return F.unsqueeze(input, 1) * vec2


@outer.samples
def outer_samples(make):
    yield make(3), make(4)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
