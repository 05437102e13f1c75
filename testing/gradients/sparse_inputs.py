"""gradcheck of functions of sparse tensors: as functions of dense tensors that stand for them."""

from __future__ import annotations

import plugrad
from plugrad.testing.tensors import map_tensors

_BY_ROWS, _BY_COLUMNS = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
_COMPRESSED = {"sparse_csr": _BY_ROWS, "sparse_bsr": _BY_ROWS, "sparse_csc": _BY_COLUMNS, "sparse_bsc": _BY_COLUMNS}


def is_sparse(value) -> bool:
    """Whether a value is a tensor in a sparse layout."""
    return isinstance(value, plugrad.Tensor) and value.layout is not plugrad.strided


def densified(func, inputs, masked):
    """Return a function of dense tensors, and these, in place of one with sparse inputs or outputs.

    With `masked` the tensors that stand for a sparse one are the values that it stores, and what it does not store is
    no variable. Otherwise every element is one: the function is called with tensors that store all of them.
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if not any(map(is_sparse, inputs)):
        return func, inputs
    rebuild = [_rebuild(x, masked) if is_sparse(x) else None for x in inputs]
    leaves = tuple(_leaf(x, masked) if is_sparse(x) else x for x in inputs)

    def dense(*args):
        whole = [arg if build is None else build(arg) for build, arg in zip(rebuild, args, strict=True)]
        return map_tensors(func(*whole), lambda t: t.to_dense() if is_sparse(t) else t)

    return dense, leaves


def _leaf(x, masked):
    values = _values(x) if masked else x.to_dense()
    return values.detach().clone().requires_grad_(x.requires_grad)


def _values(x):
    return x._values() if x.layout is plugrad.sparse_coo else x.values()


def _rebuild(x, masked):
    """Return the function that makes a sparse tensor like `x` of what `_leaf` returned."""
    x = x.detach()
    if not masked:
        full = _full(x)
        return lambda values: values.sparse_mask(full)
    if x.layout is plugrad.sparse_coo:
        return lambda values: plugrad.sparse_coo_tensor(
            x._indices(), values, x.shape, is_coalesced=x.is_coalesced()
        )  # fmt: skip
    parts = [getattr(x, name)() for name in _COMPRESSED[str(x.layout).removeprefix("torch.")]]
    return lambda values: plugrad.sparse_compressed_tensor(*parts, values, x.shape, layout=x.layout)


def _full(x):
    """A tensor in the layout of `x` that stores every element."""
    ones, dense = plugrad.ones(x.shape), x.dense_dim()
    if x.layout is plugrad.sparse_coo:
        return ones.to_sparse(x.sparse_dim())
    batch = x.ndim - dense - 2
    blocksize = tuple(x.values().shape[batch + 1 : x.values().ndim - dense])
    return ones.to_sparse(layout=x.layout, blocksize=blocksize or None, dense_dim=dense)
