"""Convolutions in one, two and three dimensions, their transposes, and unfold / fold.

Everything rests on two operators that are closed under differentiation: `convolution` (plain or transposed) and
`convolution_weight_grad`. Both are linear in each argument, so every derivative of either is again one of the two.

Windows are gathered into a matrix (im2col; Chellapilla, Puri, Simard, "High performance convolutional neural
networks for document processing", 2006) so that the arithmetic is one matrix product. Results are laid out with the
batch innermost: their logical shape is (N, C, *S) as always.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from plugrad.extend import Op, collect, composite, hookimpl, op

from ._geometry import batch_first, batch_last, grid, per_axis, window_count, windows

# Gathered windows are kept within this many bytes, to stay in the processor's cache; other devices want few launches.
WORKSPACE = {"numpy": 4 << 20}


def _blocks(xp, images, rows, size):
    """Slices of the first output axis such that the `rows` gathered values per output fit in the workspace."""
    per_row = images.itemsize * images.shape[-1] * rows * prod(size[1:])
    step = max(1, WORKSPACE.get(xp.__name__, 256 << 20) // max(1, per_row))
    if 0 < size[0] <= step:
        return (slice(0, size[0]),)
    return [slice(start, min(start + step, size[0])) for start in range(0, size[0], step)]


def _gather(xp, view, part, groups, whole):
    """The windows of the output rows `part` as `groups` matrices (channels * kernel, positions * batch)."""
    n = (view.ndim - 2) // 2
    if not whole:
        view = view[(slice(None),) * (1 + n) + (part,)]
    rows, columns = prod(view.shape[: 1 + n]) // groups, prod(view.shape[1 + n :])
    return xp.ascontiguousarray(view).reshape(groups, rows, columns)


def _correlate(xp, images, weight, stride, dilation, size, groups):
    """Slide `weight` (O, C/groups, *K) over padded batch-last `images`; gives batch-last (O, *size, N)."""
    view = windows(xp, images, weight.shape[2:], stride, dilation, size)
    channels, batch = len(weight), images.shape[-1]
    matrix = weight.reshape(groups, channels // groups, prod(weight.shape[1:]))
    blocks = _blocks(xp, images, matrix.shape[2] * groups, size)
    if len(blocks) == 1:
        return xp.matmul(matrix, _gather(xp, view, blocks[0], groups, True)).reshape(channels, *size, batch)
    result = xp.empty((channels, *size, batch), images.dtype)
    for part in blocks:
        product = xp.matmul(matrix, _gather(xp, view, part, groups, False))
        result[:, part] = product.reshape(channels, part.stop - part.start, *size[1:], batch)
    return result


def _scatter_windows(xp, columns, images, kernel, stride, dilation, first, size):
    """Add windows (C, *K, *size, N), whose first output row is `first`, onto batch-last `images` in place."""
    first = (first,) + (0,) * (len(kernel) - 1)
    for tap in grid(kernel):
        place = tuple(
            slice(k * d + f * t, k * d + (f + s - 1) * t + 1, t)
            for k, d, t, s, f in zip(tap, dilation, stride, size, first)
        )
        images[(slice(None), *place)] += columns[(slice(None), *tap)]


def _forward(xp, input, weight, stride, padding, dilation, groups):
    size = window_count(input.shape[2:], weight.shape[2:], stride, dilation, padding, padding)
    images = batch_last(xp, input, padding, padding)
    return _correlate(xp, images, weight, stride, dilation, size, groups)


def _transposed(xp, input, weight, stride, padding, dilation, output_padding, groups):
    """The adjoint of `_forward` in its input: (N, O, *size) and (O, C/groups, *K) give batch-last (C, *S, N)."""
    kernel, size = weight.shape[2:], input.shape[2:]
    reach = tuple(d * (k - 1) for d, k in zip(dilation, kernel))
    target = tuple(
        (s - 1) * t - 2 * p + r + e + 1 for s, t, p, r, e in zip(size, stride, padding, reach, output_padding)
    )
    outer, inner = len(weight) // groups, weight.shape[1]
    # Gathering moves about four times faster than adding windows up, but moves outer/inner times as much.
    if max(stride) == 1 and outer < 4 * inner and all(r >= p for r, p in zip(reach, padding)):
        low = tuple(r - p for r, p in zip(reach, padding))
        high = tuple(a + e for a, e in zip(low, output_padding))
        flip = (slice(None),) * 3 + (slice(None, None, -1),) * len(kernel)
        weight = weight.reshape(groups, outer, inner, *kernel).swapaxes(1, 2)[flip]
        weight = weight.reshape(groups * inner, outer, *kernel)
        return _correlate(xp, batch_last(xp, input, low, high), weight, stride, dilation, target, groups)
    grown = tuple(
        max(s + 2 * p, (o - 1) * t + r + 1) for s, p, o, t, r in zip(target, padding, size, stride, reach)
    )
    images = xp.zeros((groups * inner, *grown, len(input)), xp.result_type(input, weight))
    matrix = weight.reshape(groups, outer, inner * prod(kernel)).swapaxes(1, 2)
    values = batch_last(xp, input)
    for part in _blocks(xp, images, matrix.shape[1] * groups, size):
        block = values[:, part]
        block_size = block.shape[1:-1]
        columns = xp.matmul(matrix, block.reshape(groups, outer, prod(block.shape[1:])))
        columns = columns.reshape(groups * inner, *kernel, *block_size, len(input))
        _scatter_windows(xp, columns, images, kernel, stride, dilation, part.start, block_size)
    return images[(slice(None), *(slice(p, p + s) for p, s in zip(padding, target)))]


def _is_half(array):
    return array.dtype.itemsize == 2 and array.dtype.kind in "fV"


def _cast(array, dtype):
    return array if array.dtype == dtype else array.astype(dtype)


def _same_dtype(input, weight, bias):
    if input.dtype != weight.dtype:
        raise RuntimeError(
            f"Input type ({input.dtype}) and weight type ({weight.dtype}) should be the same; convert one with .to()"
        )
    if bias is not None and bias.dtype != input.dtype:
        raise RuntimeError(
            f"Input type ({input.dtype}) and bias type ({bias.dtype}) should be the same; convert one with .to()"
        )


@op(at=("convolution",), node="ConvolutionBackward0")
def convolution(xp, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Convolve a batch of images of any dimension, plainly or transposed.

    The operator behind `conv1d` ... `conv_transpose3d`; `input` is (N, C, *S), `weight` (O, C / groups, *K), or
    (C, O / groups, *K) when `transposed`, `bias` (O,) or None. The other arguments have one entry per dimension.
    Raises RuntimeError when dtypes differ. V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep
    learning", arXiv:1603.07285.

    >>> import plugrad as torch
    >>> torch.convolution(torch.ones(1, 1, 4), torch.ones(1, 1, 3), None, (1,), (0,), (1,), False, (0,), 1)
    tensor([[[3., 3.]]])
    """
    _same_dtype(input, weight, bias)
    dtype = input.dtype
    if _is_half(input):
        input, weight = input.astype("float32"), weight.astype("float32")
    if transposed:
        result = _transposed(xp, input, weight, stride, padding, dilation, output_padding, groups)
    else:
        result = _forward(xp, input, weight, stride, padding, dilation, groups)
    if bias is not None:
        result += bias.reshape(len(bias), *(1,) * (result.ndim - 1))
    return _cast(batch_first(result), dtype)


@convolution.meta
def convolution_meta(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    kernel, size = weight.shape[2:], input.shape[2:]
    if transposed:
        size = tuple(
            (s - 1) * t - 2 * p + d * (k - 1) + e + 1
            for s, t, p, d, k, e in zip(size, stride, padding, dilation, kernel, output_padding)
        )
        return (input.shape[0], weight.shape[1] * groups, *size), input.dtype
    size = window_count(size, kernel, stride, dilation, padding, padding)
    return (input.shape[0], weight.shape[0], *size), input.dtype


def _crop(value, shape):
    """Drop windows beyond `shape`: an output padding of a stride or more leaves room for windows nobody asked for."""
    return value if value.shape == shape else value[tuple(map(slice, shape))]


@convolution.vjp("input")
def convolution_vjp_input(
    F, g, weight, input_shape, stride, padding, dilation, transposed, output_padding, groups
):
    weight = F.conj(weight)
    if transposed:
        value = F.convolution(g, weight, None, stride, padding, dilation, False, output_padding, groups)
        return _crop(value, input_shape)
    left_over = tuple(
        (s + 2 * p - d * (k - 1) - 1) % t
        for s, p, d, k, t in zip(input_shape[2:], padding, dilation, weight.shape[2:], stride)
    )
    return F.convolution(g, weight, None, stride, padding, dilation, True, left_over, groups)


@convolution.vjp("weight")
def convolution_vjp_weight(F, g, input, weight_shape, stride, padding, dilation, transposed, groups):
    small, large = (F.conj(input), g) if transposed else (g, F.conj(input))
    return F.convolution_weight_grad(small, large, weight_shape[2:], stride, padding, dilation, groups)


@convolution.vjp("bias")
def convolution_vjp_bias(F, g):
    return F.channel_sum(g)


@op(at=())
def channel_sum(xp, input):
    """The sum of (N, C, *S) over all dimensions but the second."""
    dtype, channels = input.dtype, batch_last(xp, input)
    channels = channels.reshape(len(channels), prod(channels.shape[1:]))
    if _is_half(input):
        channels = channels.astype("float32")
    # A product with ones: BLAS adds up faster, in many lanes.
    return _cast(xp.matmul(channels, xp.ones(channels.shape[1], channels.dtype)), dtype)


@channel_sum.meta
def channel_sum_meta(input):
    return (input.shape[1],), input.dtype


@channel_sum.vjp
def channel_sum_vjp(F, g, input_shape):
    return F.expand(F.reshape(g, (1, -1, *(1,) * (len(input_shape) - 2))), input_shape)


@op(at=())
def convolution_weight_grad(xp, small, large, kernel, stride, padding, dilation, groups):
    """Correlate outputs with inputs: the gradient of `convolution` in its weight.

    `small` (N, O, *size) holds one value per window, `large` (N, C, *S) what the windows slide over; gives
    (O, C / groups, *kernel).
    """
    dtype = large.dtype
    if _is_half(large):
        small, large = small.astype("float32"), large.astype("float32")
    images, values, size = batch_last(xp, large, padding, padding), batch_last(xp, small), small.shape[2:]
    view = windows(xp, images, kernel, stride, dilation, size)
    outer, total = small.shape[1] // groups, None
    blocks = _blocks(xp, images, len(images) * prod(kernel), size)
    for part in blocks:
        columns = _gather(xp, view, part, groups, len(blocks) == 1)
        # Columns first: BLAS is faster with the longer side leading.
        value = xp.matmul(columns, values[:, part].reshape(groups, outer, columns.shape[2]).swapaxes(1, 2))
        total = value if total is None else total + value
    shape = (small.shape[1], len(images) // groups, *kernel)
    if total is None:
        return xp.zeros(shape, dtype)
    return _cast(total.swapaxes(1, 2).reshape(shape), dtype)


@convolution_weight_grad.meta
def convolution_weight_grad_meta(small, large, kernel, stride, padding, dilation, groups):
    return (small.shape[1], large.shape[1] // groups, *kernel), large.dtype


@convolution_weight_grad.vjp("small")
def convolution_weight_grad_vjp_small(F, g, large, small_shape, stride, padding, dilation, groups):
    value = F.convolution(F.conj(large), g, None, stride, padding, dilation, False, (0,) * len(stride), groups)
    return _crop(value, small_shape)


@convolution_weight_grad.vjp("large")
def convolution_weight_grad_vjp_large(F, g, small, large_shape, kernel, stride, padding, dilation, groups):
    left_over = tuple(
        s + 2 * p - d * (k - 1) - 1 - (o - 1) * t
        for s, p, d, k, o, t in zip(large_shape[2:], padding, dilation, kernel, small.shape[2:], stride)
    )
    return F.convolution(F.conj(small), g, None, stride, padding, dilation, True, left_over, groups)


# ------------------------------------------------------------------------------------------------- public functions


def _check_numbers(stride, padding, dilation, groups, output_padding=()):
    if groups <= 0:
        raise RuntimeError(f"non-positive groups is not supported, got groups={groups}")
    if min(padding, default=0) < 0:
        raise RuntimeError(f"negative padding is not supported, got padding={padding}; crop the input instead")
    if min(output_padding, default=0) < 0:
        raise RuntimeError(f"negative output_padding is not supported, got output_padding={output_padding}")
    if min(stride, default=1) <= 0:
        raise RuntimeError(f"non-positive stride is not supported, got stride={stride}")
    if min(dilation, default=1) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, got dilation={dilation}")


def _check_shapes(name, n, input, weight, bias, groups, transposed):
    """Raise RuntimeError unless the shapes of input, weight and bias belong together."""
    if len(weight) < 3:
        raise RuntimeError(f"weight should have at least three dimensions, got a weight of {list(weight)}")
    if len(weight) != n + 2:
        raise RuntimeError(
            f"Expected {len(weight)}-dimensional input for {len(weight)}-dimensional weight {list(weight)}, but {name} "
            f"takes {n + 2}-dimensional ones, and got input of size: {list(input)}"
        )
    if len(input) not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: {list(input)}"
        )
    for problem in ("at least", "divisible by"):
        if weight[0] % groups if problem == "divisible by" else weight[0] < groups:
            raise RuntimeError(
                f"Given groups={groups}, expected weight to be {problem} {groups} at dimension 0, but got weight of "
                f"size {list(weight)} instead"
            )
    wanted, outputs = (weight[0], weight[1] * groups) if transposed else (weight[1] * groups, weight[0])
    given = f"Given transposed={int(transposed)}" if transposed else f"Given groups={groups}"
    channels = input[-n - 1]
    if channels != wanted:
        raise RuntimeError(
            f"{given}, weight of size {list(weight)}, expected input{list(input)} to have {wanted} channels, but got "
            f"{channels} channels instead"
        )
    if bias is not None and bias != (outputs,):
        raise RuntimeError(
            f"{given}, weight of size {list(weight)}, expected bias to be 1-dimensional with {outputs} elements, but "
            f"got bias of size {list(bias)} instead"
        )


def _shape(part):
    return None if part is None else tuple(part.shape)


def _hashable(value):
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=4096)
def _resolve(n, input, weight, bias, stride, padding, dilation, groups):
    """Check the arguments of a convolution, of tensors their shapes; give stride, padding, dilation, extra padding."""
    name = f"conv{n}d"
    stride = per_axis(stride, n, "stride", name)
    dilation = per_axis(dilation, n, "dilation", name)
    named = padding if isinstance(padding, str) else None
    padding = (0,) * n if named else per_axis(padding, n, "padding", name)
    _check_numbers(stride, padding, dilation, groups)
    _check_shapes(name, n, input, weight, bias, groups, False)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, weight[2:])]
    extra = None
    if named == "same":
        if max(stride) > 1:
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        padding = tuple((r - 1) // 2 for r in reach)
        if any(r % 2 == 0 for r in reach):  # the odd element goes to the end
            extra = tuple(side for r in reversed(reach) for side in (0, 1 - r % 2))
    elif named and named != "valid":
        raise RuntimeError(f"Invalid padding string: '{named}'; choose 'same' or 'valid', or give numbers")
    size = [s + 2 * p for s, p in zip(input[-n:], padding)]
    if named != "same" and any(s < r for s, r in zip(size, reach)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, size))}). Kernel size: "
            f"({' x '.join(map(str, reach))}). Kernel size can't be greater than actual input size"
        )
    return stride, padding, dilation, extra


def _conv(F, n, input, weight, bias, stride, padding, dilation, groups):
    """The common part of conv1d, conv2d and conv3d."""
    stride, padding, dilation, extra = _resolve(
        n, _shape(input), _shape(weight), _shape(bias),
        _hashable(stride), _hashable(padding), _hashable(dilation), groups,
    )  # fmt: skip
    if extra:
        input = F.constant_pad_nd(input, extra)
    if input.ndim == n + 2:
        return F.convolution(input, weight, bias, stride, padding, dilation, False, (0,) * n, groups)
    input = F.unsqueeze(input, 0)
    return F.squeeze(F.convolution(input, weight, bias, stride, padding, dilation, False, (0,) * n, groups), 0)


@composite(at=("nn.functional.conv1d", "conv1d"))
def conv1d(F, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolve signals (N, C, L) or (C, L) with filters (O, C / groups, K).

    `padding` is a number, or 'valid' (none), or 'same' (as much as keeps the length; stride 1 only). Raises
    RuntimeError when shapes or dtypes do not belong together.

    >>> import plugrad as torch
    >>> torch.conv1d(torch.tensor([[1., 2., 3., 4.]]), torch.tensor([[[1., -1.]]]))
    tensor([[-1., -1., -1.]])
    """
    return _conv(F, 1, input, weight, bias, stride, padding, dilation, groups)


@composite(at=("nn.functional.conv2d", "conv2d"))
def conv2d(F, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolve images (N, C, H, W) or (C, H, W) with filters (O, C / groups, KH, KW).

    `stride`, `padding` and `dilation` are numbers or pairs; `padding` may be 'valid' or 'same'. Raises RuntimeError
    when shapes or dtypes do not belong together.

    >>> import plugrad as torch
    >>> torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), stride=2, padding=1)
    tensor([[[[1., 2.],
              [2., 4.]]]])
    """
    return _conv(F, 2, input, weight, bias, stride, padding, dilation, groups)


@composite(at=("nn.functional.conv3d", "conv3d"))
def conv3d(F, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolve volumes (N, C, D, H, W) or (C, D, H, W) with filters (O, C / groups, KD, KH, KW).

    Arguments and errors as for `conv2d`, with three numbers each.

    >>> import plugrad as torch
    >>> torch.conv3d(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2)).item()
    8.0
    """
    return _conv(F, 3, input, weight, bias, stride, padding, dilation, groups)


@lru_cache(maxsize=4096)
def _resolve_transposed(n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    """Check the arguments of a transposed convolution; give those with one number per dimension."""
    name = f"conv_transpose{n}d"
    stride = per_axis(stride, n, "stride", name)
    padding = per_axis(padding, n, "padding", name)
    output_padding = per_axis(output_padding, n, "output_padding", name)
    dilation = per_axis(dilation, n, "dilation", name)
    _check_numbers(stride, padding, dilation, groups, output_padding)
    _check_shapes(name, n, input, weight, bias, groups, True)
    if any(e >= max(t, d) for e, t, d in zip(output_padding, stride, dilation)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding: {output_padding} "
            f"stride: {stride} dilation: {dilation}"
        )
    return stride, padding, output_padding, dilation


def _conv_transpose(F, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    """The common part of the transposed convolutions."""
    stride, padding, output_padding, dilation = _resolve_transposed(
        n, _shape(input), _shape(weight), _shape(bias),
        _hashable(stride), _hashable(padding), _hashable(output_padding), groups, _hashable(dilation),
    )  # fmt: skip
    if input.ndim == n + 2:
        return F.convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)
    input = F.unsqueeze(input, 0)
    return F.squeeze(F.convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups), 0)


@composite(at=("nn.functional.conv_transpose1d", "conv_transpose1d"))
def conv_transpose1d(F, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of `conv1d` in its input: spreads (N, C, L) over longer signals.

    `weight` is (C, O / groups, K). `output_padding` lengthens the result on one side, to choose among the lengths
    that `conv1d` maps to L.

    >>> import plugrad as torch
    >>> torch.conv_transpose1d(torch.ones(1, 1, 2), torch.ones(1, 1, 3))
    tensor([[[1., 2., 2., 1.]]])
    """
    return _conv_transpose(F, 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(at=("nn.functional.conv_transpose2d", "conv_transpose2d"))
def conv_transpose2d(F, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of `conv2d` in its input: spreads (N, C, H, W) over larger images.

    `weight` is (C, O / groups, KH, KW). Other arguments are numbers or pairs.

    >>> import plugrad as torch
    >>> torch.conv_transpose2d(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 2, 2))
    tensor([[[[1., 1.],
              [1., 1.]]]])
    """
    return _conv_transpose(F, 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(at=("nn.functional.conv_transpose3d", "conv_transpose3d"))
def conv_transpose3d(F, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of `conv3d` in its input: spreads (N, C, D, H, W) over larger volumes.

    `weight` is (C, O / groups, KD, KH, KW). Other arguments are numbers or triples.

    >>> import plugrad as torch
    >>> torch.conv_transpose3d(torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 2, 2, 2])
    """
    return _conv_transpose(F, 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
