"""Activation functions as `nn.functional` spells them, with the `inplace` keyword."""

from __future__ import annotations

from plugrad.extend import Op, collect, composite, hookimpl

from .activation import SELU_ALPHA, SELU_SCALE


@composite(name="functional_relu", at=("nn.functional.relu",))
def relu(F, input, inplace=False):
    """Each element where positive, else zero.

    Args:
        input: tensor.
        inplace: whether to write the result into `input`.

    >>> import plugrad as torch
    >>> torch.nn.functional.relu(torch.tensor([-1., 2.]))
    tensor([0., 2.])
    """
    return input.relu_() if inplace else F.relu(input)


@composite(name="functional_relu6", at=("nn.functional.relu6",))
def relu6(F, input, inplace=False):
    """Each element limited to [0, 6].

    >>> import plugrad as torch
    >>> torch.nn.functional.relu6(torch.tensor([-1., 2., 8.]))
    tensor([0., 2., 6.])
    """
    return input.hardtanh_(0, 6) if inplace else F.hardtanh(input, 0, 6)


@composite(name="functional_hardtanh", at=("nn.functional.hardtanh",))
def hardtanh(F, input, min_val=-1.0, max_val=1.0, inplace=False):
    """Each element limited to `[min_val, max_val]`.

    >>> import plugrad as torch
    >>> torch.nn.functional.hardtanh(torch.tensor([-3., 0.5]))
    tensor([-1.0000,  0.5000])
    """
    return input.hardtanh_(min_val, max_val) if inplace else F.hardtanh(input, min_val, max_val)


@composite(name="functional_leaky_relu", at=("nn.functional.leaky_relu",))
def leaky_relu(F, input, negative_slope=0.01, inplace=False):
    """Each element, times `negative_slope` where negative.

    >>> import plugrad as torch
    >>> torch.nn.functional.leaky_relu(torch.tensor([-1., 2.]))
    tensor([-0.0100,  2.0000])
    """
    return input.leaky_relu_(negative_slope) if inplace else F.leaky_relu(input, negative_slope)


@composite(name="functional_threshold", at=("nn.functional.threshold", "threshold"), inplace=True)
def threshold(F, input, threshold, value, inplace=False):
    """Each element where above `threshold`, else `value`.

    >>> import plugrad as torch
    >>> torch.nn.functional.threshold(torch.tensor([0., 2.]), 1., 9.)
    tensor([9., 2.])
    """
    return input.threshold_(threshold, value) if inplace else F.threshold(input, threshold, value)


@composite(name="functional_hardsigmoid", at=("nn.functional.hardsigmoid",))
def hardsigmoid(F, input, inplace=False):
    """`clamp(input + 3, 0, 6) / 6`: the logistic function in straight lines.

    >>> import plugrad as torch
    >>> torch.nn.functional.hardsigmoid(torch.tensor([-4., 0.]))
    tensor([0.0000, 0.5000])
    """
    return input.hardsigmoid_() if inplace else F.hardsigmoid(input)


@composite(name="functional_hardswish", at=("nn.functional.hardswish",))
def hardswish(F, input, inplace=False):
    """`input * hardsigmoid(input)` (Howard et al., arXiv:1905.02244).

    >>> import plugrad as torch
    >>> torch.nn.functional.hardswish(torch.tensor([-4., 3.]))
    tensor([-0.,  3.])
    """
    return input.hardswish_() if inplace else F.hardswish(input)


@composite(name="functional_elu", at=("nn.functional.elu",))
def elu(F, input, alpha=1.0, inplace=False):
    """Exponential linear unit (arXiv:1511.07289).

    Each element where positive, else `alpha * expm1(input)`.

    >>> import plugrad as torch
    >>> torch.nn.functional.elu(torch.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])
    """
    return input.elu_(alpha) if inplace else F.elu(input, alpha)


@composite(name="functional_selu", at=("nn.functional.selu", "selu"))
def selu(F, input, inplace=False):
    """Self-normalising exponential linear unit (arXiv:1706.02515).

    >>> import plugrad as torch
    >>> torch.selu(torch.tensor([-1., 2.]))
    tensor([-1.1113,  2.1014])
    """
    return input.elu_(SELU_ALPHA, SELU_SCALE) if inplace else F.elu(input, SELU_ALPHA, SELU_SCALE)


@composite(name="functional_celu", at=("nn.functional.celu", "celu"))
def celu(F, input, alpha=1.0, inplace=False):
    """Continuously differentiable exponential linear unit (arXiv:1704.07483).

    Each element where positive, else `alpha * expm1(input / alpha)`.

    Errors: `RuntimeError` when `alpha` is zero.

    >>> import plugrad as torch
    >>> torch.celu(torch.tensor([-1., 2.]), alpha=0.5)
    tensor([-0.4323,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return input.elu_(alpha, 1.0, 1 / alpha) if inplace else F.elu(input, alpha, 1.0, 1 / alpha)


@composite(name="functional_silu", at=("nn.functional.silu",))
def silu(F, input, inplace=False):
    """Sigmoid linear unit `input * sigmoid(input)` (arXiv:1606.08415).

    >>> import plugrad as torch
    >>> torch.nn.functional.silu(torch.tensor([-1., 2.]))
    tensor([-0.2689,  1.7616])
    """
    return input.silu_() if inplace else F.silu(input)


@composite(name="functional_mish", at=("nn.functional.mish",))
def mish(F, input, inplace=False):
    """`input * tanh(softplus(input))` (arXiv:1908.08681).

    >>> import plugrad as torch
    >>> torch.nn.functional.mish(torch.tensor([-1., 2.]))
    tensor([-0.3034,  1.9440])
    """
    return input.mish_() if inplace else F.mish(input)


@composite(name="functional_rrelu", at=("nn.functional.rrelu", "rrelu"))
def rrelu(F, input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Randomised leaky relu (Xu et al., arXiv:1505.00853).

    Args:
        input: float tensor.
        lower, upper: range of the random slopes; their mean is the slope when not training.
        training: whether to draw slopes.
        inplace: whether to write the result into `input`.

    >>> import plugrad as torch
    >>> torch.nn.functional.rrelu(torch.tensor([-1., 2.]))
    tensor([-0.2292,  2.0000])
    """
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} > {upper}")
    if not training:
        slope = (lower + upper) / 2
        return input.leaky_relu_(slope) if inplace else F.leaky_relu(input, slope)
    slopes = F.where(input >= 0, 1.0, F.rand_like(input) * (upper - lower) + lower)
    return input.mul_(slopes) if inplace else F.mul(input, slopes)


@composite(name="functional_relu_", at=("nn.functional.relu_", "relu_"))
def relu_(F, input):
    """In-place form of `relu`.

    >>> import plugrad as torch
    >>> torch.relu_(torch.tensor([-1., 2.]))
    tensor([0., 2.])
    """
    return input.relu_()


@composite(name="functional_hardtanh_", at=("nn.functional.hardtanh_",))
def hardtanh_(F, input, min_val=-1.0, max_val=1.0):
    """In-place form of `hardtanh`.

    >>> import plugrad as torch
    >>> torch.nn.functional.hardtanh_(torch.tensor([-3., 0.5]))
    tensor([-1.0000,  0.5000])
    """
    return input.hardtanh_(min_val, max_val)


@composite(name="functional_leaky_relu_", at=("nn.functional.leaky_relu_",))
def leaky_relu_(F, input, negative_slope=0.01):
    """In-place form of `leaky_relu`.

    >>> import plugrad as torch
    >>> torch.nn.functional.leaky_relu_(torch.tensor([-1., 2.]))
    tensor([-0.0100,  2.0000])
    """
    return input.leaky_relu_(negative_slope)


@composite(name="functional_threshold_", at=("nn.functional.threshold_", "threshold_"))
def threshold_(F, input, threshold, value):
    """In-place form of `threshold`.

    >>> import plugrad as torch
    >>> torch.nn.functional.threshold_(torch.tensor([0., 2.]), 1., 9.)
    tensor([9., 2.])
    """
    return input.threshold_(threshold, value)


@composite(name="functional_elu_", at=("nn.functional.elu_",))
def elu_(F, input, alpha=1.0):
    """In-place form of `elu`.

    >>> import plugrad as torch
    >>> torch.nn.functional.elu_(torch.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])
    """
    return input.elu_(alpha)


@composite(name="functional_selu_", at=("nn.functional.selu_", "selu_"))
def selu_(F, input):
    """In-place form of `selu`.

    >>> import plugrad as torch
    >>> torch.selu_(torch.tensor([-1., 2.]))
    tensor([-1.1113,  2.1014])
    """
    return input.elu_(SELU_ALPHA, SELU_SCALE)


@composite(name="functional_celu_", at=("nn.functional.celu_", "celu_"))
def celu_(F, input, alpha=1.0):
    """In-place form of `celu`.

    >>> import plugrad as torch
    >>> torch.celu_(torch.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])
    """
    return input.elu_(alpha, 1.0, 1 / alpha)


@composite(name="functional_rrelu_", at=("nn.functional.rrelu_", "rrelu_"))
def rrelu_(F, input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """In-place form of `rrelu`.

    >>> import plugrad as torch
    >>> torch.rrelu_(torch.tensor([-1., 2.]))
    tensor([-0.2292,  2.0000])
    """
    return F.functional_rrelu(input, lower, upper, training, True)


@celu.samples
@elu.samples
@hardsigmoid.samples
@hardswish.samples
@hardtanh.samples
@leaky_relu.samples
@mish.samples
@relu.samples
@relu6.samples
@rrelu.samples
@selu.samples
@silu.samples
def activation_samples(make):
    yield make(3, 4)
    yield make()


@celu_.samples
@elu_.samples
@hardtanh_.samples
@leaky_relu_.samples
@relu_.samples
@rrelu_.samples
@selu_.samples
def in_place_activation_samples(make):
    yield make.on_copy(make(3, 4))


@threshold.samples
def threshold_samples(make):
    yield make(3, 4), 0.25, -1.0


@threshold_.samples
def in_place_threshold_samples(make):
    yield make.on_copy(make(3, 4), 0.25, -1.0)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
