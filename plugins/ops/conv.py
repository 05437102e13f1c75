"""Convolutions in one, two and three dimensions, and their transposes: the public functions over `convolve`."""

from __future__ import annotations

from functools import lru_cache

from plugrad.extend import Op, collect, composite, hookimpl

from ._geometry import key, per_axis
from .convolution_kernels import geometry_of


@composite(
    at=("convolution",),
    kinds={"bias": "tensor?", "stride": "ints", "padding": "ints", "dilation": "ints", "output_padding": "ints"},
    autocast={"cuda": "lower"},
)
def convolution(F, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Convolve a batch of images of any dimension, plainly or transposed.

    `input` is (N, C, *S), `weight` (O, C / groups, *K), or (C, O / groups, *K) when `transposed`, `bias` (O,) or None.
    The other arguments have one entry per dimension. Raises RuntimeError when dtypes differ.

    >>> import plugrad as torch
    >>> torch.convolution(torch.ones(1, 1, 4), torch.ones(1, 1, 3), None, (1,), (0,), (1,), False, (0,), 1)
    tensor([[[3., 3.]]])
    """
    n = weight.ndim - 2
    output_padding = per_axis(output_padding, n, "output_padding", "convolution")
    if transposed:
        return _conv_transpose(F, n, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(F, n, input, weight, bias, stride, padding, dilation, groups)


@convolution.samples
def convolution_samples(make):
    yield make(1, 2, 5), make(3, 2, 2), make(3), (1,), (1,), (1,), False, (0,), 1


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
    if 0 in input[-n:] and 0 not in input[:-n]:
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {list(input)}: there is "
            "nothing along a dimension that the kernel moves along"
        )


def _shape(part):
    return None if part is None else tuple(part.shape)


@lru_cache(maxsize=4096)
def _resolve(n, input, weight, bias, stride, padding, dilation, groups):
    """Check the arguments of a convolution, of tensors their shapes; give geometry and extra padding."""
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
    return geometry_of(stride, padding, dilation, False, (0,) * n, groups), extra


def _conv(F, n, input, weight, bias, stride, padding, dilation, groups):
    """The common part of conv1d, conv2d and conv3d."""
    geometry, extra = _resolve(
        n, _shape(input), _shape(weight), _shape(bias),
        key(stride), key(padding), key(dilation), groups,
    )  # fmt: skip
    if extra:
        input = F.constant_pad_nd(input, extra)
    if not weight.shape[1]:  # of no channels PyTorch makes none, whatever the weight says
        weight, bias = weight[:0], None if bias is None else bias[:0]
    if input.ndim == n + 2:
        return F.convolve(input, weight, bias, geometry)
    input = F.unsqueeze(input, 0)
    return F.squeeze(F.convolve(input, weight, bias, geometry), 0)


@composite(at=("nn.functional.conv1d", "conv1d"), kinds={"padding": "int|ints|str"}, autocast="lower")
def conv1d(F, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolve signals (N, C, L) or (C, L) with filters (O, C / groups, K).

    `padding` is a number, or 'valid' (none), or 'same' (as much as keeps the length; stride 1 only). Raises
    RuntimeError when shapes or dtypes do not belong together.

    >>> import plugrad as torch
    >>> torch.conv1d(torch.tensor([[1., 2., 3., 4.]]), torch.tensor([[[1., -1.]]]))
    tensor([[-1., -1., -1.]])
    """
    return _conv(F, 1, input, weight, bias, stride, padding, dilation, groups)


@conv1d.samples
def conv1d_samples(make):
    yield make(2, 3, 6), make(4, 3, 3), make(4)
    yield make.args(make(3, 6), make(3, 1, 2), padding="same", groups=3)


@composite(at=("conv_tbc", "nn.functional.conv_tbc"), kinds={"pad": "int"}, autocast="lower")
def conv_tbc(F, input, weight, bias, pad=0):
    """Convolve signals that come time first, (T, N, C), with filters (K, C, O).

    `bias` is (O), `pad` is added to both ends. Gives (T + 2 * pad - K + 1, N, O).

    >>> import plugrad as torch
    >>> torch.conv_tbc(torch.tensor([[[1.]], [[2.]], [[3.]]]), torch.ones(2, 1, 1), torch.zeros(1)).flatten()
    tensor([3., 5.])
    """
    for name, value, dimensions in (("Input", input, 3), ("Weight", weight, 3), ("Bias", bias, 1)):
        if value.ndim != dimensions:
            shape = "time, batch, in_channels" if name == "Input" else "kernel width, in_channels, out_channels"
            shape = "out_channels" if name == "Bias" else shape
            raise RuntimeError(f"{name} must have {dimensions} dims: {shape}; it has {value.ndim}")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError(
            f"Input dim 2 (input channels) is not == dim 1 in the weight tensor: {input.shape[2]} and {weight.shape[1]}"
        )
    if bias.shape[0] != weight.shape[2]:
        raise RuntimeError(
            f"Bias size must equal dim 2 in the weight tensor (output channels): {bias.shape[0]} and {weight.shape[2]}"
        )
    bias = bias.to(input.dtype)
    signals = F.conv1d(F.permute(input, (1, 2, 0)), F.permute(weight, (2, 1, 0)), bias, padding=pad)
    return F.contiguous(F.permute(signals, (2, 0, 1)))


@conv_tbc.samples
def conv_tbc_samples(make):
    yield make(5, 2, 3), make(2, 3, 4), make(4)
    yield make(5, 2, 3), make(3, 3, 2), make(2), 1


@composite(at=("nn.functional.conv2d", "conv2d"), kinds={"padding": "int|ints|str"}, autocast="lower")
def conv2d(F, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolve images (N, C, H, W) or (C, H, W) with filters (O, C / groups, KH, KW).

    `stride`, `padding` and `dilation` are numbers or pairs; `padding` may be 'valid' or 'same'. Raises
    RuntimeError when shapes or dtypes do not belong together.

    >>> import plugrad as torch
    >>> torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), stride=2, padding=1)
    tensor([[[[1., 2.],
              [2., 4.]]]])
    """
    return _conv(F, 2, input, weight, bias, stride, padding, dilation, groups)


@conv2d.samples
def conv2d_samples(make):
    yield make.args(make(1, 2, 5, 4), make(3, 2, 3, 2), make(3), stride=(2, 1), padding=1)
    yield make.args(make(1, 4, 4, 4), make(4, 2, 2, 2), dilation=2, groups=2)


@composite(at=("nn.functional.conv3d", "conv3d"), kinds={"padding": "int|ints|str"}, autocast="lower")
def conv3d(F, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolve volumes (N, C, D, H, W) or (C, D, H, W) with filters.

    Filters are (O, C / groups, KD, KH, KW). Arguments and errors as for `conv2d`, with three numbers
    each.

    >>> import plugrad as torch
    >>> torch.conv3d(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2)).item()
    8.0
    """
    return _conv(F, 3, input, weight, bias, stride, padding, dilation, groups)


@conv3d.samples
def conv3d_samples(make):
    yield make.args(make(1, 1, 3, 3, 4), make(2, 1, 2, 2, 2), make(2), padding=(1, 0, 0))


@lru_cache(maxsize=4096)
def _resolve_transposed(n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    """Check the arguments of a transposed convolution; give the geometry."""
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
    return geometry_of(stride, padding, dilation, True, output_padding, groups)


def _conv_transpose(F, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    """The common part of the transposed convolutions."""
    geometry = _resolve_transposed(
        n, _shape(input), _shape(weight), _shape(bias),
        key(stride), key(padding), key(output_padding), groups, key(dilation),
    )  # fmt: skip
    if input.ndim == n + 2:
        return F.convolve(input, weight, bias, geometry)
    input = F.unsqueeze(input, 0)
    return F.squeeze(F.convolve(input, weight, bias, geometry), 0)


@composite(at=("nn.functional.conv_transpose1d", "conv_transpose1d"), autocast="lower")
def conv_transpose1d(F, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of `conv1d` in its input: spreads (N, C, L) over longer signals.

    `weight` is (C, O / groups, K). `output_padding` lengthens the result on one side, to choose among the
    lengths that `conv1d` maps to L.

    >>> import plugrad as torch
    >>> torch.conv_transpose1d(torch.ones(1, 1, 2), torch.ones(1, 1, 3))
    tensor([[[1., 2., 2., 1.]]])
    """
    return _conv_transpose(F, 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@conv_transpose1d.samples
def conv_transpose1d_samples(make):
    yield make.args(make(2, 3, 4), make(3, 2, 3), make(2), stride=2, padding=1, output_padding=1)


@composite(at=("nn.functional.conv_transpose2d", "conv_transpose2d"), autocast="lower")
def conv_transpose2d(F, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of `conv2d` in its input: spreads (N, C, H, W) over larger images.

    `weight` is (C, O / groups, KH, KW). Other arguments are numbers or pairs.

    >>> import plugrad as torch
    >>> torch.conv_transpose2d(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 2, 2))
    tensor([[[[1., 1.],
              [1., 1.]]]])
    """
    return _conv_transpose(F, 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@conv_transpose2d.samples
def conv_transpose2d_samples(make):
    yield make.args(make(1, 2, 3, 3), make(2, 2, 2, 2), make(4), groups=2)


@composite(at=("nn.functional.conv_transpose3d", "conv_transpose3d"), autocast="lower")
def conv_transpose3d(F, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of `conv3d` in its input: spreads it over larger volumes.

    `input` is (N, C, D, H, W).     `weight` is (C, O / groups, KD, KH, KW). Other arguments are numbers or
    triples.

    >>> import plugrad as torch
    >>> torch.conv_transpose3d(torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 2, 2, 2])
    """
    return _conv_transpose(F, 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@conv_transpose3d.samples
def conv_transpose3d_samples(make):
    yield make(1, 1, 2, 2, 2), make(1, 1, 2, 2, 2)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
