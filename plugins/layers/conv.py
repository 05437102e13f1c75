"""Convolutions and transposed convolutions in one, two and three dimensions."""

from __future__ import annotations

import math

from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F

from ._common import parameter, per_dimension, reset_affine

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share; `n` is the number of spatial dimensions."""

    n: int
    transposed = False

    def _set_up(self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
                padding_mode, device, dtype):  # fmt: skip
        Module.__init__(self)
        n = self.n
        _check(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = per_dimension(kernel_size, n), per_dimension(stride, n)
        self.padding = padding if isinstance(padding, str) else per_dimension(padding, n)
        self.dilation, self.output_padding = per_dimension(dilation, n), per_dimension(output_padding, n)
        self.padding_mode = padding_mode
        ends = (out_channels, in_channels // groups)
        if self.transposed:
            ends = (in_channels, out_channels // groups)
        self.weight = parameter(*ends, *self.kernel_size, device=device, dtype=dtype)
        self.register_parameter("bias", parameter(out_channels, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Give weight and bias new values, uniform on +-1 / sqrt(inputs of one output)."""
        reset_affine(self.weight, self.bias, math.prod(self.weight.shape[1:]))

    def extra_repr(self):
        n = self.n
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}",
        ]
        for name, plain in (("padding", (0,) * n), ("dilation", (1,) * n), ("output_padding", (0,) * n), ("groups", 1)):
            if getattr(self, name) != plain:
                parts.append(f"{name}={getattr(self, name)}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


def _check(in_channels, out_channels, stride, padding, groups, padding_mode) -> None:
    """Raise ValueError for arguments of a convolution that don't fit together."""
    if groups <= 0:
        raise ValueError(f"groups must be a positive integer, got {groups}")
    if in_channels % groups:
        raise ValueError(f"in_channels must be divisible by groups: {in_channels} channels, groups={groups}")
    if out_channels % groups:
        raise ValueError(f"out_channels must be divisible by groups: {out_channels} channels, groups={groups}")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same' and 'valid'")
        if padding == "same" and any(step != 1 for step in per_dimension(stride, 1)):
            raise ValueError("padding='same' is not supported for strided convolutions; give the padding in numbers")
    if not isinstance(padding_mode, str) or padding_mode not in _PADDING_MODES:
        padding_mode = padding_mode if isinstance(padding_mode, str) else type(padding_mode)
        raise ValueError(
            f"padding_mode must be one of {', '.join(map(repr, _PADDING_MODES))}, but got padding_mode={padding_mode!r}"
        )


class _Convolution(_ConvNd):
    """A convolution: `function` is its name in nn.functional."""

    function: str

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    @property
    def _reversed_padding_repeated_twice(self) -> list:
        """The padding as nn.functional.pad takes it: both sides of the last dimension first."""
        if self.padding == "valid":
            return [0] * (2 * self.n)
        if self.padding != "same":
            return [size for size in reversed(self.padding) for _ in range(2)]
        sides = []
        for dilation, size in zip(reversed(self.dilation), reversed(self.kernel_size)):
            total = dilation * (size - 1)
            sides += [total // 2, total - total // 2]
        return sides

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input, weight, bias):
        """Convolve with other weights; layers of others that compute theirs call it or have another one."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), 0
        return getattr(F, self.function)(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Convolution):
    """Convolution (cross-correlation) of (N, C, L) or (C, L).

    Args:
        in_channels: C of the input.
        out_channels: channels of the output.
        kernel_size: length of the kernel.
        stride: step between the windows.
        padding: added to both sides, or 'same' or 'valid'.
        dilation: step between the elements of a window.
        groups: parts into which input and output channels are divided, each convolved on its own.
        bias: whether there is one.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.

    Raises ValueError when channels are not divisible by groups, or for unknown paddings. The output has
    (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1 elements: V. Dumoulin, F. Visin,
    arXiv:1603.07285.

    >>> import plugrad as torch
    >>> torch.nn.Conv1d(16, 33, 3, stride=2)(torch.ones(20, 16, 50)).shape
    torch.Size([20, 33, 24])
    """

    n, function = 1, "conv1d"


class Conv2d(_Convolution):
    """Convolution (cross-correlation) of images (N, C, H, W) or (C, H, W).

    The arguments are those of Conv1d; sizes are one number or (height, width).

    >>> import plugrad as torch
    >>> torch.nn.Conv2d(3, 8, (3, 5), padding=(1, 2))(torch.ones(1, 3, 10, 12)).shape
    torch.Size([1, 8, 10, 12])
    """

    n, function = 2, "conv2d"


class Conv3d(_Convolution):
    """Convolution (cross-correlation) of volumes (N, C, D, H, W) or (C, D, H, W).

    The arguments are those of Conv1d; sizes are one number or (depth, height, width).

    >>> import plugrad as torch
    >>> torch.nn.Conv3d(2, 4, 3)(torch.ones(1, 2, 5, 6, 7)).shape
    torch.Size([1, 4, 3, 4, 5])
    """

    n, function = 3, "conv3d"


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution: `function` is its name in nn.functional."""

    function: str
    transposed = True

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}; write "zeros"')
        self._set_up(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
            padding_mode,
            device, dtype,
        )  # fmt: skip

    def forward(self, input, output_size=None):
        extra = self.output_padding if output_size is None else self._padding_for(input, output_size)
        function = getattr(F, self.function)
        return function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _padding_for(self, input, output_size) -> tuple:
        """Return the output padding that gives the wanted size."""
        n = self.n
        size = tuple(output_size)
        if len(size) == input.ndim:
            size = size[-n:]
        if len(size) != n:
            raise ValueError(
                f"{type(self).__name__}: for {input.ndim}D input, output_size must have {n} or {input.ndim} elements "
                f"(got {len(size)})"
            )
        least = [
            (length - 1) * step - 2 * side + spread * (kernel - 1) + 1
            for length, step, side, spread, kernel in zip(
                input.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size
            )
        ]
        most = [low + step - 1 for low, step in zip(least, self.stride)]
        if any(not low <= wanted <= high for low, wanted, high in zip(least, size, most)):
            raise ValueError(
                f"requested an output size of {list(size)}, but valid sizes range from {least} to {most} (for an input "
                f"of {tuple(input.shape[-n:])})"
            )
        return tuple(wanted - low for wanted, low in zip(size, least))


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of (N, C, L) or (C, L): a convolution's gradient.

    Args:
        in_channels: C of the input.
        out_channels: channels of the output.
        kernel_size: length of the kernel.
        stride: step between the windows that the input's elements are spread over.
        padding: taken off both sides of the output.
        output_padding: added to one side of the output.
        groups, bias, dilation: see Conv1d.
        padding_mode: 'zeros' only.

    Called as `layer(input, output_size=None)`. Raises ValueError like Conv1d, and for an output size out of reach.

    >>> import plugrad as torch
    >>> torch.nn.ConvTranspose1d(4, 2, 3, stride=2)(torch.ones(1, 4, 5), output_size=[12]).shape
    torch.Size([1, 2, 12])
    """

    n, function = 1, "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of images (N, C, H, W) or (C, H, W).

    The arguments are those of ConvTranspose1d; sizes are one number or (height, width).

    >>> import plugrad as torch
    >>> torch.nn.ConvTranspose2d(4, 2, 2, stride=2)(torch.ones(1, 4, 5, 5)).shape
    torch.Size([1, 2, 10, 10])
    """

    n, function = 2, "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of volumes (N, C, D, H, W) or (C, D, H, W).

    The arguments are those of ConvTranspose1d; sizes are one number or (depth, height, width).

    >>> import plugrad as torch
    >>> torch.nn.ConvTranspose3d(2, 1, 2)(torch.ones(1, 2, 3, 3, 3)).shape
    torch.Size([1, 1, 4, 4, 4])
    """

    n, function = 3, "conv_transpose3d"


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
