"""Ops that make or mask matrices and grids: triangles, diagonals, blocks, grids and products of vectors."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy

import plugrad
from plugrad.extend import Op, axes, broadcast_shapes, collect, composite, factory, hookimpl, native, op


def refuse_small(name, input):
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


@op(inplace=True, like="input", any_order="rows")
def tril(xp, input, diagonal=0):
    """The lower triangle of each matrix; zeros above `diagonal`.

    >>> import plugrad as torch
    >>> torch.tril(torch.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    refuse_small("tril", input)
    return xp.tril(input, diagonal)


@tril.vjp
def tril_vjp(F, g, diagonal):
    return F.tril(g, diagonal)


@op(inplace=True, like="input", any_order="rows")
def triu(xp, input, diagonal=0):
    """The upper triangle of each matrix; zeros below `diagonal`.

    >>> import plugrad as torch
    >>> torch.triu(torch.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    refuse_small("triu", input)
    return xp.triu(input, diagonal)


@triu.vjp
def triu_vjp(F, g, diagonal):
    return F.triu(g, diagonal)


@tril.meta
def tril_meta(input, diagonal=0):
    refuse_small("tril", input)
    return input.shape, input.dtype


@triu.meta
def triu_meta(input, diagonal=0):
    refuse_small("triu", input)
    return input.shape, input.dtype


@tril.kernel("cpu")
@native("triangle", otherwise=tril)
def tril_in_c(call, xp, input, diagonal=0):
    return call(input, diagonal, False)


@triu.kernel("cpu")
@native("triangle", otherwise=triu)
def triu_in_c(call, xp, input, diagonal=0):
    return call(input, diagonal, True)


@tril.samples
@triu.samples
def triangle_samples(make):
    yield make.args(make(3, 4))
    yield make.args(make(2, 3, 3), -1)


@tril.errors
@triu.errors
def triangle_errors(make):
    yield RuntimeError, "must have at least 2 dimensions", make.args(make(3))


def check_triangle(row, col):
    for name, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{name} must be non-negative, got {n}")


@factory(at=("tril_indices",))
def tril_indices(xp, row, col, offset=0, *, dtype=None):
    """Row and column numbers of the lower triangle of a `row` by `col` matrix.

    >>> import plugrad as torch
    >>> torch.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    check_triangle(row, col)
    return xp.stack(xp.nonzero(xp.tri(row, col, offset, dtype=bool))).astype("int64" if dtype is None else dtype)


@factory(at=("triu_indices",))
def triu_indices(xp, row, col, offset=0, *, dtype=None):
    """Row and column numbers of the upper triangle of a `row` by `col` matrix.

    >>> import plugrad as torch
    >>> torch.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    check_triangle(row, col)
    return xp.stack(xp.nonzero(~xp.tri(row, col, offset - 1, dtype=bool))).astype("int64" if dtype is None else dtype)


@tril_indices.samples
@triu_indices.samples
def triangle_indices_samples(make):
    yield make.args(3, 4)
    yield make.args(3, 3, -1)


@composite()
def diag_embed(F, input, offset=0, dim1=-2, dim2=-1):
    """Matrices that have the last dimension of `input` on a diagonal, zeros elsewhere.

    >>> import plugrad as torch
    >>> torch.diag_embed(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    ndim = input.ndim + 1
    first, second = axes(dim1, ndim), axes(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = input.shape[-1] + abs(offset)
    sizes = iter(input.shape[:-1])
    shape = tuple([side if d in (first, second) else next(sizes) for d in range(ndim)])
    return F.diagonal_in_zeros(input, shape, offset, first, second)


@composite()
def diag(F, input, diagonal=0):
    """The diagonal of a matrix (a copy), or the matrix with a given diagonal.

    Raises `RuntimeError` for other than one or two dimensions.

    >>> import plugrad as torch
    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if input.ndim == 1:
        return F.diag_embed(input, diagonal)
    if input.ndim == 2:
        return F.clone(F.diagonal(input, diagonal))
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")


@composite()
def diagflat(F, input, offset=0):
    """The matrix that has all elements of `input` on its diagonal.

    >>> import plugrad as torch
    >>> torch.diagflat(torch.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return F.diag_embed(F.reshape(input, (-1,)), offset)


@diag_embed.samples
@diag.samples
@diagflat.samples
def diagonal_samples(make):
    yield make(3)
    yield make(2, 3), -1


@composite(at=("block_diag",), variadic="tensors")
def block_diag(F, tensors):
    """A matrix with the given matrices along its diagonal, zeros elsewhere.

    0-d and 1-d tensors count as rows. Raises `RuntimeError` for more than two dimensions.

    >>> import plugrad as torch
    >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    if type(tensors) is list:
        raise TypeError("block_diag(): expected Tensor as element 0, not list; write block_diag(*tensors)")
    if not len(tensors):
        return F.empty((1, 0))
    for i, t in enumerate(tensors):
        if t.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {t.ndim} dimensions"
            )
    blocks = [F.atleast_2d(t) for t in tensors]
    width, start, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        height, columns = block.shape
        left, right = F.new_zeros(block, (height, start)), F.new_zeros(block, (height, width - start - columns))
        rows.append(F.cat([left, block, right], 1))
        start += columns
    return F.cat(rows, 0)


@block_diag.samples
def block_diag_samples(make):
    yield make(2, 3), make(), make(2)


@composite(at=("meshgrid",), variadic="tensors")
def meshgrid(F, tensors, *, indexing=None):
    """Grids of coordinates, one for each 1-d tensor, as expanded views.

    With `indexing="ij"` (default) tensor i varies along dimension i; with "xy" the first two are exchanged.

    >>> import plugrad as torch
    >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing="ij")[1]
    tensor([[3, 4],
            [3, 4]])
    """
    if not len(tensors):
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for t in tensors:
        for what in ("dtype", "device"):
            if getattr(t, what) != getattr(tensors[0], what):
                raise RuntimeError(f"meshgrid expects all tensors to have the same {what}")
        if t.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(t.shape)}")
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument: write "
            'indexing="ij", which is what you have now, or "xy"',
            UserWarning,
            stacklevel=3,
        )
    n = len(tensors)
    places = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    shape = [1] * n
    for t, d in zip(tensors, places):
        shape[d] = t.shape[0] if t.ndim else 1
    grids = []
    for t, d in zip(tensors, places):
        grids.append(F.expand(F.reshape(t, (1,) * d + (-1,) + (1,) * (n - d - 1)), tuple(shape)))
    return tuple(grids)


def refuse_matrix(tensor):
    if tensor.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(tensor.shape)}")


@composite(at=("cartesian_prod",), variadic="tensors")
def cartesian_prod(F, tensors):
    """All tuples with one element from each 1-d tensor, as rows.

    >>> import plugrad as torch
    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    for t in tensors:
        refuse_matrix(t)
    if len(tensors) == 1:
        return tensors[0]
    return F.stack([F.reshape(grid, (-1,)) for grid in F.meshgrid(list(tensors), indexing="ij")], 1)


@meshgrid.samples
def meshgrid_samples(make):
    yield make.args(make(2), make(3), indexing="ij")


@cartesian_prod.samples
def cartesian_prod_samples(make):
    yield make(2), make(3)


@composite(fresh=True)
def combinations(F, input, r=2, with_replacement=False):
    """All selections of `r` elements of a 1-d tensor in their order, as rows.

    >>> import plugrad as torch
    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    refuse_matrix(input)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return F.new_empty(input, (0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    n = input.shape[0]
    rows = math.comb(n + r - 1, r) if n and with_replacement else math.comb(n, r)
    if rows * r > 2**40:
        raise RuntimeError(f"combinations(): {rows} rows of {r} elements are more than any memory holds")
    picked = numpy.fromiter(itertools.chain.from_iterable(choose(range(n), r)), numpy.int64, rows * r)
    return F.reshape(F.index_select(input, 0, plugrad.from_numpy(picked).to(input.device)), (rows, r))


@combinations.samples
def combinations_samples(make):
    yield make(4)
    yield make(3), 2, True


@composite(fresh=True)
def kron(F, input, other):
    """Kronecker product: blocks `input[i, j] * other`.

    >>> import plugrad as torch
    >>> torch.kron(torch.tensor([1, 2]), torch.tensor([1, 10]))
    tensor([ 1, 10,  2, 20])
    """
    n = max(input.ndim, other.ndim)
    first = (1,) * (n - input.ndim) + tuple(input.shape)
    second = (1,) * (n - other.ndim) + tuple(other.shape)
    spread = F.reshape(input, tuple([size for m in first for size in (m, 1)]))
    other = F.reshape(other, tuple([size for m in second for size in (1, m)]))
    return F.reshape(spread * other, tuple([a * b for a, b in zip(first, second)]))


@kron.samples
def kron_samples(make):
    yield make(2, 3), make(2)


@op(at=("complex",))
def complex_(xp, real, imag):
    """Complex numbers of the given real and imaginary parts.

    Both have one float dtype, else `RuntimeError`.

    >>> import plugrad as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.+2.j])
    """
    refuse_parts(real, imag)
    shape = broadcast_shapes(real.shape, imag.shape)
    whole = next((part for part in (real, imag) if part.shape == shape), None)  # whose order in memory is kept
    dtype = complex_dtype(real.dtype)
    out = xp.empty(shape, dtype) if whole is None else xp.empty_like(whole, dtype)
    out.real, out.imag = real, imag
    return out


def refuse_parts(real, imag):
    if real.dtype.kind != "f" or imag.dtype.kind != "f":
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {real.dtype} and {imag.dtype}"
        )
    if real.dtype != imag.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {real.dtype} but got scalar type {imag.dtype} for second argument"
        )


def complex_dtype(dtype):
    return "complex128" if dtype == "float64" else "complex64"


@complex_.meta
def complex_meta(real, imag):
    dtype = plugrad.complex128 if real.dtype == "float64" else plugrad.complex64
    return broadcast_shapes(real.shape, imag.shape), dtype.numpy


@complex_.vjp("real")
def complex_vjp_real(F, g, real_shape):
    return F.sum_to_size(F.real(g), real_shape)


@complex_.vjp("imag")
def complex_vjp_imag(F, g, imag_shape):
    return F.sum_to_size(F.imag(g), imag_shape)


@complex_.samples
def complex_samples(make):
    yield make.args(make(3), make(3))
    yield make.args(make(2, 1), make(3))


@composite(at=("polar",), autocast={"cpu": "float32"})
def polar(F, abs, angle):
    """Complex numbers of the given absolute values and angles (radians).

    >>> import plugrad as torch
    >>> torch.polar(torch.tensor([2.0]), torch.tensor([0.0]))
    tensor([2.+0.j])
    """
    for part in (abs, angle):
        if not part.is_floating_point() or part.dtype != abs.dtype or "bfloat16" in str(part.dtype):
            raise RuntimeError(
                f"Expected both inputs to be Half, Float or Double tensors but got {abs.dtype._label} and "
                f"{angle.dtype._label}: convert them to one dtype"
            )
    return F.complex(abs * F.cos(angle), abs * F.sin(angle))


@polar.samples
def polar_samples(make):
    yield make(3), make(3)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
