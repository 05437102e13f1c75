"""Products with sparse matrices, and softmax along their dimensions."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.arguments import checked
from plugrad.extend import F, axes, from_raw
from plugrad.overrides import overridable
from plugrad.sparse import creation
from plugrad.sparse.arrays import SparseArray
from plugrad.sparse.rules import add, mul, total
from plugrad.sparse.shapes import transpose
from plugrad.sparse.tensors import SparseTensor, build, coalesce, coordinates, rule, values_of


def _check(mat1, mat2):
    if mat1.ndim != 2 or mat2.ndim not in (1, 2) or mat1.shape[1] != mat2.shape[0]:
        shapes = " and ".join("x".join(map(str, one.shape)) for one in (mat1, mat2))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes})")
    for one in (mat1, mat2):
        if isinstance(one, SparseTensor) and one.dense_dim():
            raise RuntimeError(f"mm: Expected matrices, but got one with {one.dense_dim()} dense dimensions")
    if mat1.dtype is not mat2.dtype:
        raise RuntimeError(
            f"addmm: expected both matrices to have the same dtype, but got {mat1.dtype} and {mat2.dtype}; convert one "
            "with .to(dtype)"
        )


@checked(mat1="tensor", mat2="tensor", reduce="str?")
def mm(mat1, mat2, reduce=None):
    """Return the product of two matrices of which one, or both, are sparse.

    Args:
        mat1, mat2: (n, m) and (m, k). Of two sparse ones the product is sparse, otherwise it is dense.
        reduce: only None and "sum"; "mean", "amax" and "amin" raise NotImplementedError.

    Gradients reach both; that of a sparse one has its entries. Raises RuntimeError for sizes or dtypes that differ.

    >>> import plugrad as torch
    >>> torch.sparse.mm(torch.eye(2).to_sparse(), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 2.],
            [3., 4.]])
    """
    if reduce not in (None, "sum"):
        raise NotImplementedError(f"sparse.mm with reduce={reduce!r}: only sums are there; see index_reduce")
    dense = not isinstance(mat1, SparseTensor) and not isinstance(mat2, SparseTensor)
    return plugrad.mm(mat1, mat2) if dense else product(mat1, mat2)


@rule("mm")
def of_matrices(input, mat2):
    if mat2.ndim < 2:
        raise IndexError(f"mm: Dimension out of range: mat2 has {mat2.ndim} dimensions and no columns; write mv()")
    return product(input, mat2)


@rule("matmul", "mv", "__matmul__", "linalg_matmul")
def product(mat1, mat2):
    _check(mat1, mat2)
    if isinstance(mat1, SparseTensor):
        return _sparse_sparse(mat1, mat2) if isinstance(mat2, SparseTensor) else _sparse_dense(mat1, mat2)
    return _sparse_dense(transpose(mat2, 0, 1), mat1.t()).t()


@rule("linear")
def linear(input, weight, bias=None):
    """Return `input @ weight.T + bias`, where the weight (out_features, in_features) is sparse."""
    if isinstance(input, SparseTensor) or not isinstance(weight, SparseTensor):
        raise NotImplementedError("linear: only the weight can be sparse; write input.to_dense()")
    if weight.ndim != 2 or weight.dense_dim():
        raise RuntimeError(f"linear: a sparse weight must be a matrix, but got one of shape {list(weight.shape)}")
    rows = input.reshape(-1, input.shape[-1])
    result = product(rows, transpose(weight, 0, 1)).reshape(*input.shape[:-1], weight.shape[0])
    return result if bias is None else result + bias


@rule("bmm")
def bmm(input, mat2):
    """Products of the matrices of two batches, the first of which is sparse."""
    if not isinstance(input, SparseTensor) or isinstance(mat2, SparseTensor):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense, and the first one sparse: write x.to_dense()")
    if input.ndim != 3 or mat2.ndim != 3 or input.dense_dim():
        raise RuntimeError(f"bmm: batches of matrices have 3 dimensions, these have {input.ndim} and {mat2.ndim}")
    if input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"bmm: the batches must be (b, n, m) and (b, m, k), not {list(input.shape)} and {list(mat2.shape)}"
        )
    batch, row, column = map(from_raw, input._raw.indices)
    rows = input.shape[0] * input.shape[1]
    parts = values_of(input)[:, None] * mat2[batch, column]
    total = parts.new_zeros((rows, mat2.shape[2])).index_add(0, batch * input.shape[1] + row, parts)
    return total.reshape(input.shape[0], input.shape[1], mat2.shape[2])


@rule("__rmatmul__")
def reflected(mat2, mat1):
    return product(mat1, mat2)


def _blocks_dense(sparse, dense):
    """Each block meets its rows of the dense matrix, all in one batch of products."""
    array, values = sparse._raw, values_of(sparse)
    if dense.ndim == 1:
        return _blocks_dense(sparse, dense.unsqueeze(1)).squeeze(1)
    rows, columns = map(from_raw, array.places)
    height, width = array.blocksize
    parts = values @ dense.reshape(-1, width, dense.shape[1])[columns]
    total = parts.new_zeros((array.shape[0] // height, height, dense.shape[1])).index_add(0, rows, parts)
    return total.reshape(array.shape[0], dense.shape[1])


def _sparse_dense(sparse, dense):
    if sparse._raw.blocksize:
        return _blocks_dense(sparse, dense)
    rows, columns = map(from_raw, sparse._raw.indices)
    if dense.ndim == 1:
        return F.sparse_product(values_of(sparse), dense.unsqueeze(1), rows, columns, sparse.shape[0]).squeeze(1)
    return F.sparse_product(values_of(sparse), dense, rows, columns, sparse.shape[0])


def _sparse_sparse(left, right):
    """Each entry (i, j) of the left meets all of the right's row j."""
    layout = plugrad.sparse_csr if left._raw.blocksize else left.layout
    left, right = coalesce(left), coalesce(right)
    starts = numpy.searchsorted(right._raw.indices[0], numpy.arange(right.shape[0] + 1))
    rows, middle = left._raw.indices
    counts = starts[middle + 1] - starts[middle]
    mine = numpy.repeat(numpy.arange(rows.size), counts)
    first = numpy.cumsum(counts) - counts
    theirs = numpy.arange(mine.size) - first[mine] + starts[middle][mine]
    indices = numpy.stack([rows[mine], right._raw.indices[1][theirs]])
    values = values_of(left)[from_raw(mine)] * values_of(right)[from_raw(theirs)]
    pairs = build(values, SparseArray(indices, None, (left.shape[0], right.shape[1])))
    return creation.to_sparse(coalesce(pairs), layout=layout)


@rule("addmv")
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """Return `beta * input + alpha * mat @ vec` of a sparse matrix."""
    if vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")
    return addmm(input, mat, vec, beta=beta, alpha=alpha)


@rule("addmm")
@checked(input="tensor", mat1="tensor", mat2="tensor", beta="number", alpha="number")
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """Return `beta * input + alpha * mat1 @ mat2`, where matrices may be sparse.

    >>> import plugrad as torch
    >>> torch.sparse.addmm(torch.ones(2, 2), torch.eye(2).to_sparse(), torch.ones(2, 2), alpha=2)
    tensor([[3., 3.],
            [3., 3.]])
    """
    result = product(mat1, mat2)
    result = result if alpha == 1 else result * alpha
    if isinstance(input, SparseTensor) and not isinstance(result, SparseTensor):
        return add(result, input, alpha=beta)
    return (input if beta == 1 else input * beta) + result


@checked(input="tensor", mat1="tensor", mat2="tensor", beta="number", alpha="number")
def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """Return `beta * input + alpha * mat1 @ mat2` at the entries of a sparse input.

    >>> import plugrad as torch
    >>> eye = torch.eye(2).to_sparse_csr()
    >>> torch.sparse.sampled_addmm(eye, torch.ones(2, 3), torch.ones(3, 2)).values()
    tensor([4., 4.])
    """
    if not isinstance(input, SparseTensor) or not input.is_sparse_csr:
        raise RuntimeError("sampled_addmm: Expected self to have layout SparseCsr: convert it by .to_sparse_csr()")
    *batch, rows, columns = map(from_raw, input._raw.indices)
    values = (mat1[(*batch, rows)] * mat2.transpose(-2, -1)[(*batch, columns)]).sum(-1) * alpha
    result = build(values + values_of(input) * beta, input._raw.pattern())
    if out is None:
        return result
    out._raw = result._raw
    return out


@checked(input="tensor", dim="int|ints?", dtype="dtype?")
def sum(input, dim=None, dtype=None):
    """Return the sum of a sparse tensor over all dimensions, or over some.

    Over all sparse dimensions the result is dense, else it is sparse.

    >>> import plugrad as torch
    >>> torch.sparse.sum(torch.eye(2).to_sparse(), 0).to_dense()
    tensor([1., 1.])
    """
    if not isinstance(input, SparseTensor):
        error = RuntimeError if dim is None else NotImplementedError
        raise error("coalesce expected sparse coordinate tensor layout but got Strided: write x.sum(...)")
    return total(input, dim, dtype=dtype)


# ---------------------------------------------------------------------------------------------------- softmax


@checked(input="tensor", dim="int", dtype="dtype?")
def softmax(input, dim, dtype=None):
    """Return the softmax along a dimension of a sparse tensor, among its entries.

    Elements that are not stored count as minus infinity.

    >>> import plugrad as torch
    >>> torch.sparse.softmax(torch.eye(2).to_sparse(), 1).values()
    tensor([1., 1.])
    """
    return _softmax(input, dim, dtype, False)


@checked(input="tensor", dim="int", dtype="dtype?")
def log_softmax(input, dim, *, dtype=None):
    """Return the logarithm of the softmax along a dimension; see softmax."""
    return _softmax(input, dim, dtype, True)


@rule("softmax", "functional_softmax", "log_softmax", "functional_log_softmax")
def _refuse_softmax(input, dim=None, *args, **kwargs):
    raise NotImplementedError("softmax of a sparse tensor: write torch.sparse.softmax(x, dim), or log_softmax there")


def _softmax(input, dim, dtype, log):
    if not isinstance(input, SparseTensor):
        name = "log_softmax" if log else "softmax"
        raise NotImplementedError(f"Could not run 'aten::_sparse_{name}' with a dense tensor: write x.{name}(dim)")
    input = coalesce(coordinates(input) if dtype is None else coordinates(input).to(dtype))
    array, dim = input._raw, axes(dim, input.ndim)
    values = values_of(input)
    if dim >= array.sparse_dim:
        function = values.log_softmax if log else values.softmax
        return build(function(dim - array.sparse_dim + 1), array.pattern())
    if not array.entries:
        return input
    _, group = numpy.unique(array.place([d for d in range(array.sparse_dim) if d != dim]), return_inverse=True)
    group = group.reshape(-1)
    largest = numpy.full((group.max() + 1, *array.values.shape[1:]), -numpy.inf, array.values.dtype)
    numpy.maximum.at(largest, group, array.values)
    places, shifted = from_raw(group), values - from_raw(largest[group])
    powers = shifted.exp()
    sums = powers.new_zeros(largest.shape).index_add(0, places, powers)
    result = shifted - sums.log()[places] if log else powers / sums[places]
    return build(result, array.pattern())


# ---------------------------------------------------------------------------------------------------- others


@checked(diagonals="tensor", offsets="tensor", shape="ints", layout="layout?")
def spdiags(diagonals, offsets, shape, layout=None):
    """Return a sparse matrix with the rows of `diagonals` as its diagonals.

    Args:
        diagonals: (diagonals, n), or one; element j stands in column j.
        offsets: which diagonals they are: 0 the main one, positive ones above it.
        shape: of the matrix.
        layout: sparse_coo unless given.

    Raises RuntimeError for offsets that are not distinct or not as many.

    >>> import plugrad as torch
    >>> torch.sparse.spdiags(torch.tensor([[1.0, 2.0]]), torch.tensor([1]), (2, 2)).to_dense()
    tensor([[0., 2.],
            [0., 0.]])
    """
    if diagonals.ndim not in (1, 2):
        raise RuntimeError("Diagonals must be vector or matrix")
    if offsets.ndim > 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if offsets.dtype is not plugrad.int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {offsets.dtype}: write offsets.long()")
    rows, numbers = diagonals.reshape(-1, diagonals.shape[-1]), offsets.reshape(-1).tolist()
    if len(numbers) != len(rows):
        raise RuntimeError(f"Number of diagonals ({len(rows)}) does not match the number of offsets ({len(numbers)})")
    if len(set(numbers)) != len(numbers):
        raise RuntimeError("Offset tensor contains duplicate values")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if layout not in (None, plugrad.sparse_coo, plugrad.sparse_csr, plugrad.sparse_csc):
        supported = "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported"
        raise RuntimeError(f"{supported}, got {layout}: write spdiags(...).to_dense(), or another conversion")
    indices, places = [numpy.zeros((2, 0), numpy.int64)], [numpy.zeros(0, numpy.int64)]
    for i, offset in enumerate(numbers):
        columns = numpy.arange(max(offset, 0), min(shape[1], shape[0] + offset, rows.shape[1]))
        indices.append(numpy.stack([columns - offset, columns]))
        places.append(i * rows.shape[1] + columns)
    values = rows.reshape(-1)[from_raw(numpy.concatenate(places))]
    result = build(values, SparseArray(numpy.concatenate(indices, 1).astype(numpy.int64), None, shape))
    return result if layout is None else creation.to_sparse(result, layout=layout)


@overridable
@checked(mat1="tensor", mat2="tensor")
def hspmm(mat1, mat2):
    """Return the product of a sparse and a dense matrix as a tensor of sparse rows."""
    return creation.to_sparse(product(mat1, mat2), 1)


@overridable
def smm(input, mat):
    """Return the product of a sparse and a dense matrix as a sparse matrix."""
    return creation.to_sparse(product(input, mat))


@overridable
def sspaddmm(input, mat1, mat2, *, beta=1, alpha=1):
    """Return `beta * input + alpha * mat1 @ mat2` of a sparse input, sparse."""
    return add(mul(input, beta), mul(smm(mat1, mat2), alpha))


def take_rows(weight, index, skipped=-1, scale_grad_by_freq=False):
    """Return rows of a matrix; the gradient of a leaf is sparse, of these rows.

    Row number `skipped` gets no gradient. Backward raises RuntimeError with `scale_grad_by_freq`.
    """
    return _Rows.apply(weight, index, skipped, scale_grad_by_freq)


class _Rows(plugrad.autograd.Function):
    @staticmethod
    def forward(ctx, weight, index, skipped, scale_grad_by_freq):
        ctx.shape, ctx.index, ctx.skipped = tuple(weight.shape), index.reshape(-1), skipped
        ctx.scales = scale_grad_by_freq
        return plugrad.embedding(weight, index)

    @staticmethod
    def backward(ctx, grad):
        if ctx.scales:
            raise RuntimeError(
                "embedding_backward: scale_grad_by_freq not supported with sparse gradients; use one of the two"
            )
        index, values = ctx.index, grad.reshape(ctx.index.numel(), ctx.shape[1])
        if ctx.skipped >= 0:
            kept = (index != ctx.skipped).nonzero().reshape(-1)
            index, values = index[kept], values.index_select(0, kept)
        numbers = numpy.asarray(index._raw, numpy.int64)[None]
        return build(values, SparseArray(numbers, None, ctx.shape)), None, None, None
