"""Methods of all tensors that lead to sparse ones, and those that only sparse ones have."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.arguments import is_int
from plugrad.sparse import creation, products, resizing, rules
from plugrad.sparse.tensors import LAYOUTS

hspmm, smm, sspaddmm = products.hspmm, products.smm, products.sspaddmm
to_sparse, sparse_mask = creation.to_sparse, rules.sparse_mask
sparse_resize_, sparse_resize_and_clear_ = resizing.sparse_resize_, resizing.sparse_resize_and_clear_
resize_as_sparse_ = resizing.resize_as_sparse_


def _refuse_dense(dense_dim, layout):
    if dense_dim is None:
        return
    if not is_int(dense_dim):
        raise TypeError(f"to_sparse_{layout}(): argument 'dense_dim' must be int, not {type(dense_dim).__name__}")
    if dense_dim != 0:
        raise RuntimeError(
            f"dense_to_sparse_{layout}: dense_dim argument must be in [0,0] range, but {dense_dim} is given: elements "
            "are numbers here, leave it out"
        )


def to_sparse_coo(self):
    """Return the tensor as a sparse one in coordinates."""
    return to_sparse(self)


def to_sparse_csr(self, dense_dim=None):
    """Return the matrix compressed by rows."""
    _refuse_dense(dense_dim, "csr")
    return to_sparse(self, layout=LAYOUTS["sparse_csr"])


def to_sparse_csc(self, dense_dim=None):
    """Return the matrix compressed by columns."""
    _refuse_dense(dense_dim, "csc")
    return to_sparse(self, layout=LAYOUTS["sparse_csc"])


def to_sparse_bsr(self, blocksize, dense_dim=None):
    """Return the matrix in blocks of a size, compressed by rows of blocks."""
    _refuse_dense(dense_dim, "bsr")
    return to_sparse(self, layout=LAYOUTS["sparse_bsr"], blocksize=blocksize)


def to_sparse_bsc(self, blocksize, dense_dim=None):
    """Return the matrix in blocks of a size, compressed by columns of blocks."""
    _refuse_dense(dense_dim, "bsc")
    return to_sparse(self, layout=LAYOUTS["sparse_bsc"], blocksize=blocksize)


def sparse_dim(self) -> int:
    """Return the number of dimensions that have indices: none of a dense tensor."""
    return 0


def dense_dim(self) -> int:
    """Return the number of dimensions without indices: all of a dense tensor."""
    return self.ndim


def _only_of_sparse(name, layout):
    def method(self):
        own = getattr(type(self), name)
        if own is not getattr(Tensor, name):  # called as Tensor.values(x)
            return own(self)
        raise RuntimeError(f"{name} expected sparse {layout} tensor layout but got Strided; write x.to_sparse()")

    method.__name__, method.__doc__ = name, f"Raise RuntimeError: only sparse tensors have {name.strip('_')}."
    return method


_IN = {
    "coordinate": "coalesce indices values is_coalesced _indices _values _nnz",
    "row compressed": "crow_indices col_indices",
    "column compressed": "ccol_indices row_indices",
}
globals().update((name, _only_of_sparse(name, layout)) for layout in _IN for name in _IN[layout].split())
