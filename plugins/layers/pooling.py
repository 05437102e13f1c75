"""Pooling: the maximum, the mean or the p-norm of windows."""

from __future__ import annotations

from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F

from ._common import per_dimension


class _MaxPoolNd(Module):
    function: str

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input):
        return getattr(F, self.function)(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Maximum of windows of (N, C, L) or (C, L).

    Args:
        kernel_size: length of a window.
        stride: step between the windows, `kernel_size` when None.
        padding: added to both sides, with minus infinity.
        dilation: step between the elements of a window.
        return_indices: return (values, indices of the maxima).
        ceil_mode: allow a last window that goes beyond the input.

    >>> import plugrad as torch
    >>> torch.nn.MaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    function = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """Maximum of windows of images (N, C, H, W) or (C, H, W); see MaxPool1d.

    >>> import plugrad as torch
    >>> torch.nn.MaxPool2d(2)(torch.ones(1, 4, 6)).shape
    torch.Size([1, 2, 3])
    """

    function = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """Maximum of windows of volumes (N, C, D, H, W) or (C, D, H, W); see MaxPool1d.

    >>> import plugrad as torch
    >>> torch.nn.MaxPool3d(2)(torch.ones(1, 2, 4, 6)).shape
    torch.Size([1, 1, 2, 3])
    """

    function = "max_pool3d"


class _AvgPoolNd(Module):
    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Mean of windows of (N, C, L) or (C, L).

    Args:
        kernel_size: length of a window.
        stride: step between the windows, `kernel_size` when None.
        padding: zeros added to both sides.
        ceil_mode: allow a last window that goes beyond the input.
        count_include_pad: count the padding's zeros in the mean.

    >>> import plugrad as torch
    >>> torch.nn.AvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__()
        self.kernel_size = per_dimension(kernel_size, 1)
        self.stride = self.kernel_size if stride is None else per_dimension(stride, 1)
        self.padding = per_dimension(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input):
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(_AvgPoolNd):
    """Mean of windows of images (N, C, H, W) or (C, H, W).

    The arguments are those of AvgPool1d, and `divisor_override`: what to divide by instead of the window's size.

    >>> import plugrad as torch
    >>> torch.nn.AvgPool2d(2)(torch.ones(1, 4, 6)).shape
    torch.Size([1, 2, 3])
    """

    function = "avg_pool2d"

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input):
        return getattr(F, self.function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(AvgPool2d):
    """Mean of windows of volumes (N, C, D, H, W) or (C, D, H, W); see AvgPool2d.

    >>> import plugrad as torch
    >>> torch.nn.AvgPool3d(2)(torch.ones(1, 2, 4, 6)).shape
    torch.Size([1, 1, 2, 3])
    """

    function = "avg_pool3d"


class _AdaptivePool(Module):
    function: str

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return getattr(F, self.function)(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class _AdaptiveAvgPoolNd(_AdaptivePool):
    """Base of those that average."""


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Mean of `output_size` windows of (N, C, L) or (C, L), whatever L is.

    >>> import plugrad as torch
    >>> torch.nn.AdaptiveAvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Mean of windows of images, of any size, to `output_size`.

    That is one number or (height, width), where None keeps a size.

    >>> import plugrad as torch
    >>> torch.nn.AdaptiveAvgPool2d((None, 1))(torch.ones(1, 4, 6)).shape
    torch.Size([1, 4, 1])
    """

    function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Mean of windows of volumes, of any size, to `output_size`.

    That is one number or (depth, height, width), where None keeps a size.

    >>> import plugrad as torch
    >>> torch.nn.AdaptiveAvgPool3d(1)(torch.ones(1, 2, 4, 6)).shape
    torch.Size([1, 1, 1, 1])
    """

    function = "adaptive_avg_pool3d"


class _AdaptiveMaxPoolNd(_AdaptivePool):
    def __init__(self, output_size, return_indices=False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input):
        return getattr(F, self.function)(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maximum of as many windows of (N, C, L) or (C, L) as `output_size` says.

    >>> import plugrad as torch
    >>> torch.nn.AdaptiveMaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maximum of windows of images, to `output_size`; see AdaptiveAvgPool2d.

    >>> import plugrad as torch
    >>> torch.nn.AdaptiveMaxPool2d(2)(torch.ones(1, 4, 6)).shape
    torch.Size([1, 2, 2])
    """

    function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maximum of windows of volumes, to `output_size`; see AdaptiveAvgPool3d.

    >>> import plugrad as torch
    >>> torch.nn.AdaptiveMaxPool3d(2)(torch.ones(1, 2, 4, 6)).shape
    torch.Size([1, 2, 2, 2])
    """

    function = "adaptive_max_pool3d"


class _LPPoolNd(Module):
    function: str

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input):
        function = getattr(F, self.function)
        return function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self):
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The `norm_type`-norm of windows of (N, C, L) or (C, L); see MaxPool1d.

    >>> import plugrad as torch
    >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    function = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """The `norm_type`-norm of windows of images; see MaxPool2d.

    >>> import plugrad as torch
    >>> torch.nn.LPPool2d(1, 2)(torch.ones(1, 2, 2))
    tensor([[[4.]]])
    """

    function = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """The `norm_type`-norm of windows of volumes; see MaxPool3d.

    >>> import plugrad as torch
    >>> torch.nn.LPPool3d(1, 2)(torch.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    function = "lp_pool3d"


class _MaxUnpoolNd(Module):
    n: int
    function: str

    @classmethod
    def samples(cls, make):
        pool = getattr(F, f"max_pool{cls.n}d")
        yield 2, pool(make(2, 3, *(4, 6, 4)[: cls.n]).detach(), 2, return_indices=True)

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size = per_dimension(kernel_size, self.n)
        self.stride = self.kernel_size if stride is None else per_dimension(stride, self.n)
        self.padding = per_dimension(padding, self.n)

    def forward(self, input, indices, output_size=None):
        function = getattr(F, self.function)
        return function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Put maxima back to where MaxPool1d found them, with zeros elsewhere.

    The arguments are those of MaxPool1d. Called as `layer(input, indices, output_size=None)`.

    >>> import plugrad as torch
    >>> values, indices = torch.nn.MaxPool1d(2, return_indices=True)(torch.tensor([[[1.0, 3.0]]]))
    >>> torch.nn.MaxUnpool1d(2)(values, indices)
    tensor([[[0., 3.]]])
    """

    n, function = 1, "max_unpool1d"


class MaxUnpool2d(_MaxUnpoolNd):
    """Put maxima back to where MaxPool2d found them; see MaxUnpool1d.

    >>> import plugrad as torch
    >>> values, indices = torch.nn.MaxPool2d(2, return_indices=True)(torch.ones(1, 4, 4))
    >>> torch.nn.MaxUnpool2d(2)(values, indices).sum()
    tensor(4.)
    """

    n, function = 2, "max_unpool2d"


class MaxUnpool3d(_MaxUnpoolNd):
    """Put maxima back to where MaxPool3d found them; see MaxUnpool1d.

    >>> import plugrad as torch
    >>> values, indices = torch.nn.MaxPool3d(2, return_indices=True)(torch.ones(1, 4, 4, 4))
    >>> torch.nn.MaxUnpool3d(2)(values, indices).sum()
    tensor(8.)
    """

    n, function = 3, "max_unpool3d"


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
