"""Ops that reorder or pick dimensions without moving an element: transpose, select, diagonal, unfold..."""

from __future__ import annotations

from functools import lru_cache

from plugrad.extend import Op, axes, collect, composite, hookimpl, locked_if_shared, op, view

from ._checks import as_int, ints
from .strided import as_strided_array


@view(aliases=("swapdims",), inplace="shape")
def transpose(xp, input, dim0, dim1):
    """Swap the dimensions `dim0` and `dim1`.

    >>> import plugrad as torch
    >>> torch.transpose(torch.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    try:
        return input.swapaxes(dim0, dim1)
    except (ValueError, TypeError, OverflowError):
        axes(dim0, input.ndim), axes(dim1, input.ndim)  # says what is wrong
        return input[...]


@transpose.vjp
def transpose_vjp(F, g, dim0, dim1):
    return F.transpose(g, dim0, dim1)


@view(inplace="shape", node="TransposeBackward0", kinds={"axis0": "int", "axis1": "int"})
def swapaxes(xp, input, axis0, axis1):
    """Swap two dimensions, as `transpose` does, by NumPy's names.

    >>> import plugrad as torch
    >>> torch.swapaxes(torch.tensor([[1, 2], [3, 4]]), axis0=0, axis1=1)
    tensor([[1, 3],
            [2, 4]])
    """
    return transpose.kernels["*"](xp, input, axis0, axis1)


@swapaxes.vjp
def swapaxes_vjp(F, g, axis0, axis1):
    return F.transpose(g, axis0, axis1)


@transpose.samples
@swapaxes.samples
def transpose_samples(make):
    yield make.args(make(2, 3, 4), 0, 2)
    yield make.args(make(2, 3, 4), -1, -2)


@view(inplace="shape")
def t(xp, input):
    """Transpose of a matrix; tensors with fewer dimensions stay as they are.

    Raises `RuntimeError` for more than two dimensions: use `transpose(dim0, dim1)` or `.mT` there.

    >>> import plugrad as torch
    >>> torch.t(torch.zeros(2, 3)).shape
    torch.Size([3, 2])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D; "
            "use transpose(dim0, dim1) or .mT for the last two dimensions"
        )
    return input.transpose()


@t.vjp
def t_vjp(F, g):
    return F.t(g)


@t.samples
def t_samples(make):
    yield make(2, 3)
    yield make(3)


@t.errors
def t_errors(make):
    yield RuntimeError, "expects a tensor with <= 2 dimensions", make.args(make(2, 2, 2))


@composite()
def adjoint(F, input):
    """Conjugate of each matrix (the last two dimensions), transposed.

    Raises `RuntimeError` for 1-d tensors.

    >>> import plugrad as torch
    >>> torch.adjoint(torch.zeros(5, 2, 3)).shape
    torch.Size([5, 3, 2])
    """
    if input.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return F.conj(F.transpose(input, -2, -1) if input.ndim else input)


@adjoint.samples
def adjoint_samples(make):
    yield make(2, 3, 4)
    yield make(2, 3, dtype="complex128")


_ORDERS: set = set()  # orders of dimensions that were found to be right


@view(variadic="dims")
def permute(xp, input, dims):
    """Put the dimensions in the order `dims`.

    Raises `RuntimeError` unless `dims` names every dimension once.

    >>> import plugrad as torch
    >>> torch.permute(torch.zeros(2, 3, 4), (2, 0, 1)).shape
    torch.Size([4, 2, 3])
    """
    if type(dims) is tuple and dims in _ORDERS and type(dims[0]) is int:  # NumPy cuts dims of more than 32 bits
        try:
            return input.transpose(dims)
        except (TypeError, ValueError):  # a bool among them, or not as many as there are dimensions
            pass
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(dims)}"
        )
    order = tuple([axes(d, input.ndim) for d in ints(dims)])
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if dims and type(dims) is tuple and len(_ORDERS) < 4096:
        _ORDERS.add(dims)
    return input.transpose(order)


@permute.vjp
def permute_vjp(F, g, dims):
    n = len(dims)
    return F.permute(g, tuple(sorted(range(n), key=lambda i: dims[i] % n)))


@permute.samples
def permute_samples(make):
    yield make.args(make(2, 3, 4), (2, 0, 1))
    yield make.args(make(2, 3), (-1, -2))


@permute.errors
def permute_errors(make):
    yield RuntimeError, "duplicate dims are not allowed", make.args(make(2, 3), (0, 0))
    yield RuntimeError, "does not match the length", make.args(make(2, 3), (0,))


@composite(aliases=("moveaxis",))
def movedim(F, input, source, destination):
    """Move dimensions to other places; the rest keep their order.

    `source` and `destination` are an int or tuples of equal length. Raises `RuntimeError` on repeated dimensions.

    >>> import plugrad as torch
    >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
    torch.Size([3, 4, 2])
    """
    if isinstance(source, (tuple, list)) is not isinstance(destination, (tuple, list)):
        raise TypeError("movedim() received an invalid combination of arguments: source and destination differ in kind")
    source = ints(source) if isinstance(source, (tuple, list)) else (as_int(source),)
    destination = ints(destination) if isinstance(destination, (tuple, list)) else (as_int(destination),)
    order = _moved(input.ndim, source, destination)
    return F.permute(input, order) if order else F.reshape(input, ())


@lru_cache(maxsize=1024)
def _moved(n, source, destination):
    """Return which dimension comes to each place."""
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the same "
            f"number of dims as destination ({list(destination)} dims)"
        )
    froms, tos = [axes(d, n) for d in source], [axes(d, n) for d in destination]
    for name, raw, wrapped in (("source", source, froms), ("destination", destination, tos)):
        if len(set(wrapped)) != len(wrapped):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(raw)})")
    rest = iter([d for d in range(n) if d not in froms])
    return tuple([froms[tos.index(d)] if d in tos else next(rest) for d in range(n)])


@movedim.samples
def movedim_samples(make):
    yield make(2, 3, 4), 0, -1
    yield make(2, 3, 4), (0, 1), (2, 0)


@op(at=())
def put_in_zeros(xp, input, shape, index):
    """Zeros of `shape` with `input` at a basic `index`: gradient of a slice."""
    out = xp.zeros(shape, input.dtype)
    out[index] = input
    return out


@put_in_zeros.meta
def put_in_zeros_meta(input, shape, index):
    return tuple(shape), input.dtype


@put_in_zeros.vjp
def put_in_zeros_vjp(F, g, index):
    return g[index]


@put_in_zeros.samples
def put_in_zeros_samples(make):
    yield make.args(make(3), (2, 3), (0, Ellipsis))
    yield make.args(make(2, 1), (2, 3), (slice(None), slice(1, 2)))


@view(kinds={"index": "int"})
def select(xp, input, dim, index):
    """The slice number `index` along `dim`, without that dimension.

    Negative indices count from the end. Raises `IndexError` outside the range.

    >>> import plugrad as torch
    >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim, index = axes(dim, input.ndim), int(index)
    if not -input.shape[dim] <= index < input.shape[dim]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}"
        )
    return input[(slice(None),) * dim + (index, Ellipsis)]


@select.vjp
def select_vjp(F, g, input_shape, dim, index):
    return F.put_in_zeros(g, input_shape, (slice(None),) * (dim % len(input_shape)) + (int(index), Ellipsis))


@select.samples
def select_samples(make):
    yield make.args(make(2, 3), 0, 1)
    yield make.args(make(3), -1, -1)


@select.errors
def select_errors(make):
    yield IndexError, "out of range for tensor of size", make.args(make(2, 3), 0, 2)


@view(node="SliceBackward0", kinds={"start": "place"})
def narrow(xp, input, dim, start, length):
    """`length` consecutive slices along `dim`, from `start` on.

    `start` may be a 0-d integer tensor and may be negative. Raises `RuntimeError` past the end.

    >>> import plugrad as torch
    >>> torch.narrow(torch.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not isinstance(start, int) or isinstance(start, bool):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    dim = axes(dim, input.ndim)
    size = input.shape[dim]
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return input[(slice(None),) * dim + (slice(start, start + length),)]


@narrow.vjp
def narrow_vjp(F, g, input_shape, dim, start, length):
    dim = dim % len(input_shape)
    start = int(start) % input_shape[dim] if length else 0
    return F.put_in_zeros(g, input_shape, (slice(None),) * dim + (slice(start, start + length),))


@narrow.samples
def narrow_samples(make):
    yield make.args(make(4, 3), 0, 1, 2)
    yield make.args(make(4, 3), -1, -2, 2)


@narrow.errors
def narrow_errors(make):
    yield RuntimeError, "exceeds dimension size", make.args(make(2, 3), 0, 1, 2)


@view()
def diagonal(xp, input, offset=0, dim1=0, dim2=1):
    """Diagonal of the planes spanned by `dim1` and `dim2`, as the last dimension.

    `offset` > 0 lies above the main diagonal, < 0 below. Raises `RuntimeError` when both dimensions are one.

    >>> import plugrad as torch
    >>> torch.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    d1, d2 = axes(dim1, input.ndim), axes(dim2, input.ndim)
    if d1 == d2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    owner = input if input.base is None else input.base
    if xp.__name__ == "numpy" and input.flags.writeable and type(owner) is xp.ndarray and owner.flags.writeable:
        result = input.diagonal(offset, d1, d2)
        result.flags.writeable = True  # as NumPy has it, what it returns is not
        return locked_if_shared(result)
    place = [slice(None)] * input.ndim
    place[d1 if offset < 0 else d2] = slice(abs(offset), None)
    array = input[tuple(place)]
    shape, strides, rest = array.shape, array.strides, [d for d in range(input.ndim) if d not in (d1, d2)]
    shape = (*[shape[d] for d in rest], min(shape[d1], shape[d2]))
    return as_strided_array(xp, array, shape, (*[strides[d] for d in rest], strides[d1] + strides[d2]))


@diagonal.vjp
def diagonal_vjp(F, g, input_shape, offset, dim1, dim2):
    return F.diagonal_in_zeros(g, input_shape, offset, dim1, dim2)


@diagonal.samples
def diagonal_samples(make):
    yield make(3, 4)
    yield make.args(make(2, 3, 4), -1, 2, 0)
    yield make.args(make(3, 2), 5)


@diagonal.errors
def diagonal_errors(make):
    yield RuntimeError, "diagonal dimensions cannot be identical", make.args(make(2, 3), 0, 0, 0)


@op(at=(), node="DiagEmbedBackward0")
def diagonal_in_zeros(xp, input, shape, offset=0, dim1=0, dim2=1):
    """Zeros of `shape` with `input` on the diagonal: gradient of `diagonal`."""
    out = xp.zeros(shape, input.dtype)
    diagonal.kernels["*"](xp, out, offset, dim1, dim2)[...] = input
    return out


@diagonal_in_zeros.meta
def diagonal_in_zeros_meta(input, shape, offset=0, dim1=0, dim2=1):
    return tuple(shape), input.dtype


@diagonal_in_zeros.vjp
def diagonal_in_zeros_vjp(F, g, offset, dim1, dim2):
    return F.diagonal(g, offset, dim1, dim2)


@diagonal_in_zeros.samples
def diagonal_in_zeros_samples(make):
    yield make.args(make(2), (2, 3))


@view(at=("Tensor.unfold",), node="UnfoldBackward0", kinds={"size": "int"})
def sliding_windows(xp, input, dimension, size, step):
    """Windows of `size` elements, `step` apart, along `dimension`.

    The windows become a new last dimension. Raises `RuntimeError` when `size` exceeds the dimension.

    >>> import plugrad as torch
    >>> torch.arange(5).unfold(0, 2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    dim = axes(dimension, input.ndim)
    array = input if input.ndim else input.reshape(1)
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    n, stride = array.shape[dim], array.strides[dim]
    if size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {n} but size is {size}")
    if input.ndim == 0:
        return array[:size]
    shape = array.shape[:dim] + ((n - size) // step + 1,) + array.shape[dim + 1 :] + (size,)
    return as_strided_array(
        xp, array, shape, array.strides[:dim] + (stride * step,) + array.strides[dim + 1 :] + (stride,)
    )


@sliding_windows.vjp
def sliding_windows_vjp(F, g, input_shape, dimension, size, step):
    return F.sliding_windows_sum(g, input_shape, dimension, size, step)


@sliding_windows.samples
def sliding_windows_samples(make):
    yield make.args(make(7, 2), 0, 3, 2)
    yield make.args(make(2, 5), -1, 3, 1)


@sliding_windows.errors
def sliding_windows_errors(make):
    yield RuntimeError, "maximum size for tensor at dimension 0 is 2", make.args(make(2), 0, 3, 1)


@op(at=())
def sliding_windows_sum(xp, input, shape, dimension, size, step):
    """Zeros of `shape` plus every window where it came from: `unfold`'s gradient."""
    out = xp.zeros(shape, input.dtype)
    if not shape:
        out += input.sum()
        return out
    along = xp.moveaxis(out, dimension, -1)
    windows = xp.moveaxis(input, dimension % len(shape), -2)
    reach = step * (windows.shape[-2] - 1) + 1
    for k in range(size):
        along[..., k : k + reach : step] += windows[..., k]
    return out


@sliding_windows_sum.meta
def sliding_windows_sum_meta(input, shape, dimension, size, step):
    return tuple(shape), input.dtype


@sliding_windows_sum.vjp
def sliding_windows_sum_vjp(F, g, dimension, size, step):
    return F.sliding_windows(g, dimension, size, step)


@sliding_windows_sum.samples
def sliding_windows_sum_samples(make):
    yield make.args(make(3, 2, 3), (7, 2), 0, 3, 2)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
