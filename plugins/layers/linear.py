"""Linear maps: Linear, Bilinear, and Identity."""

from __future__ import annotations

import math

from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F

from ._common import parameter, reset_affine, within


class Identity(Module):
    """Return the input; whatever arguments the constructor gets are ignored.

    >>> import plugrad as torch
    >>> torch.nn.Identity(54, unused=True)(torch.tensor([1.0]))
    tensor([1.])
    """

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """input @ weight.T + bias over the last dimension.

    Args:
        in_features: size of the input's last dimension.
        out_features: size of the output's.
        bias: whether there is one.

    `weight` is (out_features, in_features); it and `bias` start uniform on +-1 / sqrt(in_features).

    >>> import plugrad as torch
    >>> torch.nn.Linear(20, 30)(torch.ones(128, 20)).shape
    torch.Size([128, 30])
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = parameter(out_features, in_features, device=device, dtype=dtype)
        self.register_parameter("bias", parameter(out_features, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Give weight and bias new random values."""
        reset_affine(self.weight, self.bias, self.in_features)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class _NonDynamicallyQuantizableLinear(Linear):
    """The projection of MultiheadAttention's output, by the name that PyTorch's repr shows."""

    def _get_name(self):
        return "NonDynamicallyQuantizableLinear"


class Bilinear(Module):
    """input1 @ weight[k] @ input2 + bias[k] for each output feature k.

    Args:
        in1_features: size of the last dimension of the first input.
        in2_features: size of that of the second.
        out_features: size of the output's.
        bias: whether there is one.

    Raises ValueError when in1_features is not positive. Parameters start uniform on +-1 / sqrt(in1_features).

    >>> import plugrad as torch
    >>> torch.nn.Bilinear(2, 3, 4)(torch.ones(5, 2), torch.ones(5, 3)).shape
    torch.Size([5, 4])
    """

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.weight = parameter(out_features, in1_features, in2_features, device=device, dtype=dtype)
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.register_parameter("bias", parameter(out_features, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Give weight and bias new random values."""
        bound = 1 / math.sqrt(self.in1_features)
        within(self.weight, bound)
        if self.bias is not None:
            within(self.bias, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
