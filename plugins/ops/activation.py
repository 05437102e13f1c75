"""Activation functions."""

from __future__ import annotations

import math

from plugrad.extend import (
    Op,
    collect,
    complement,
    composite,
    conj,
    elementwise,
    hookimpl,
    is_integer,
    native,
    unary,
)

from ._activation_on_cuda import load, on_cuda, slopes
from ._checks import BOOL_OR_COMPLEX, COMPLEX, INTEGRAL, NOT_FLOATING, bounded, dtype_word, fitted, refuse
from ._elements import of_elements
from .erf import erf

SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


def _slopes(call, xp, g, values):
    return call(g, values)


# ---------------------------------------------------------------- straight lines


@unary(promote="same")
def relu(xp, input):
    """Each element where positive, else zero.

    The derivative at zero is zero.

    >>> import plugrad as torch
    >>> torch.relu(torch.tensor([-1., 2.]))
    tensor([0., 2.])
    """
    kind = input.dtype.kind
    if kind == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    if kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    return xp.maximum(input, 0)


@relu.kernel("cpu")
def relu_on_cpu(xp, input):
    if input.dtype.kind != "f":
        return relu.kernels["*"](xp, input)
    return input.clip(0, math.inf)  # unlike `maximum` it has a vectorised loop for a number, and leaves -0.0 as it is


of_elements(relu, "relu")


@relu.vjp
def relu_vjp(F, g, y):
    return F.where(y != 0, g, 0.0)  # y is never negative, and where it is NaN g goes on, as in PyTorch


relu.vjp_kernel("cpu")(native("relu_grad")(_slopes))
of_elements(relu, load(name="relu", arrays=1), "cuda")
relu.vjp_kernel("cuda")(native(load(name="relu_grad", arrays=2))(slopes))


@unary(promote="same", at=(), fits=("min_val", "max_val"))
def hardtanh(xp, input, min_val=-1.0, max_val=1.0):
    """Each element limited to a range."""
    if input.dtype.kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    refuse(COMPLEX, "hardtanh_cpu", input)
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype.kind == "u" and min(min_val, max_val) < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    if is_integer(input.dtype):
        min_val, max_val = [fitted(xp.dtype("int64"), limit) for limit in (min_val, max_val)]
    return bounded(xp, input, min_val, max_val)


@hardtanh.kernel("cpu")
@native("clamp", otherwise=hardtanh)
def hardtanh_in_c(call, xp, input, min_val=-1.0, max_val=1.0):
    return call(input, min_val, max_val) if min_val <= max_val else NotImplemented


@hardtanh.vjp
def hardtanh_vjp(F, g, input, min_val, max_val):
    return F.where((input <= min_val) | (input >= max_val), 0.0, g)


on_cuda(hardtanh, "bounded", lambda low, high: (low, high) if low <= high else None, more=(0,))


@unary(promote="same", at=())
def leaky_relu(xp, input, negative_slope=0.01):
    """Each element, times a small slope where negative."""
    refuse(NOT_FLOATING, "leaky_relu_cpu", input)
    negative_slope = fitted(input.dtype, negative_slope)
    if 0 <= negative_slope <= 1:
        return xp.maximum(input, input * negative_slope)
    if not math.isfinite(negative_slope):  # zero times which is NaN
        return xp.where(input > 0, input, input * negative_slope)
    return input.clip(0, math.inf) + input.clip(-math.inf, 0) * negative_slope


@leaky_relu.kernel("cpu")
@native("leaky_relu", otherwise=leaky_relu, plain=True, halves=True)
def leaky_relu_native(call, xp, input, negative_slope=0.01):
    return call(input, negative_slope)


@leaky_relu.vjp
def leaky_relu_vjp(F, g, input, negative_slope):
    return F.where(input > 0, g, g * negative_slope)


@leaky_relu.vjp_kernel("cpu")
@native("leaky_relu_grad")
def leaky_relu_grad_native(call, xp, g, input, negative_slope):
    return call(g, input, negative_slope)


on_cuda(leaky_relu)


@unary(promote="same", at=(), kinds={"threshold": "number", "value": "number"}, fits=("value",))
def threshold(xp, input, threshold, value):
    """Each element where above a threshold, else a value."""
    refuse(BOOL_OR_COMPLEX, "threshold_cpu", input)
    return xp.where(input <= fitted(input.dtype, threshold), fitted(input.dtype, value), input)


@threshold.vjp
def threshold_vjp(F, g, input, threshold):
    return F.where(input <= threshold, 0.0, g)


@threshold.kernel("cpu")
@native("threshold", otherwise=threshold)
def threshold_in_c(call, xp, input, threshold, value):
    return call(input, float(fitted(input.dtype, threshold)), float(fitted(input.dtype, value)))


@threshold.vjp_kernel("cpu")
@native("threshold_grad")
def threshold_grad_in_c(call, xp, g, input, threshold):
    return call(g, input, threshold)


@threshold.samples
def threshold_samples(make):
    yield make(3, 4), 0.1, -2.0


@unary(promote="same", at=())
def hardsigmoid(xp, input):
    """`clamp(input + 3, 0, 6) / 6`: straight lines in place of the logistic function."""
    refuse(NOT_FLOATING, "hardsigmoid_cpu", input)
    return (input + 3).clip(0, 6) * (1 / 6)


of_elements(hardsigmoid, "hardsigmoid", halves=False)


@hardsigmoid.vjp
def hardsigmoid_vjp(F, g, input):
    return F.where((input > -3) & (input < 3), g * (1 / 6), 0.0)


hardsigmoid.vjp_kernel("cpu")(native("hardsigmoid_grad")(_slopes))


@unary(promote="same", at=())
def hardswish(xp, input):
    """`input * hardsigmoid(input)` (Howard et al., arXiv:1905.02244)."""
    refuse(NOT_FLOATING, "hardswish_cpu", input)
    return input * ((input + 3).clip(0, 6) * (1 / 6))


of_elements(hardswish, "hardswish", halves=False)


@hardswish.vjp
def hardswish_vjp(F, g, input):
    inner = F.where(input <= -3, 0.0, g * (F.clamp(input, -3.0, 3.0) / 3 + 0.5))
    return F.where(input < 3, inner, g)


hardswish.vjp_kernel("cpu")(native("hardswish_grad")(_slopes))
on_cuda(hardswish)


@unary(promote="same", inplace=False, aliases=("nn.functional.hardshrink",), fits=("lambd",))
def hardshrink(xp, input, lambd=0.5):
    """Each element, or zero within `[-lambd, lambd]`.

    >>> import plugrad as torch
    >>> torch.nn.functional.hardshrink(torch.tensor([-1., 0.3]))
    tensor([-1.,  0.])
    """
    refuse(NOT_FLOATING, "hardshrink_cpu", input)
    return xp.where(xp.abs(input) <= fitted(input.dtype, lambd), 0, input)


@hardshrink.kernel("cpu")
@native("hardshrink", otherwise=hardshrink)
def hardshrink_in_c(call, xp, input, lambd=0.5):
    return call(input, float(fitted(input.dtype, lambd)))


@hardshrink.vjp
def hardshrink_vjp(F, g, input, lambd):
    return F.where((input >= -lambd) & (input <= lambd), 0.0, g)  # at NaN it goes on


def _shrink_grad_in_c(call, xp, g, input, lambd):
    return call(g, input, lambd)


hardshrink.vjp_kernel("cpu")(native("shrink_grad")(_shrink_grad_in_c))


@unary(promote="same", inplace=False, at=("nn.functional.softshrink",))
def softshrink(xp, input, lambd=0.5):
    """Each element brought nearer to zero by `lambd`, zero within `[-lambd, lambd]`.

    Errors: `RuntimeError` for a `lambd` that is negative, or more than what the sums are computed in holds.

    >>> import plugrad as torch
    >>> torch.nn.functional.softshrink(torch.tensor([-1., 0.3]))
    tensor([-0.5000,  0.0000])
    """
    refuse(NOT_FLOATING, "softshrink_check", input)
    most = xp.finfo(input.dtype).max if input.dtype.kind == "f" else math.inf
    if not 0 <= lambd <= most:
        kind = dtype_word(input.dtype)
        raise RuntimeError(f"lambda must be in range [0, {most:g}] for input dtype {kind}, but found {lambd:g}")
    rest = input - input.clip(-lambd, lambd)
    return xp.copysign(rest, input) if rest.dtype.kind == "f" else rest  # -0.0 where it was negative


@softshrink.kernel("cpu")
@native("softshrink", otherwise=softshrink)
def softshrink_in_c(call, xp, input, lambd=0.5):
    return call(input, lambd) if input.dtype.kind == "f" and 0 <= lambd <= xp.finfo(input.dtype).max else NotImplemented


@softshrink.vjp
def softshrink_vjp(F, g, input, lambd):
    return F.where((input >= -lambd) & (input <= lambd), 0.0, g)  # at NaN it goes on


softshrink.vjp_kernel("cpu")(native("shrink_grad")(_shrink_grad_in_c))


@elementwise(tensors=("input", "weight"), at=(), inplace=False, node="PreluKernelBackward0")
def prelu_elements(xp, input, weight):
    """Each element, times `weight` where negative; the two broadcast."""
    refuse(NOT_FLOATING, "prelu_cpu", input)
    return xp.where(input > 0, input, input * weight)  # a slope that is no number concerns what is not positive


@prelu_elements.kernel("cpu")
@native("prelu", otherwise=prelu_elements)
def prelu_in_c(call, xp, input, weight):
    return call(input, weight)


@prelu_elements.vjp("input")
def prelu_vjp_input(F, g, input, weight):
    return F.where(input > 0, g, g * weight)


@prelu_elements.vjp("weight")
def prelu_vjp_weight(F, g, input):
    return F.where(input > 0, 0.0, g * input)


@composite(aliases=("nn.functional.prelu",), autocast="lower")
def prelu(F, input, weight):
    """Each element, times a learnt slope where negative (He et al., arXiv:1502.01852).

    Args:
        input: float tensor, channels in dimension 1.
        weight: one slope, or one for each channel.

    >>> import plugrad as torch
    >>> torch.prelu(torch.tensor([[-1., 2.]]), torch.tensor([0.5]))
    tensor([[-0.5000,  2.0000]])
    """
    if input.dtype != weight.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype} and {weight.dtype}")
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    count = weight.shape[0] if weight.ndim else 1
    if count == 1:
        return F.prelu_elements(input, weight if weight.ndim <= input.ndim else F.reshape(weight, ()))
    if input.ndim == 0:
        raise RuntimeError("Not allow zero-dim input tensor.")
    if count != channels:
        raise RuntimeError(
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{count} and channel size = {channels}."
        )
    return F.prelu_elements(input, F.reshape(weight, (-1,) + (1,) * (input.ndim - 2)))


@prelu.samples
def prelu_samples(make):
    yield make(2, 3, 4), make(3)
    yield make(2, 3, 4), make(1)


# ---------------------------------------------------------------- sigmoids


@unary(aliases=("special.expit", "nn.functional.sigmoid"))
def sigmoid(xp, input):
    """Logistic function of each element, `1 / (1 + exp(-input))`.

    >>> import plugrad as torch
    >>> torch.sigmoid(torch.tensor([0., 2.]))
    tensor([0.5000, 0.8808])
    """
    if not input.ndim:
        return 1 / (1 + xp.exp(-input))
    result = xp.negative(input)
    xp.exp(result, out=result)
    result += 1
    return xp.reciprocal(result, out=result)


of_elements(sigmoid, "sigmoid")
of_elements(sigmoid, load(name="sigmoid", arrays=1), "cuda")


@sigmoid.vjp
def sigmoid_vjp(F, g, y):
    return g * conj(F, y * complement(F, y))


sigmoid.vjp_kernel("cpu")(native("sigmoid_grad")(_slopes))
sigmoid.vjp_kernel("cuda")(native(load(name="sigmoid_grad", arrays=2))(slopes))


@sigmoid.samples
def sigmoid_samples(make):
    yield make(3, 4)
    yield make(2, low=-800, high=800)


@unary(promote="same", inplace=False, at=("nn.functional.logsigmoid",), node="LogSigmoidBackward0", any_order="rows")
def logsigmoid(xp, input):
    """Logarithm of the logistic function, without overflow.

    >>> import plugrad as torch
    >>> torch.nn.functional.logsigmoid(torch.tensor([0., -100.]))
    tensor([  -0.6931, -100.0000])
    """
    refuse(NOT_FLOATING, "log_sigmoid_cpu", input)
    return input.clip(-math.inf, 0) - xp.log1p(xp.exp(-xp.abs(input)))


of_elements(logsigmoid, "log_sigmoid", halves=False)


@logsigmoid.vjp
def logsigmoid_vjp(F, g, input):
    return g * F.sigmoid(-input)


on_cuda(logsigmoid, "log_sigmoid")


@unary(promote="same", inplace=False, at=("nn.functional.softplus",), autocast={"cuda": "float32"})
def softplus(xp, input, beta=1, threshold=20):
    """Smooth form of `relu`: `log(1 + exp(beta * input)) / beta`.

    Args:
        input: float tensor.
        beta: how sharp the bend is.
        threshold: above it, `beta * input` is taken as a straight line.

    >>> import plugrad as torch
    >>> torch.nn.functional.softplus(torch.tensor([0., 30.]))
    tensor([ 0.6931, 30.0000])
    """
    refuse(NOT_FLOATING, "softplus_cpu", input)
    beta, threshold = fitted(input.dtype, beta), fitted(input.dtype, threshold)
    scaled = input if beta == 1 else input * beta
    smooth = xp.log1p(xp.exp(scaled))
    return xp.where(scaled > threshold, input, smooth if beta == 1 else smooth / beta)


@softplus.kernel("cpu")
@native("softplus", otherwise=softplus, plain=True)
def softplus_in_c(call, xp, input, beta=1, threshold=20):
    return call(input, beta, threshold)


@softplus.vjp
def softplus_vjp(F, g, input, beta, threshold):
    scaled = input * beta
    return F.where(scaled > threshold, g, g * F.sigmoid(scaled))


@softplus.vjp_kernel("cpu")
@native("softplus_grad")
def softplus_grad_in_c(call, xp, g, input, beta, threshold):
    return call(g, input, beta, threshold)


on_cuda(softplus)


@composite(at=("nn.functional.softsign",))
def softsign(F, input):
    """`input / (1 + abs(input))`.

    >>> import plugrad as torch
    >>> torch.nn.functional.softsign(torch.tensor([-1., 3.]))
    tensor([-0.5000,  0.7500])
    """
    return F.div(input, F.abs(input) + 1)


@composite(at=("nn.functional.tanhshrink",))
def tanhshrink(F, input):
    """`input - tanh(input)`.

    >>> import plugrad as torch
    >>> torch.nn.functional.tanhshrink(torch.tensor([0., 1.]))
    tensor([0.0000, 0.2384])
    """
    return F.sub(input, F.tanh(input))


@softsign.samples
@tanhshrink.samples
def plain_samples(make):
    yield make(3, 4)


# ---------------------------------------------------------------- exponential units


@unary(promote="same", at=())
def elu(xp, input, alpha=1.0, scale=1.0, input_scale=1.0):
    """`scale * (input or alpha * expm1(input_scale * input))`.

    elu, selu and celu in one.
    """
    refuse(NOT_FLOATING, "elu_cpu", input)
    alpha, scale, input_scale = [fitted(input.dtype, number) for number in (alpha, scale, input_scale)]
    negative = input.clip(-math.inf, 0)
    bent = xp.expm1(negative if input_scale == 1 else negative * input_scale)
    if math.isfinite(alpha):
        result = input.clip(0, math.inf) + (bent if alpha == 1 else bent * alpha)
    else:  # of zero it is zero
        result = xp.where(input < 0, bent * alpha, input)
    return result if scale == 1 else result * scale


@elu.kernel("cpu")
@native("elu", otherwise=elu)
def elu_in_c(call, xp, input, alpha=1.0, scale=1.0, input_scale=1.0):
    return call(input, alpha, scale, input_scale) if input_scale > 0 else NotImplemented


@elu.vjp
def elu_vjp(F, g, input, alpha, scale, input_scale):
    # The exponential of the negative part only: elsewhere it may overflow, and infinity times zero is NaN.
    slope = F.exp(F.clamp_max(input, 0.0) * input_scale) * (alpha * input_scale * scale)
    return F.where(input <= 0, g * slope, g * scale)


@elu.vjp_kernel("cpu")
@native("elu_grad")
def elu_grad_in_c(call, xp, g, input, alpha, scale, input_scale):
    return call(g, input, alpha, scale, input_scale) if input_scale > 0 else NotImplemented


on_cuda(elu)


# ---------------------------------------------------------------- gated by their own size


@unary(promote="same", at=())
def silu(xp, input):
    """`input * sigmoid(input)`."""
    refuse(INTEGRAL, "silu_cpu", input)
    divisor = xp.exp(-input)
    divisor += 1
    return input / divisor


of_elements(silu, "silu")
of_elements(silu, load(name="silu", arrays=1), "cuda")


@silu.vjp
def silu_vjp(F, g, input):
    gate = F.sigmoid(input)
    return g * conj(F, gate * (input * (1 - gate) + 1))


silu.vjp_kernel("cpu")(native("silu_grad")(_slopes))
silu.vjp_kernel("cuda")(native(load(name="silu_grad", arrays=2))(slopes))


@unary(promote="same", at=())
def mish(xp, input):
    """`input * tanh(softplus(input))`."""
    refuse(NOT_FLOATING, "mish_cpu", input)
    return input * xp.tanh(input.clip(0, math.inf) + xp.log1p(xp.exp(-xp.abs(input))))


@mish.vjp
def mish_vjp(F, g, input):
    gate = F.tanh(F.softplus(input))
    return g * (gate + input * F.sigmoid(input) * (1 - gate * gate))


on_cuda(mish)


@unary(promote="same", inplace=False, at=("nn.functional.gelu",))
def gelu(xp, input, *, approximate="none"):
    """Each element times the normal distribution function at it (arXiv:1606.08415).

    Args:
        input: float tensor.
        approximate: "none", or "tanh" for the cheaper formula of the same paper.

    >>> import plugrad as torch
    >>> torch.nn.functional.gelu(torch.tensor([-1., 1.]))
    tensor([-0.1587,  0.8413])
    """
    refuse(NOT_FLOATING, "GeluKernelImpl", input)
    if approximate == "tanh":
        gate = input * (input * input * (0.044715 * _TWO_OVER_ROOT) + _TWO_OVER_ROOT)
        return input * ((xp.tanh(gate) + 1) * 0.5)
    if approximate != "none":
        raise RuntimeError(f"approximate argument must be either none or tanh, not {approximate!r}.")
    return input * ((erf.kernels["*"](xp, input * _ROOT_HALF) + 1) * 0.5)


def _gelu(call, xp, input, *, approximate="none"):
    return call(input, approximate == "tanh") if approximate in ("none", "tanh") else NotImplemented


gelu.kernel("cpu")(native("gelu", otherwise=gelu, halves=True)(_gelu))
gelu.kernel("cuda")(native(load(name="gelu", arrays=1, numbers=1), otherwise=gelu, halves=True)(_gelu))


_ROOT_HALF = math.sqrt(0.5)
_TWO_OVER_ROOT = math.sqrt(2 / math.pi)


@gelu.vjp
def gelu_vjp(F, g, input, approximate):
    if approximate == "tanh":
        square = input * input
        bent = F.tanh(input * (square * (0.044715 * _TWO_OVER_ROOT) + _TWO_OVER_ROOT))
        slope = (1 - bent * bent) * (square * (3 * 0.044715 * _TWO_OVER_ROOT) + _TWO_OVER_ROOT)
        return g * 0.5 * (bent + 1 + input * slope)
    density = F.exp(input * input * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * ((F.erf(input * _ROOT_HALF) + 1) * 0.5 + input * density)


def _gelu_slopes(call, xp, g, input, approximate):
    return call(g, input, approximate == "tanh")


gelu.vjp_kernel("cpu")(native("gelu_grad")(_gelu_slopes))


@gelu.vjp_kernel("cuda")
@native(load(name="gelu_grad", arrays=2, numbers=1))
def gelu_grad_on_cuda(call, xp, g, input, approximate):
    return slopes(lambda *arrays: call(*arrays, approximate == "tanh"), xp, g, input)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
