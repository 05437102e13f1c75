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
    pattern = x if masked else _full(x)
    if x.layout is plugrad.sparse_coo:
        return lambda values: plugrad.sparse_coo_tensor(
            pattern._indices(), values if masked else _in_order(values, x.sparse_dim()), x.shape,
            is_coalesced=pattern.is_coalesced(),
        )  # fmt: skip
    names = _COMPRESSED[str(x.layout).removeprefix("torch.")]
    parts = [getattr(pattern, name)() for name in names]
    blocksize = tuple(x.values().shape[1:])
    columns = x.layout in (plugrad.sparse_csc, plugrad.sparse_bsc)
    return lambda values: plugrad.sparse_compressed_tensor(
        *parts, values if masked else _in_blocks(values, blocksize, columns), x.shape, layout=x.layout
    )


def _full(x):
    """A tensor in the layout of `x` that stores every element."""
    ones = plugrad.ones(x.shape)
    if x.layout is plugrad.sparse_coo:
        return ones.to_sparse(x.sparse_dim())
    return ones.to_sparse(layout=x.layout, blocksize=tuple(x.values().shape[1:]) or None)


def _in_blocks(dense, blocksize, columns):
    """Return the elements of a matrix as the values of one that stores them all, single or in blocks."""
    if not blocksize:
        return (dense.t() if columns else dense).reshape(-1)
    height, width = blocksize
    many = dense.shape[0] // height, dense.shape[1] // width
    blocks = dense.reshape(many[0], height, many[1], width).permute((2, 0, 1, 3) if columns else (0, 2, 1, 3))
    return blocks.reshape(-1, height, width)


def _in_order(dense, sparse_dims):
    return dense.reshape(-1, *dense.shape[sparse_dims:])
