"""View ops that return a copy, and splits whose slices autograd does not take for views."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, axes, collect, composite, factory, hookimpl, new_memory, op

from . import shape, splitting, strided, views


def _copy_of(record, name=None, method=False):
    """Return the record of `NAME_copy`: the results of the view op `record`, cloned in row-major order."""
    viewer, view_name, name = record.kernels["*"], record.name, name or record.name

    def copied(F, *args, **kwargs):
        result = getattr(F, view_name)(*args, **kwargs)
        if isinstance(result, tuple):
            return tuple([F.clone(part, memory_format=plugrad.contiguous_format) for part in result])
        return F.clone(result, memory_format=plugrad.contiguous_format)

    at = (f"{name}_copy", f"Tensor.{name}_copy")
    copy = composite(name=f"{name}_copy", at=at if method else at[:1], kinds=record.kinds)(viewer)  # for its signature
    copy.kernels["*"] = copied
    copy.module = __name__
    copy.doc = f"""A copy of what `{name}` returns; arguments and errors are those of it.

    >>> import plugrad as torch
    >>> callable(torch.{name}_copy)
    True
    """
    copy.sample_function = record.sample_function
    return copy


_copies = [
    *map(
        _copy_of,
        (
            shape.expand, shape.squeeze, shape.unsqueeze, strided.as_strided, splitting.split_with_sizes,
            splitting.unbind, splitting.view_as_real, views.diagonal, views.permute,
            views.select, views.t, views.transpose,
        ),
    ),
    _copy_of(views.narrow, method=True),
    _copy_of(splitting.split_evenly, "split"),
    _copy_of(views.sliding_windows, "unfold"),
]  # fmt: skip


@composite(at=("view_copy",), kinds={"size": "ints|dtype"})
def view_copy(F, input, size):
    """A copy of what `view` returns, of a tensor with any strides.

    >>> import plugrad as torch
    >>> torch.view_copy(torch.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    result = F.view(input, size) if isinstance(size, plugrad.dtype) else F.reshape(input, size)
    return F.clone(result, memory_format=plugrad.contiguous_format)


view_copy.samples(shape.reshape.sample_function)


@composite(at=("alias_copy",))
def alias_copy(F, input):
    """A copy of the tensor.

    >>> import plugrad as torch
    >>> torch.alias_copy(torch.tensor([1]))
    tensor([1])
    """
    return F.clone(input, memory_format=plugrad.contiguous_format)


@alias_copy.samples
def alias_copy_samples(make):
    yield make(2, 3)


@composite(fresh=True, at=("view_as_complex_copy",))
def view_as_complex_copy(F, input):
    """Pairs of numbers along the last dimension as complex numbers, copied.

    >>> import plugrad as torch
    >>> torch.view_as_complex_copy(torch.tensor([1.0, 2.0]))
    tensor(1.+2.j)
    """
    return F.view_as_complex(F.clone(input, memory_format=plugrad.contiguous_format))


view_as_complex_copy.samples(splitting.view_as_complex.sample_function)


@composite(at=("detach_copy",), vjp=None)
def detach_copy(F, input):
    """A copy of the tensor that has no history.

    >>> import plugrad as torch
    >>> torch.detach_copy(torch.tensor([1.0], requires_grad=True))
    tensor([1.])
    """
    return F.clone(input.detach(), memory_format=plugrad.contiguous_format)


@detach_copy.samples
def detach_copy_samples(make):
    yield make(2, 3)


@op()
def unsafe_split(xp, input, split_size, dim=0):
    """Slices of `split_size`, that autograd takes for tensors of their own.

    They share the input's memory: write to them in place only when the input and the other slices are not used again.

    >>> import plugrad as torch
    >>> torch.unsafe_split(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return splitting.split_evenly.kernels["*"](xp, input, split_size, dim)


@unsafe_split.meta
def unsafe_split_meta(input, split_size, dim=0):
    dim = axes(dim, input.ndim)
    sizes = [min(split_size, input.shape[dim] - i) for i in range(0, input.shape[dim], split_size or 1)]
    return [((*input.shape[:dim], n, *input.shape[dim + 1 :]), input.dtype) for n in sizes or [0]]


@op()
def unsafe_split_with_sizes(xp, input, split_sizes, dim=0):
    """Slices of the sizes listed, that autograd takes for tensors of their own.

    They share the input's memory: write to them in place only when the input and the other slices are not used again.

    >>> import plugrad as torch
    >>> torch.unsafe_split_with_sizes(torch.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return splitting.split_with_sizes.kernels["*"](xp, input, split_sizes, dim)


@unsafe_split_with_sizes.meta
def unsafe_split_with_sizes_meta(input, split_sizes, dim=0):
    dim = axes(dim, input.ndim)
    return [((*input.shape[:dim], n, *input.shape[dim + 1 :]), input.dtype) for n in split_sizes]


for _unsafe, _safe in ((unsafe_split, splitting.split_evenly), (unsafe_split_with_sizes, splitting.split_with_sizes)):
    _unsafe.vjp("input")(_safe.formulas[0].function)


@unsafe_split.samples
def unsafe_split_samples(make):
    yield make.args(make(5, 2), 2)


@unsafe_split_with_sizes.samples
def unsafe_split_with_sizes_samples(make):
    yield make.args(make(5, 2), [2, 3])


@composite()
def unsafe_chunk(F, input, chunks, dim=0):
    """At most `chunks` equal slices, that autograd takes for tensors of their own.

    >>> import plugrad as torch
    >>> torch.unsafe_chunk(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return splitting.chunked(input, chunks, dim, F.unsafe_split, F.unsafe_split_with_sizes)


@unsafe_chunk.samples
def unsafe_chunk_samples(make):
    yield make.args(make(5, 2), 2)


@composite(kinds={"stride": "ints"})
def as_strided_scatter(F, input, src, size, stride, storage_offset=None):
    """A copy of `input` with `src` written where `as_strided` looks.

    The other arguments are those of it. Raises `RuntimeError` when `src` has another shape than `size`, and for an
    input that requires grad and is not contiguous.

    >>> import plugrad as torch
    >>> torch.as_strided_scatter(torch.zeros(2, 2), torch.ones(2), (2,), (3,))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if input.requires_grad and plugrad.is_grad_enabled() and not input.is_contiguous():
        raise RuntimeError("as_strided_scatter is only supported for contiguous inputs: write input.contiguous()")
    result = F.clone(input)
    region = F.as_strided(result, size, stride, storage_offset)
    if tuple(region.shape) != tuple(src.shape):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(region.shape)}"
        )
    region.copy_(src)
    return result


@as_strided_scatter.samples
def as_strided_scatter_samples(make):
    yield make.args(make(3, 4), make(2, 2), (2, 2), (4, 1), 1)


@factory(promote="float")
def empty_permuted(xp, size, physical_layout, *, dtype):
    """An uninitialised tensor, with a given order of its dimensions in memory.

    `physical_layout` lists the dimensions from the outermost in memory to the innermost.

    >>> import plugrad as torch
    >>> torch.empty_permuted((2, 3, 5), (0, 2, 1)).stride()
    (15, 1, 3)
    """
    if len(physical_layout) != len(size):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    for d in physical_layout:
        if not 0 <= d < len(size):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d})")
    if len(set(physical_layout)) != len(size):
        raise RuntimeError("Duplicate dim not allowed")
    order = sorted(range(len(size)), key=physical_layout.__getitem__)
    return new_memory(xp.empty([size[d] for d in physical_layout], dtype)).transpose(order)


@empty_permuted.samples
def empty_permuted_samples(make):
    yield make.args((2, 3), (1, 0))


@hookimpl
def plugrad_ops():
    return [*collect(Op, globals()), *_copies]
