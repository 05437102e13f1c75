"""Sparse tensors: their product with dense matrices, and the methods of dense tensors that lead to them."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, composite, conj, hookimpl, is_half, op, scipy_of


@op(at=(), node="SparseAddmmBackward0", autocast="float32")
def sparse_product(xp, values, dense, rows, columns, size):
    """Sum of rows of a dense matrix (m, k), each times a value, in the rows of a matrix (size, k).

    Entry i adds `values[i] * dense[columns[i]]` to row `rows[i]`.
    """
    dtype = values.dtype
    if is_half(dtype):
        values, dense = values.astype("float32"), dense.astype("float32")
    matrix = scipy_of(xp, "sparse").csr_matrix((values, (rows, columns)), shape=(size, dense.shape[0]))
    result = xp.asarray(matrix @ dense)
    return result if result.dtype == dtype else result.astype(dtype)


@sparse_product.meta
def sparse_product_meta(values, dense, rows, columns, size):
    return (size, dense.shape[1]), values.dtype


@sparse_product.vjp("values")
def sparse_product_vjp_values(F, g, dense, rows, columns):
    return F.sum(F.index_select(g, 0, rows) * conj(F, F.index_select(dense, 0, columns)), -1)


@sparse_product.vjp("dense")
def sparse_product_vjp_dense(F, g, values, dense_shape, rows, columns):
    return F.sparse_product(conj(F, values), g, columns, rows, dense_shape[0])


@sparse_product.samples
def sparse_product_samples(make):
    yield make(5), make(3, 2), make.ints(5, low=0, high=4), make.ints(5, low=0, high=3), 4


# ---------------------------------------------------------------- methods of dense tensors


@composite(at=("Tensor.to_sparse",))
def to_sparse(F, input, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The tensor in a sparse layout, by default in coordinates.

    `sparse_dim` is how many dimensions get indices, by default all; `layout` torch.sparse_coo, sparse_csr or
    sparse_csc, the last two for matrices.

    >>> import plugrad as torch
    >>> torch.tensor([[0., 2.]]).to_sparse().indices()
    tensor([[0],
            [1]])
    """
    return plugrad.sparse.to_sparse(input, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


@composite(at=("Tensor.to_sparse_coo",))
def to_sparse_coo(F, input):
    """The tensor as a sparse one in coordinates.

    >>> import plugrad as torch
    >>> torch.eye(2).to_sparse_coo().is_sparse
    True
    """
    return plugrad.sparse.to_sparse(input)


@composite(at=("Tensor.to_sparse_csr",))
def to_sparse_csr(F, input, dense_dim=None):
    """The matrix compressed by rows.

    >>> import plugrad as torch
    >>> torch.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    return plugrad.sparse.to_sparse(input, layout=plugrad.sparse_csr)


@composite(at=("Tensor.to_sparse_csc",))
def to_sparse_csc(F, input, dense_dim=None):
    """The matrix compressed by columns.

    >>> import plugrad as torch
    >>> torch.eye(2).to_sparse_csc().ccol_indices()
    tensor([0, 1, 2])
    """
    return plugrad.sparse.to_sparse(input, layout=plugrad.sparse_csc)


@composite(name="to_sparse_bsr_method", at=("Tensor.to_sparse_bsr",))
def to_sparse_bsr(F, input, blocksize, dense_dim=None):
    """Not there: blocks of sparse matrices."""
    return plugrad.sparse.sparse_bsr_tensor(input)


@composite(name="to_sparse_bsc_method", at=("Tensor.to_sparse_bsc",))
def to_sparse_bsc(F, input, blocksize, dense_dim=None):
    """Not there: blocks of sparse matrices."""
    return plugrad.sparse.sparse_bsc_tensor(input)


@composite(at=("Tensor.to_dense",))
def to_dense(F, input, dtype=None, *, masked_grad=None):
    """The tensor itself; a sparse one as a dense tensor.

    >>> import plugrad as torch
    >>> torch.eye(2).to_sparse().to_dense()
    tensor([[1., 0.],
            [0., 1.]])
    """
    return input if dtype is None else input.to(dtype)


@composite(at=("Tensor.sparse_mask",))
def sparse_mask(F, input, mask):
    """The elements at the entries of a sparse tensor, as a sparse tensor of these.

    >>> import plugrad as torch
    >>> torch.ones(2, 2).sparse_mask(torch.eye(2).to_sparse()).values()
    tensor([1., 1.])
    """
    return plugrad.sparse.sparse_mask(input, mask)


@composite(at=("smm", "Tensor.smm"))
def smm(F, input, mat):
    """The product of a sparse and a dense matrix, as a sparse matrix.

    >>> import plugrad as torch
    >>> torch.smm(torch.eye(2).to_sparse(), torch.eye(2)).is_sparse
    True
    """
    return plugrad.sparse.smm(input, mat)


@composite(at=("hspmm", "Tensor.hspmm"))
def hspmm(F, mat1, mat2):
    """The product of a sparse and a dense matrix, as a tensor of sparse rows.

    >>> import plugrad as torch
    >>> torch.hspmm(torch.eye(2).to_sparse(), torch.ones(2, 3)).values().shape
    torch.Size([2, 3])
    """
    return plugrad.sparse.hspmm(mat1, mat2)


@composite(at=("sspaddmm", "Tensor.sspaddmm"))
def sspaddmm(F, input, mat1, mat2, *, beta=1, alpha=1):
    """`beta * input + alpha * mat1 @ mat2` as a sparse matrix, of a sparse input.

    >>> import plugrad as torch
    >>> eye = torch.eye(2).to_sparse()
    >>> torch.sspaddmm(eye, eye, torch.eye(2)).to_dense()
    tensor([[2., 0.],
            [0., 2.]])
    """
    return plugrad.sparse.sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)


@composite(name="sparse_dim_method", at=("Tensor.sparse_dim",))
def sparse_dim(F, input):
    """How many dimensions have indices: none of a dense tensor."""
    return 0


@composite(name="dense_dim_method", at=("Tensor.dense_dim",))
def dense_dim(F, input):
    """How many dimensions have none: all of a dense tensor."""
    return input.ndim


def _only_of_sparse(name, layout):
    """Return the record of a method that a dense tensor refuses."""

    def method(F, input):
        raise RuntimeError(f"{name} expected sparse {layout} tensor layout but got Strided; write x.to_sparse()")

    method.__doc__ = f"Of a sparse tensor its {name.strip('_').replace('_', ' ')}; RuntimeError for a dense one."
    return composite(name=f"{name.strip('_')}_method", at=(f"Tensor.{name}",))(method)


_coalesce, _indices, _values, _is_coalesced = (
    _only_of_sparse(name, "coordinate") for name in ("coalesce", "indices", "values", "is_coalesced")
)
_nnz = _only_of_sparse("_nnz", "coordinate")
_crow, _col = (_only_of_sparse(name, "row compressed") for name in ("crow_indices", "col_indices"))
_ccol, _row = (_only_of_sparse(name, "column compressed") for name in ("ccol_indices", "row_indices"))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
