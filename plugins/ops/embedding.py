"""Looking rows up: embeddings and one-hot vectors."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, native, op, refuse_outside

from . import _in_order_on_cuda as ordered
from . import _index as ix
from . import _places_on_cuda as cuda


def _check_table(weight, indices):
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, got {list(weight.shape)}")
    if indices.dtype.char != "l" and indices.dtype not in ("int64", "int32"):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{indices.dtype} instead (while checking arguments for embedding); convert it with .long()"
        )


@op(at=("embedding",))
def embedding(xp, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """Rows of a table: weight[indices].

    `weight` is (V, E), `indices` integers of any shape (*); gives (*, E). Row `padding_idx` gets no gradient;
    with `scale_grad_by_freq` gradients of a row are divided by how often it was looked up; gradients are
    dense: `nn.functional.embedding` gives sparse ones. Raises IndexError when an index is out of range.

    >>> import plugrad as torch
    >>> torch.embedding(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1, 0, 1]))
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    """
    _check_table(weight, indices)
    rows = len(weight)
    if indices.size and not rows:
        raise RuntimeError("embedding(): the table has no rows: self indexing axis dim should be positive")

    refuse_outside(xp, indices, 0, rows, _outside(rows))
    return weight.take(indices, 0)


def _outside(rows):
    text = f"index out of range in self: indices must lie between 0 and {rows - 1}, but one is"
    return lambda worst: IndexError(f"{text} {worst}")


@embedding.kernel("cpu")
@native("take", otherwise=embedding)
def embedding_in_c(call, xp, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if weight.dtype.char not in "fd" or weight.ndim != 2:
        return NotImplemented
    out = xp.empty(indices.shape + weight.shape[1:], weight.dtype)
    return out if call(weight, indices, out, 0, False) is None else NotImplemented


@embedding.kernel("cuda")
@native(cuda.take, otherwise=embedding)
def embedding_on_cuda(call, xp, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if weight.ndim != 2:
        return NotImplemented
    return cuda.taken(xp, weight, indices, 0, _outside(len(weight)), True)


@embedding.meta
def embedding_meta(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    _check_table(weight, indices)
    return (*indices.shape, weight.shape[1]), weight.dtype


@embedding.vjp
def embedding_vjp(F, g, indices, weight_shape, padding_idx, scale_grad_by_freq):
    return F.embedding_grad(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq)


@embedding.samples
def embedding_samples(make):
    yield make.args(make(5, 3), make.ints(2, 4, low=0, high=5))
    yield make.through(_padded, make(5, 3), make.ints(4, low=0, high=5), 1)


@embedding.errors
def embedding_errors(make):
    yield RuntimeError, "'weight' must be 2-D", make.args(make(5), make.ints(2, low=0, high=5))
    yield IndexError, "out of range", make.args(make(2, 2), make.ints(2, low=2, high=5))


def _padded(function, weight, indices, padding_idx):
    """The row at `padding_idx` is a constant: its gradient is zero by definition, whatever the slope is."""
    rows = plugrad.arange(weight.shape[0], device=weight.device).unsqueeze(1)
    return function(plugrad.where(rows == padding_idx, 0.0, weight), indices, padding_idx)


def _weighted(xp, values, indices, rows, padding_idx, by_frequency):
    """Values by row, divided by how often the row was looked up, zero for the row of padding whatever they are."""
    if by_frequency:
        values = values / xp.bincount(indices, minlength=rows)[indices].astype(values.dtype)[:, None]
    return values if padding_idx < 0 else xp.where((indices != padding_idx)[:, None], values, values.dtype.type(0))


@op(at=())
def embedding_grad(xp, grad, indices, rows, padding_idx, scale_grad_by_freq):
    """Add looked-up rows up in a table of zeros: the adjoint of `embedding`."""
    indices, width, dtype = indices.reshape(-1), grad.shape[-1], grad.dtype
    values = grad.reshape(indices.size, width)
    if dtype.itemsize == 2:
        values = values.astype("float32")
    values = _weighted(xp, values, indices, rows, padding_idx, scale_grad_by_freq)
    table = xp.zeros((rows, width), values.dtype)
    if xp.__name__ == "numpy" and indices.size:
        # Equal indices side by side: a sum over runs is far faster than adding one by one.
        order = xp.argsort(indices, kind="stable")
        ordered = indices[order]
        starts = xp.flatnonzero(xp.concatenate([xp.ones(1, bool), ordered[1:] != ordered[:-1]]))
        table[ordered[starts]] = xp.add.reduceat(values[order], starts, axis=0)
    else:
        ix.add_slices(xp, table[None], indices, values[None])
    return table if table.dtype == dtype else table.astype(dtype)


@embedding_grad.kernel("cpu")
@native("add_slices", otherwise=embedding_grad)
def embedding_grad_in_c(call, xp, grad, indices, rows, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        return NotImplemented
    width = grad.shape[-1]
    table = xp.zeros((rows, width), grad.dtype)
    values = xp.ascontiguousarray(grad).reshape(indices.size, width)
    done = call(table, indices.reshape(-1), values, 0, padding_idx, False)
    return table if done is None else NotImplemented


@embedding_grad.kernel("cuda")
@native(ordered.add_windows, otherwise=embedding_grad)
def embedding_grad_on_cuda(call, xp, grad, indices, rows, padding_idx, scale_grad_by_freq):
    dtype, width = grad.dtype, grad.shape[-1]
    if scale_grad_by_freq or not grad.size or dtype.char not in "fd" and dtype.itemsize != 2:
        return NotImplemented
    values = (grad.astype("float32") if dtype.itemsize == 2 else grad).reshape(indices.size, width)
    table = ordered.sums(call, xp, values, indices, rows, padding_idx)
    return table if table.dtype == dtype else table.astype(dtype)


@embedding_grad.meta
def embedding_grad_meta(grad, indices, rows, padding_idx, scale_grad_by_freq):
    return (rows, grad.shape[-1]), grad.dtype


@embedding_grad.vjp("grad")
def embedding_grad_vjp(F, g, indices, rows, padding_idx, scale_grad_by_freq):
    return F.embedding_weighted(g, indices, padding_idx, scale_grad_by_freq)


@embedding_grad.samples
def embedding_grad_samples(make):
    yield make(2, 4, 3), make.ints(2, 4, low=0, high=5), 5, 1, True
    yield make(4, 3), make.ints(4, low=0, high=5), 5, 1, False


@op(at=())
def embedding_weighted(xp, weight, indices, padding_idx, scale_grad_by_freq):
    """Rows of a table, weighted as `embedding_grad` weights them: the adjoint of that."""
    flat = indices.reshape(-1)
    values = xp.take(weight, flat, axis=0)
    if weight.dtype.itemsize == 2:
        values = values.astype("float32")
    values = _weighted(xp, values, flat, len(weight), padding_idx, scale_grad_by_freq)
    return values.reshape(*indices.shape, weight.shape[1]).astype(weight.dtype, copy=False)


@embedding_weighted.meta
def embedding_weighted_meta(weight, indices, padding_idx, scale_grad_by_freq):
    return (*indices.shape, weight.shape[1]), weight.dtype


@embedding_weighted.vjp
def embedding_weighted_vjp(F, g, indices, weight_shape, padding_idx, scale_grad_by_freq):
    return F.embedding_grad(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq)


@embedding_weighted.samples
def embedding_weighted_samples(make):
    yield make(5, 3), make.ints(2, 4, low=0, high=5), 1, True


@composite(at=("nn.functional.embedding",))
def functional_embedding(
    F, input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    """Rows of a table: weight[input].

    `input` holds integers of any shape, `weight` is (V, E). Row `padding_idx` gets no gradient. With
    `max_norm` rows looked up whose `norm_type`-norm is greater are scaled down first, in place. With `sparse` the
    gradient of a leaf is a sparse tensor of the rows looked up. Raises IndexError when an index is out of range,
    AssertionError for such a `padding_idx`.

    >>> import plugrad as torch
    >>> torch.nn.functional.embedding(torch.tensor([1]), torch.tensor([[1., 2.], [3., 4.]]))
    tensor([[3., 4.]])
    """
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, got {list(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise AssertionError(f"Padding_idx must be within num_embeddings: got {padding_idx} for a table of {rows} rows")
    elif padding_idx < 0:
        padding_idx += rows
    if max_norm is not None:
        table = weight.detach()
        used = F.unique(input)
        vectors = F.embedding(table, used)
        length = F.norm(vectors, norm_type, -1, True)
        table.index_copy_(0, used.long(), F.where(length > max_norm, vectors * (max_norm / (length + 1e-7)), vectors))
    if sparse and weight.requires_grad and weight.is_leaf and plugrad.is_grad_enabled():
        return plugrad.sparse.take_rows(weight, input, padding_idx, scale_grad_by_freq)
    return F.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


@functional_embedding.samples
def functional_embedding_samples(make):
    yield make.ints(2, 4, low=0, high=5), make(5, 3)


@op(at=("nn.functional.one_hot",))
def one_hot(xp, input, num_classes=-1):
    """Vectors that are 1 at the places that an integer tensor names, else 0.

    `input` is int64 of any shape (*); gives (*, num_classes), by default as many as the largest value needs.
    Raises RuntimeError for negative or too large values.

    >>> import plugrad as torch
    >>> torch.nn.functional.one_hot(torch.tensor([2, 0]))
    tensor([[0, 0, 1],
            [1, 0, 0]])
    """
    if input.dtype != "int64":
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor; convert it with .long()")
    if xp.__name__ != "numpy" and input.size and num_classes > 0:  # for whose values nobody has to wait
        refuse_outside(xp, input, 0, num_classes, _no_class)
    elif input.size:
        if int(input.min()) < 0:
            raise RuntimeError("Class values must be non-negative.")
        if num_classes == -1:
            num_classes = int(input.max()) + 1
        elif int(input.max()) >= num_classes:
            raise RuntimeError("Class values must be smaller than num_classes.")
    elif num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    return (input[..., None] == xp.arange(num_classes)).astype("int64")


def _no_class(worst):
    return RuntimeError(f"Class values must be {'non-negative' if worst < 0 else 'smaller than num_classes'}.")


@one_hot.kernel("cpu")
@native("one_hot", otherwise=one_hot)
def one_hot_in_c(call, xp, input, num_classes=-1):
    if num_classes < 1 or not input.size:
        return NotImplemented
    vectors = xp.empty((*input.shape, num_classes), xp.int64)
    return vectors if call(input, vectors) is None else NotImplemented


@one_hot.meta
def one_hot_meta(input, num_classes=-1):
    if num_classes < 0:
        raise NotImplementedError("one_hot: give num_classes, the values of a meta tensor are not known")
    return (*input.shape, num_classes), input.dtype


@one_hot.samples
def one_hot_samples(make):
    yield make.args(make.ints(3, low=0, high=4), 5)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
