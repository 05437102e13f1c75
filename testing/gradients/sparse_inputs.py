"""gradcheck of functions of sparse tensors: as functions of dense tensors that stand for them."""

from __future__ import annotations

import plugrad
from plugrad.testing.tensors import map_tensors

_COMPRESSED = {"sparse_csr": ("crow_indices", "col_indices"), "sparse_csc": ("ccol_indices", "row_indices")}


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
    columns = x.layout is plugrad.sparse_csc
    return lambda values: plugrad.sparse_compressed_tensor(
        *parts, values if masked else (values.t() if columns else values).reshape(-1), x.shape, layout=x.layout
    )


def _full(x):
    """A tensor in the layout of `x` that stores every element."""
    ones = plugrad.ones(x.shape)
    return ones.to_sparse(x.sparse_dim()) if x.layout is plugrad.sparse_coo else ones.to_sparse(layout=x.layout)


def _in_order(dense, sparse_dims):
    return dense.reshape(-1, *dense.shape[sparse_dims:])
