"""Ops that cut a tensor into several views, and views of complex numbers and of raw strides."""

from __future__ import annotations

from plugrad.extend import Op, axes, collect, composite, hookimpl, view

from ._checks import as_int, dtype_word, ints, refuse_arrays
from .views import as_strided_array


def pieces(array, dim, sizes):
    """Consecutive slices of the given sizes along `dim`."""
    lead, start, parts = (slice(None),) * dim, 0, []
    for n in sizes:
        parts.append(array[lead + (slice(start, start + n),)])
        start += n
    return tuple(parts)


@view(at=(), node="SplitBackward0")
def split_evenly(xp, input, split_size, dim=0):
    """Slices of `split_size`, the last one perhaps smaller."""
    if input.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    dim = axes(dim, input.ndim)
    n = input.shape[dim]
    if split_size == 0 and n:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    lead, step, starts = (slice(None),) * dim, split_size or 1, [0]
    while starts[-1] + step < n:  # range() would take the number behind a size that varies
        starts.append(starts[-1] + step)
    return tuple([input[(*lead, slice(i, i + step))] for i in starts])


@split_evenly.vjp
def split_evenly_vjp(F, g, dim):
    return F.cat(list(g), dim)


@split_evenly.samples
def split_evenly_samples(make):
    yield make.args(make(5, 2), 2)
    yield make.args(make(2, 4), 2, -1)


@view()
def split_with_sizes(xp, input, split_sizes, dim=0):
    """Consecutive slices with the sizes listed, as views.

    Raises `RuntimeError` when the sizes do not add up to the dimension.

    >>> import plugrad as torch
    >>> torch.split_with_sizes(torch.arange(4), [1, 3])
    (tensor([0]), tensor([1, 2, 3]))
    """
    if input.ndim == 0:
        raise RuntimeError("split_with_sizes expects at least a 1-dimensional tensor")
    dim, sizes = axes(dim, input.ndim), list(ints(split_sizes))
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
        )
    if sum(sizes) != input.shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {input.shape[dim]} (input tensor's "
            f"size at dimension {dim}), but got split_sizes={sizes}"
        )
    return pieces(input, dim, sizes)


@split_with_sizes.vjp
def split_with_sizes_vjp(F, g, dim):
    return F.cat(list(g), dim)


@split_with_sizes.samples
def split_with_sizes_samples(make):
    yield make.args(make(5, 2), [2, 3])
    yield make.args(make(2, 3), [0, 3], 1)


@split_with_sizes.errors
def split_with_sizes_errors(make):
    yield RuntimeError, "to sum exactly to 5", make.args(make(5, 2), [2, 2])


def given(name, **values):
    """Return the one argument that stands under any of its names; TypeError if none does, or several do."""
    chosen = [value for value in values.values() if value is not None]
    if len(chosen) != 1:
        raise TypeError(f"{name}() takes one of {', '.join(values)}, got {len(chosen)} of them")
    return chosen[0]


@composite(kinds={"split_size": "int|ints?"})
def split(F, tensor, split_size_or_sections=None, dim=0, *, split_size=None):
    """Slices of one size (the last may be smaller), or of the sizes listed.

    The method of tensors calls these sizes `split_size`.

    >>> import plugrad as torch
    >>> torch.split(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    if split_size is not None or split_size_or_sections is None:
        split_size_or_sections = given("split", split_size=split_size, split_size_or_sections=split_size_or_sections)
    if hasattr(split_size_or_sections, "__index__"):
        return F.split_evenly(tensor, as_int(split_size_or_sections), dim)
    return F.split_with_sizes(tensor, split_size_or_sections, dim)


def chunked(input, chunks, dim, evenly, with_sizes):
    """Return at most `chunks` equal slices, made by one of two functions: the latter splits what is empty."""
    if input.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.shape[axes(dim, input.ndim)]
    if n == 0:
        return with_sizes(input, [0] * chunks, dim)
    return evenly(input, -(-n // chunks), dim)


@composite()
def chunk(F, input, chunks, dim=0):
    """At most `chunks` slices of equal size, the last perhaps smaller.

    >>> import plugrad as torch
    >>> torch.chunk(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return chunked(input, chunks, dim, F.split_evenly, F.split_with_sizes)


@split.samples
@chunk.samples
def split_samples(make):
    yield make(5, 3), 2
    yield make(3, 5), 3, 1


def section_indices(n, indices_or_sections):
    """Where to cut a dimension of size `n` into near-equal sections, or at the given indices."""
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {indices_or_sections}")
        if indices_or_sections >= 1 << 31:
            fits = indices_or_sections < 1 << 63
            raise RuntimeError("not enough memory for so many sections") if fits else ValueError(
                "Overflow when unpacking long long: tensor_split() has too many sections"
            )
        small, rest = divmod(n, indices_or_sections)
        return [i * small + min(i, rest) for i in range(1, indices_or_sections)]
    return ints(indices_or_sections)


_KINDS = {"indices": "ints?", "sections": "int?"}


@composite(kinds={"indices_or_sections": "tensor|int|ints?", "tensor_indices_or_sections": "tensor?", **_KINDS})
def tensor_split(
    F, input, indices_or_sections=None, dim=0, *, sections=None, indices=None, tensor_indices_or_sections=None
):
    """Slices between the given indices, or that many near-equal ones.

    `indices_or_sections` is an int, a sequence of ints, or an int64 tensor of 0 or 1 dimensions. By its name it is one
    of `sections`, `indices` and `tensor_indices_or_sections`.

    >>> import plugrad as torch
    >>> torch.tensor_split(torch.arange(4), 3)
    (tensor([0, 1]), tensor([2]), tensor([3]))
    """
    refuse_arrays("tensor_split", input)
    indices_or_sections = given(
        "tensor_split", indices_or_sections=indices_or_sections, sections=sections, indices=indices,
        tensor_indices_or_sections=tensor_indices_or_sections,
    )  # fmt: skip
    if input.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    if hasattr(indices_or_sections, "dtype"):
        tensor = indices_or_sections
        if str(tensor.dtype).split(".")[-1] != "int64":
            raise RuntimeError(
                f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{dtype_word(tensor.dtype.name)}"
            )
        if tensor.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                f"one-dimensional tensor, but got a tensor with {tensor.ndim} dims"
            )
        indices_or_sections = tensor.tolist()
    dim = axes(dim, input.ndim)
    lead = (slice(None),) * dim
    cuts = section_indices(input.shape[dim], indices_or_sections)
    return tuple(input[lead + (slice(a, b),)] for a, b in zip([None, *cuts], [*cuts, None]))


tensor_split.samples(split_samples)


def along(F, name, input, indices_or_sections, dim, least):
    """`tensor_split` along a fixed dimension, into equal parts only."""
    refuse_arrays(name, input)
    if input.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with "
            f"{input.ndim} dimensions!"
        )
    if isinstance(indices_or_sections, int):
        n = input.shape[dim]
        if indices_or_sections <= 0 or n % indices_or_sections:
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
                f"{n} is not divisible by the split_size {indices_or_sections}!"
            )
    return F.tensor_split(input, indices_or_sections, dim)


@composite(kinds={"indices_or_sections": "int|ints?", **_KINDS}, variadic="indices_or_sections")
def hsplit(F, input, indices_or_sections=None, *, sections=None, indices=None):
    """Split columns (dimension 1; dimension 0 of a 1-d tensor).

    >>> import plugrad as torch
    >>> torch.hsplit(torch.tensor([[1, 2]]), 2)
    (tensor([[1]]), tensor([[2]]))
    """
    cut = given("hsplit", indices_or_sections=indices_or_sections, sections=sections, indices=indices)
    return along(F, "hsplit", input, cut, min(1, max(input.ndim - 1, 0)), 1)


@composite(kinds={"indices_or_sections": "int|ints?", **_KINDS}, variadic="indices_or_sections")
def vsplit(F, input, indices_or_sections=None, *, sections=None, indices=None):
    """Split rows (dimension 0).

    >>> import plugrad as torch
    >>> torch.vsplit(torch.tensor([[1], [2]]), 2)
    (tensor([[1]]), tensor([[2]]))
    """
    cut = given("vsplit", indices_or_sections=indices_or_sections, sections=sections, indices=indices)
    return along(F, "vsplit", input, cut, 0, 2)


@composite(kinds={"indices_or_sections": "int|ints?", **_KINDS}, variadic="indices_or_sections")
def dsplit(F, input, indices_or_sections=None, *, sections=None, indices=None):
    """Split along the third dimension.

    >>> import plugrad as torch
    >>> [part.shape for part in torch.dsplit(torch.zeros(1, 2, 4), [1])]
    [torch.Size([1, 2, 1]), torch.Size([1, 2, 3])]
    """
    cut = given("dsplit", indices_or_sections=indices_or_sections, sections=sections, indices=indices)
    return along(F, "dsplit", input, cut, 2, 3)


@hsplit.samples
@vsplit.samples
@dsplit.samples
def equal_parts_samples(make):
    yield make(4, 4, 4), 2
    yield make(4, 4, 4), (1, 3)


@view()
def unbind(xp, input, dim=0):
    """All slices along `dim`, as views without that dimension.

    >>> import plugrad as torch
    >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]), 1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = axes(dim, input.ndim)
    if dim == 0:
        return tuple([input[i, ...] for i in range(input.shape[0])])
    lead = (slice(None),) * dim
    return tuple([input[(*lead, i, Ellipsis)] for i in range(input.shape[dim])])


@unbind.vjp
def unbind_vjp(F, g, dim):
    return F.stack(list(g), dim)


@unbind.samples
def unbind_samples(make):
    yield make.args(make(2, 3))
    yield make.args(make(2, 3), -1)


@view(at=("real",), itself=True)
def real(xp, input):
    """Real part, as a view; real tensors are returned as they are.

    >>> import plugrad as torch
    >>> torch.real(torch.tensor([1 + 2j]))
    tensor([1.])
    """
    return input.real if input.dtype.kind == "c" else input


@real.vjp
def real_vjp(F, g):
    return g


@real.samples
def real_samples(make):
    yield make(3)
    yield make(3, dtype="complex128")


@view(at=("imag",))
def imag(xp, input):
    """Imaginary part of a complex tensor, as a view.

    Raises `RuntimeError` for real dtypes.

    >>> import plugrad as torch
    >>> torch.imag(torch.tensor([1 + 2j]))
    tensor([2.])
    """
    if input.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return input.imag


@imag.vjp
def imag_vjp(F, g):
    return F.complex(F.zeros_like(g), g)  # times 1j an infinite one has NaN


@imag.samples
def imag_samples(make):
    yield make(3, dtype="complex128")


@view(at=("view_as_real",))
def view_as_real(xp, input):
    """A complex tensor as pairs of real numbers, in a new last dimension.

    >>> import plugrad as torch
    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if input.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    part = xp.asarray(input).real  # what NumPy computes of one element is no array, and its part's memory not its own
    return as_strided_array(xp, part, (*input.shape, 2), (*input.strides, part.itemsize))


@view_as_real.vjp
def view_as_real_vjp(F, g):
    return F.complex(g[..., 0], g[..., 1])


@view_as_real.samples
def view_as_real_samples(make):
    yield make(3, dtype="complex128")
    yield make(dtype="complex128")


@view_as_real.errors
def view_as_real_errors(make):
    yield RuntimeError, "only supported for complex tensors", make.args(make(3))


@view(at=("view_as_complex",), autocast={"cpu": "float32"})
def view_as_complex(xp, input):
    """Pairs of real numbers in the last dimension as complex numbers.

    That dimension has size 2 and stride 1, else `RuntimeError`.

    >>> import plugrad as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    if input.dtype.kind != "f" or input.itemsize < 4:
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
            f"scalar type: {input.dtype}"
        )
    if input.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if input.size and input.strides[-1] != input.itemsize:  # of nothing NumPy may give any steps
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    for i, stride in enumerate(input.strides[:-1]):
        if input.size and stride % (2 * input.itemsize):
            raise RuntimeError(f"Tensor must have a stride divisible by 2 for all but last dimension, dimension {i}")
    return input.view("complex64" if input.itemsize == 4 else "complex128")[..., 0]


@view_as_complex.vjp
def view_as_complex_vjp(F, g):
    return F.view_as_real(g)


@view_as_complex.samples
def view_as_complex_samples(make):
    yield make(3, 2)


@view_as_complex.errors
def view_as_complex_errors(make):
    yield RuntimeError, "last dimension of size 2", make.args(make(3))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
