"""Methods of all tensors that lead to sparse ones, and those that only sparse ones have."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.arguments import checked
from plugrad.sparse import creation, products, resizing, rules
from plugrad.sparse.tensors import LAYOUTS

hspmm, smm, sspaddmm = products.hspmm, products.smm, products.sspaddmm
to_sparse, sparse_mask = creation.to_sparse, rules.sparse_mask
sparse_resize_, sparse_resize_and_clear_ = resizing.sparse_resize_, resizing.sparse_resize_and_clear_
resize_as_sparse_ = resizing.resize_as_sparse_


def to_sparse_coo(self):
    """Return the tensor as a sparse one in coordinates."""
    return to_sparse(self)


@checked(dense_dim="int?")
def to_sparse_csr(self, dense_dim=None):
    """Return the matrix, or batch of them, compressed by rows.

    The last `dense_dim` dimensions are dense.
    """
    return to_sparse(self, layout=LAYOUTS["sparse_csr"], dense_dim=dense_dim)


@checked(dense_dim="int?")
def to_sparse_csc(self, dense_dim=None):
    """Return the matrix, or batch of them, compressed by columns; see to_sparse_csr."""
    return to_sparse(self, layout=LAYOUTS["sparse_csc"], dense_dim=dense_dim)


@checked(dense_dim="int?")
def to_sparse_bsr(self, blocksize, dense_dim=None):
    """Return the matrix, or batch of them, in blocks, compressed by rows of them."""
    return to_sparse(self, layout=LAYOUTS["sparse_bsr"], blocksize=blocksize, dense_dim=dense_dim)


@checked(dense_dim="int?")
def to_sparse_bsc(self, blocksize, dense_dim=None):
    """Return the matrix, or batch of them, in blocks, compressed by columns of them."""
    return to_sparse(self, layout=LAYOUTS["sparse_bsc"], blocksize=blocksize, dense_dim=dense_dim)


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
