"""Sparse tensors: the product with dense matrices, on which their rules stand, and the way back to dense ones."""

from __future__ import annotations

from plugrad.extend import Op, collect, composite, conj, hookimpl, is_half, op, scipy_of


@op(at=(), node="SparseAddmmBackward0", autocast="float32")
def sparse_product(xp, values, dense, rows, columns, size):
    """Product of a sparse matrix, in coordinates, and a dense one.

    Entry i adds `values[i] * dense[columns[i]]` to row `rows[i]` of the result: of a dense matrix (m, k) it is
    (size, k).
    """
    dtype = values.dtype
    if is_half(dtype):
        values, dense = values.astype("float32"), dense.astype("float32")
    if xp.__name__ != "numpy" and dtype.kind in "iu":
        raise NotImplementedError("sparse matrices of integers are in SciPy only")
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


@composite(at=("Tensor.to_dense",), kinds={"masked_grad": "bool?"})
def to_dense(F, input, dtype=None, *, masked_grad=None):
    """The tensor itself; a sparse one as a dense tensor.

    >>> import plugrad as torch
    >>> torch.eye(2).to_sparse().to_dense()
    tensor([[1., 0.],
            [0., 1.]])
    """
    return input if dtype is None else input.to(dtype)


@to_dense.samples
def to_dense_samples(make):
    yield make.args(make(2, 3))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
