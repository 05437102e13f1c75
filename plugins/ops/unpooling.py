"""Relatives of pooling: maxima with their positions, undoing max pooling, and p-norms of windows."""

from __future__ import annotations

from math import inf, prod

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, is_channels_last

from ._geometry import per_axis


@composite(at=("nn.functional.max_pool1d_with_indices", "max_pool1d_with_indices"))
def max_pool1d_with_indices(
    F, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """`max_pool1d` with positions: a pair (values, indices).

    >>> import plugrad as torch
    >>> torch.max_pool1d_with_indices(torch.tensor([[1., 3., 2., 0.]]), 2)[1]
    tensor([[1, 2]])
    """
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


@composite(at=("nn.functional.max_pool2d_with_indices",))
def max_pool2d_with_indices(
    F, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """`max_pool2d` with positions in each image: a pair (values, indices).

    >>> import plugrad as torch
    >>> torch.nn.functional.max_pool2d_with_indices(torch.arange(4.).reshape(1, 2, 2), 2)[1]
    tensor([[[3]]])
    """
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


@composite(at=("nn.functional.max_pool3d_with_indices",))
def max_pool3d_with_indices(
    F, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """`max_pool3d` with positions within each volume: a pair (values, indices).

    >>> import plugrad as torch
    >>> torch.nn.functional.max_pool3d_with_indices(torch.arange(8.).reshape(1, 2, 2, 2), 2)[1].item()
    7
    """
    return F.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


@composite(
    at=("nn.functional.adaptive_max_pool1d_with_indices", "adaptive_max_pool1d"), kinds={"output_size": "int|some_ints"}
)
def adaptive_max_pool1d_with_indices(F, input, output_size, return_indices=False):
    """`adaptive_max_pool1d` with positions: a pair (values, indices).

    >>> import plugrad as torch
    >>> torch.adaptive_max_pool1d(torch.tensor([[1., 3., 2.]]), 1)[1]
    tensor([[1]])
    """
    return F.adaptive_max_pool1d(input, output_size, True)


@max_pool1d_with_indices.samples
@adaptive_max_pool1d_with_indices.samples
def pool1d_with_indices_samples(make):
    yield make(1, 2, 5), 2


@composite(at=("nn.functional.adaptive_max_pool2d_with_indices",), kinds={"output_size": "int|some_ints"})
def adaptive_max_pool2d_with_indices(F, input, output_size, return_indices=False):
    """`adaptive_max_pool2d` with positions: a pair (values, indices).

    >>> import plugrad as torch
    >>> torch.nn.functional.adaptive_max_pool2d_with_indices(torch.arange(4.).reshape(1, 2, 2), 1)[1].item()
    3
    """
    return F.adaptive_max_pool2d(input, output_size, True)


@max_pool2d_with_indices.samples
@adaptive_max_pool2d_with_indices.samples
def pool2d_with_indices_samples(make):
    yield make(1, 2, 5, 4), 2


@composite(
    at=("nn.functional.adaptive_max_pool3d_with_indices",), kinds={"output_size": "int|some_ints"},
    autocast={"cpu": "float32"},
)  # fmt: skip
def adaptive_max_pool3d_with_indices(F, input, output_size, return_indices=False):
    """`adaptive_max_pool3d` with positions: a pair (values, indices).

    >>> import plugrad as torch
    >>> torch.nn.functional.adaptive_max_pool3d_with_indices(torch.arange(8.).reshape(1, 2, 2, 2), 1)[1].item()
    7
    """
    return F.adaptive_max_pool3d(input, output_size, True)


@max_pool3d_with_indices.samples
@adaptive_max_pool3d_with_indices.samples
def pool3d_with_indices_samples(make):
    yield make(1, 2, 5, 4, 4), 2


def _unpooled_size(name, n, input, kernel_size, stride, padding, output_size):
    """The size of what was pooled, which several sizes would explain: the natural one, or the one asked for."""
    kernel = per_axis(kernel_size, n, "kernel_size", name)
    stride = kernel if stride is None else per_axis(stride, n, "stride", name)
    padding = per_axis(padding, n, "padding", name)
    natural = [(s - 1) * t + k - 2 * p for s, t, k, p in zip(input.shape[-n:], stride, kernel, padding)]
    if output_size is None:
        return natural
    output_size = list(output_size)
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
            f"'{len(output_size)}'"
        )
    for got, usual, t in zip(output_size, natural, stride):
        if not usual - t < got < usual + t:
            least, most = [u - s for u, s in zip(natural, stride)], [u + s for u, s in zip(natural, stride)]
            raise ValueError(
                f'invalid output_size "{output_size}" (each dimension must be between {least} and {most}, exclusive)'
            )
    return output_size


def _max_unpool(F, n, input, indices, kernel_size, stride, padding, output_size):
    """Put values back to the positions that max pooling found them at, zeros elsewhere."""
    name = f"max_unpool{n}d"
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"Input to {name} should be a {n + 1}d or {n + 2}d Tensor, but got {input.ndim}d")
    if tuple(indices.shape) != tuple(input.shape):
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    size = _unpooled_size(name, n, input, kernel_size, stride, padding, output_size)
    lead = tuple(input.shape[:-n])
    pooled = prod(input.shape[-n:])
    flat, places = F.reshape(input, (*lead, pooled)), F.reshape(indices, (*lead, pooled))
    if places.numel() and not places.is_meta and not 0 <= int(places.min()) <= int(places.max()) < prod(size):
        raise RuntimeError(
            f"{name}: Found an invalid max index: {int(places.max())} (output volumes are of size {size})"
        )
    result = F.reshape(F.scatter(input.new_zeros((*lead, prod(size))), -1, places, flat), (*lead, *size))
    if n == 2 and not input.is_meta and input.ndim == 4 and is_channels_last(input.shape, input.stride()):
        return F.clone(result, memory_format=plugrad.channels_last)
    return result


@composite(at=("nn.functional.max_unpool1d",), autocast={"cpu": "float32"})
def max_unpool1d(F, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put maxima back to their positions, zeros elsewhere.

    A partial inverse of `max_pool1d` with `return_indices`.     `output_size` chooses among the lengths that
    would pool to the input's. Raises RuntimeError when shapes differ.

    >>> import plugrad as torch
    >>> torch.nn.functional.max_unpool1d(torch.tensor([[5.]]), torch.tensor([[1]]), 2)
    tensor([[0., 5.]])
    """
    return _max_unpool(F, 1, input, indices, kernel_size, stride, padding, output_size)


@max_unpool1d.samples
def max_unpool1d_samples(make):
    yield make(1, 1, 2), make.ints(1, 1, 2, low=0, high=1) + plugrad.tensor([0, 3]), 2


@composite(fresh=True, at=("nn.functional.max_unpool2d",), autocast={"cpu": "float32"})
def max_unpool2d(F, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put maxima back to their positions, zeros elsewhere.

    A partial inverse of `max_pool2d` with `return_indices`; arguments as for `max_unpool1d`.

    >>> import plugrad as torch
    >>> torch.nn.functional.max_unpool2d(torch.tensor([[[5.]]]), torch.tensor([[[3]]]), 2)
    tensor([[[0., 0.],
             [0., 5.]]])
    """
    return _max_unpool(F, 2, input, indices, kernel_size, stride, padding, output_size)


@max_unpool2d.samples
def max_unpool2d_samples(make):
    yield make(1, 1, 2, 2), make.ints(1, 1, 2, 2, low=0, high=1) + plugrad.tensor([[0, 3], [9, 14]]), 2


@composite(fresh=True, at=("nn.functional.max_unpool3d",), autocast={"cpu": "float32"})
def max_unpool3d(F, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put maxima back to their positions, zeros elsewhere.

    A partial inverse of `max_pool3d` with `return_indices`; arguments as for `max_unpool1d`.

    >>> import plugrad as torch
    >>> torch.nn.functional.max_unpool3d(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1).long(), 2).sum()
    tensor(1.)
    """
    return _max_unpool(F, 3, input, indices, kernel_size, stride, padding, output_size)


@max_unpool3d.samples
def max_unpool3d_samples(make):
    places = plugrad.tensor([[[0, 3], [9, 14]], [[36, 39], [45, 47]]])
    yield make(1, 1, 2, 2, 2), make.ints(1, 1, 2, 2, 2, low=0, high=1) + places, 2


def _lp_pool(F, n, input, norm_type, kernel_size, stride, ceil_mode):
    kernel = per_axis(kernel_size, n, "kernel_size", f"lp_pool{n}d")
    if abs(norm_type) == inf:
        largest, sizes = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1], F.abs(input)
        if norm_type > 0:
            return largest(sizes, kernel, stride, 0, 1, ceil_mode)
        return -largest(-sizes, kernel, stride, 0, 1, ceil_mode)
    powers = F.pow(input, float(norm_type))  # of a float: means of whole numbers are none (PyTorch cuts them off)
    if n == 1:
        mean = F.avg_pool1d(powers, kernel, stride, 0, ceil_mode)
    else:
        mean = (F.avg_pool2d if n == 2 else F.avg_pool3d)(powers, kernel, stride, 0, ceil_mode)
    # Of negative sums only the zero is kept, so that the root exists.
    return F.pow(F.sign(mean) * F.relu(F.abs(mean)) * prod(kernel), 1.0 / norm_type)


@composite(at=("nn.functional.lp_pool1d",))
def lp_pool1d(F, input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The `norm_type`-norm of each window of signals (N, C, L) or (C, L).

    That is (sum of x ** p) ** (1 / p).

    >>> import plugrad as torch
    >>> torch.nn.functional.lp_pool1d(torch.tensor([[3., 4.]]), 2, 2)
    tensor([[5.]])
    """
    return _lp_pool(F, 1, input, norm_type, kernel_size, stride, ceil_mode)


@lp_pool1d.samples
def lp_pool1d_samples(make):
    yield make(1, 2, 5, low=0.5, high=2), 3, 2


@composite(at=("nn.functional.lp_pool2d",))
def lp_pool2d(F, input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The `norm_type`-norm of each window of images (N, C, H, W) or (C, H, W).

    >>> import plugrad as torch
    >>> torch.nn.functional.lp_pool2d(torch.ones(1, 2, 2), 1, 2)
    tensor([[[4.]]])
    """
    return _lp_pool(F, 2, input, norm_type, kernel_size, stride, ceil_mode)


@lp_pool2d.samples
def lp_pool2d_samples(make):
    yield make(1, 2, 5, 4, low=0.5, high=2), 3, 2


@composite(at=("nn.functional.lp_pool3d",))
def lp_pool3d(F, input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The `norm_type`-norm of each window of volumes (N, C, D, H, W) or (C, D, H, W).

    >>> import plugrad as torch
    >>> torch.nn.functional.lp_pool3d(torch.ones(1, 2, 2, 2), 1, 2).item()
    8.0
    """
    return _lp_pool(F, 3, input, norm_type, kernel_size, stride, ceil_mode)


@lp_pool3d.samples
def lp_pool3d_samples(make):
    yield make(1, 2, 5, 4, 4, low=0.5, high=2), 3, 2


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
