"""Activation functions as layers, nearly all derived from their functions."""

from __future__ import annotations

import plugrad
from plugrad.extend import Module, Parameter, collect, hookimpl, layer
from plugrad.nn import functional as F

# fmt: off
ReLU = layer("ReLU", "relu", "inplace=False", doc="The larger of each element and 0.")
LeakyReLU = layer(
    "LeakyReLU", "leaky_relu", "negative_slope=0.01, inplace=False", shown="negative_slope={negative_slope}",
    doc="Positive elements as they are, others times `negative_slope`.",
)
RReLU = layer(
    "RReLU", "rrelu", "lower=1.0 / 8, upper=1.0 / 3, inplace=False, training", shown="lower={lower}, upper={upper}",
    doc="Leaky ReLU with a slope drawn from [lower, upper], in evaluation the mean.",
)
Threshold = layer(
    "Threshold", "threshold", "threshold, value, inplace=False", shown="threshold={threshold}, value={value}",
    doc="Elements above `threshold` as they are, `value` for others.",
)
ELU = layer(
    "ELU", "elu", "alpha=1.0, inplace=False", shown="alpha={alpha}",
    doc="Exponential linear unit: alpha * (exp(x) - 1) for negative x. arXiv:1511.07289.",
)
CELU = layer(
    "CELU", "celu", "alpha=1.0, inplace=False", shown="alpha={alpha}",
    doc="ELU that is continuously differentiable for every `alpha`. arXiv:1704.07483.",
)
SELU = layer("SELU", "selu", "inplace=False", doc="Self-normalizing exponential linear unit. arXiv:1706.02515.")
GELU = layer(
    "GELU", "gelu", "approximate='none'", shown="approximate={approximate!r}",
    doc="x times the normal distribution function. arXiv:1606.08415.",
)
SiLU = layer("SiLU", "silu", "inplace=False", doc="x * sigmoid(x), also known as swish. arXiv:1702.03118.")
Mish = layer("Mish", "mish", "inplace=False", doc="x * tanh(softplus(x)). arXiv:1908.08681.")
Sigmoid = layer("Sigmoid", "sigmoid", doc="The logistic function 1 / (1 + exp(-x)).")
Tanh = layer("Tanh", "tanh", doc="The hyperbolic tangent.")
Hardsigmoid = layer(
    "Hardsigmoid", "hardsigmoid", "inplace=False", shown=None,
    doc="min(max(x + 3, 0), 6) / 6: sigmoid by straight lines.",
)
Hardswish = layer(
    "Hardswish", "hardswish", "inplace=False", shown=None, doc="x * hardsigmoid(x). arXiv:1905.02244."
)
Softplus = layer(
    "Softplus", "softplus", "beta=1.0, threshold=20.0", shown="beta={beta}, threshold={threshold}",
    doc="log(1 + exp(beta * x)) / beta, and x itself where beta * x exceeds `threshold`.",
)
Softshrink = layer(
    "Softshrink", "softshrink", "lambd=0.5", shown="{lambd}",
    doc="Moves each element towards 0 by `lambd`, but not beyond.",
)
Hardshrink = layer(
    "Hardshrink", "hardshrink", "lambd=0.5", shown="{lambd}", doc="Elements within `lambd` of 0 become 0."
)
Tanhshrink = layer("Tanhshrink", "tanhshrink", doc="x - tanh(x).")
Softsign = layer("Softsign", "softsign", doc="x / (1 + |x|).")
LogSigmoid = layer("LogSigmoid", "logsigmoid", doc="The logarithm of the sigmoid.")
Softmax = layer("Softmax", "softmax", "dim=None", shown="dim={dim}", doc="exp(x) divided by its sum along `dim`.")
Softmin = layer("Softmin", "softmin", "dim=None", shown="dim={dim}", doc="Softmax of the negative.")
LogSoftmax = layer(
    "LogSoftmax", "log_softmax", "dim=None", shown="dim={dim}", doc="The logarithm of the softmax along `dim`."
)

def _along_a_dimension(make):
    yield 1, make(2, 4, 3)


for _kind in (Softmax, Softmin, LogSoftmax):
    _kind.samples = staticmethod(_along_a_dimension)

GLU = layer(
    "GLU", "glu", "dim=-1", shown="dim={dim}",
    doc="The first half along `dim` times the sigmoid of the second. arXiv:1612.08083.",
)
# fmt: on


class Hardtanh(Module):
    """Restrict each element to [min_val, max_val].

    Raises ValueError unless min_val < max_val.

    >>> import plugrad as torch
    >>> torch.nn.Hardtanh()(torch.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        for old, value, new in (("min_value", min_value, "min_val"), ("max_value", max_value, "max_val")):
            if value is not None:
                import warnings

                warnings.warn(
                    f"keyword argument `{old}` is deprecated and rename to `{new}`", FutureWarning, stacklevel=2
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"Hardtanh: max_val must exceed min_val, got {self.min_val} and {self.max_val}")

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}" + ", inplace=True" * bool(self.inplace)


class ReLU6(Hardtanh):
    """Restrict each element to [0, 6].

    >>> import plugrad as torch
    >>> torch.nn.ReLU6()(torch.tensor([-2.0, 9.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return "inplace=True" * bool(self.inplace)


class PReLU(Module):
    """Leaky ReLU whose slope is learned.

    Args:
        num_parameters: 1, or one slope per channel: the size of the second dimension.
        init: the slopes at the beginning.

    K. He, X. Zhang, S. Ren, J. Sun, arXiv:1502.01852.

    >>> import plugrad as torch
    >>> torch.nn.PReLU(init=0.5)(torch.tensor([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(plugrad.empty((num_parameters,), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set the slopes to what they are at the beginning."""
        plugrad.nn.init.constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """Softmax over the channels of images (N, C, H, W) or (C, H, W).

    Raises ValueError for other numbers of dimensions.

    >>> import plugrad as torch
    >>> torch.nn.Softmax2d()(torch.zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input):
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
