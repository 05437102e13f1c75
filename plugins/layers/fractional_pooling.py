"""Maxima over windows whose places are drawn at random."""

from __future__ import annotations

from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F

from ._common import per_dimension


class _FractionalMaxPool(Module):
    n: int
    function: str

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        super().__init__()
        name = type(self).__name__
        if any(type(size) is int and size <= 0 for size in per_dimension(kernel_size, self.n)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        if (output_size is None) == (output_ratio is None):
            if output_size is None:
                raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size, self.return_indices = per_dimension(kernel_size, self.n), return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_dimension(output_size, self.n)
        self.output_ratio = None if output_ratio is None else per_dimension(output_ratio, self.n)
        if output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    @classmethod
    def samples(cls, make):
        samples = make(2, 3, cls.n, low=0, high=1).detach()
        yield make.args(2, output_size=2, _random_samples=samples), make(2, 3, *(5,) * cls.n)

    def forward(self, input):
        function = getattr(F, self.function)
        return function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima over windows of images, placed at random: B. Graham, arXiv:1412.6071.

    Args:
        kernel_size: of the windows, one number or (height, width).
        output_size: how many windows; or else
        output_ratio: their number as a part of the input's size, between 0 and 1.
        return_indices: return the flat places of the maxima, too.

    Raises ValueError unless there is one of `output_size` and `output_ratio`.

    >>> import plugrad as torch
    >>> torch.nn.FractionalMaxPool2d(3, output_ratio=0.5)(torch.ones(1, 2, 8, 10)).shape
    torch.Size([1, 2, 4, 5])
    """

    n, function = 2, "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima over windows of volumes, placed at random; see FractionalMaxPool2d.

    >>> import plugrad as torch
    >>> torch.nn.FractionalMaxPool3d(2, output_size=3)(torch.ones(1, 2, 6, 6, 6)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    n, function = 3, "fractional_max_pool3d"


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
