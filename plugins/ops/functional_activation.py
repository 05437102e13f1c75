"""Activation functions as `nn.functional` spells them: with the keyword `inplace`, or a name that ends in "_"."""

from __future__ import annotations

import linecache
import math

from plugrad import float16
from plugrad.extend import Op, collect, composite, hookimpl, op, rng

from ._draws import doubles
from .activation import SELU_ALPHA, SELU_SCALE


class _InPlace:
    """What stands for `F` where a result is to be written into the input: the in-place forms of ops."""

    def __getattr__(self, name):
        method = f"{name}_"
        self.__dict__[name] = call = lambda input, *options: getattr(input, method)(*options)
        return call


IN_PLACE = _InPlace()


def _activation(*names, **options):
    """Declare a function of `nn.functional`, and `names`, whose last parameter is `inplace`."""

    def declare(function):
        name = function.__name__
        record = composite(name=f"functional_{name}", at=(f"nn.functional.{name}", *names), **options)(function)
        record.samples(activation_samples)
        return record

    return declare


def activation_samples(make):
    yield make(3, 4)
    yield make()


def _in_place(op, *names):
    """Declare the function NAME_, which is the one of `op` with `inplace=True`, from a source like any written one."""
    plain = op.kernels["*"].__name__
    name, parameters = f"{plain}_", op.parameters[:-1]
    declared = [f"{one}={op.defaults[one]!r}" if one in op.defaults else one for one in parameters]
    source = f"def {name}(F, {', '.join(declared)}):\n    return F.{op.name}({', '.join(parameters)}, True)\n"
    file, namespace = f"<plugrad nn.functional.{name}>", {"__name__": __name__}
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)  # for tracebacks and `plugrad ops show`
    exec(compile(source, file, "exec"), namespace)
    function = namespace[name]
    _, prompt, example = op.doc.partition(">>>")  # without docstrings, under `python -OO`, there is none
    function.__doc__ = f"In-place form of `{plain}`.\n\n    {prompt}{example.replace(f'{plain}(', f'{name}(')}"
    record = composite(name=f"functional_{name}", at=(f"nn.functional.{name}", *names))(function)

    @record.samples
    def samples(make):
        for sample in op.sample_function(make):
            yield make.on_copy(*sample) if isinstance(sample, tuple) else make.on_copy(sample)

    return record


@_activation()
def relu(F, input, inplace=False):
    """Each element where positive, else zero.

    Args:
        input: tensor.
        inplace: whether to write the result into `input`.

    >>> import plugrad as torch
    >>> torch.nn.functional.relu(torch.tensor([-1., 2.]))
    tensor([0., 2.])
    """
    return (IN_PLACE if inplace else F).relu(input)


@_activation()
def relu6(F, input, inplace=False):
    """Each element limited to [0, 6].

    >>> import plugrad as torch
    >>> torch.nn.functional.relu6(torch.tensor([-1., 2., 8.]))
    tensor([0., 2., 6.])
    """
    return (IN_PLACE if inplace else F).hardtanh(input, 0, 6)


@_activation()
def hardtanh(F, input, min_val=-1.0, max_val=1.0, inplace=False):
    """Each element limited to `[min_val, max_val]`.

    >>> import plugrad as torch
    >>> torch.nn.functional.hardtanh(torch.tensor([-3., 0.5]))
    tensor([-1.0000,  0.5000])
    """
    return (IN_PLACE if inplace else F).hardtanh(input, min_val, max_val)


@_activation()
def leaky_relu(F, input, negative_slope=0.01, inplace=False):
    """Each element, times `negative_slope` where negative.

    >>> import plugrad as torch
    >>> torch.nn.functional.leaky_relu(torch.tensor([-1., 2.]))
    tensor([-0.0100,  2.0000])
    """
    return (IN_PLACE if inplace else F).leaky_relu(input, negative_slope)


@_activation("threshold", inplace=True)
def threshold(F, input, threshold, value, inplace=False):
    """Each element where above `threshold`, else `value`.

    >>> import plugrad as torch
    >>> torch.nn.functional.threshold(torch.tensor([0., 2.]), 1., 9.)
    tensor([9., 2.])
    """
    return (IN_PLACE if inplace else F).threshold(input, threshold, value)


@threshold.samples
def threshold_samples(make):
    yield make(3, 4), 0.25, -1.0


@_activation()
def hardsigmoid(F, input, inplace=False):
    """`clamp(input + 3, 0, 6) / 6`: the logistic function in straight lines.

    >>> import plugrad as torch
    >>> torch.nn.functional.hardsigmoid(torch.tensor([-4., 0.]))
    tensor([0.0000, 0.5000])
    """
    return (IN_PLACE if inplace else F).hardsigmoid(input)


@_activation()
def hardswish(F, input, inplace=False):
    """`input * hardsigmoid(input)` (Howard et al., arXiv:1905.02244).

    >>> import plugrad as torch
    >>> torch.nn.functional.hardswish(torch.tensor([-4., 3.]))
    tensor([-0.,  3.])
    """
    return (IN_PLACE if inplace else F).hardswish(input)


@_activation(kinds={"alpha": "real"})
def elu(F, input, alpha=1.0, inplace=False):
    """Exponential linear unit (arXiv:1511.07289).

    Each element where positive, else `alpha * expm1(input)`.

    >>> import plugrad as torch
    >>> torch.nn.functional.elu(torch.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])
    """
    return (IN_PLACE if inplace else F).elu(input, alpha)


@_activation("selu")
def selu(F, input, inplace=False):
    """Self-normalising exponential linear unit (arXiv:1706.02515).

    >>> import plugrad as torch
    >>> torch.selu(torch.tensor([-1., 2.]))
    tensor([-1.1113,  2.1014])
    """
    return (IN_PLACE if inplace else F).elu(input, SELU_ALPHA, SELU_SCALE)


@_activation("celu", kinds={"alpha": "real"})
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
    return (IN_PLACE if inplace else F).elu(input, alpha, 1.0, 1 / alpha)


@_activation()
def silu(F, input, inplace=False):
    """Sigmoid linear unit `input * sigmoid(input)` (arXiv:1606.08415).

    >>> import plugrad as torch
    >>> torch.nn.functional.silu(torch.tensor([-1., 2.]))
    tensor([-0.2689,  1.7616])
    """
    return (IN_PLACE if inplace else F).silu(input)


@_activation()
def mish(F, input, inplace=False):
    """`input * tanh(softplus(input))` (arXiv:1908.08681).

    >>> import plugrad as torch
    >>> torch.nn.functional.mish(torch.tensor([-1., 2.]))
    tensor([-0.3034,  1.9440])
    """
    return (IN_PLACE if inplace else F).mish(input)


@_activation("rrelu")
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
    for name, bound in ("upper", upper), ("lower", lower):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {float(bound)}")
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} > {upper}")
    if not training:
        return (IN_PLACE if inplace else F).leaky_relu(input, (lower + upper) / 2)
    if input.dtype is float16:
        raise NotImplementedError("\"rrelu_with_noise_out_cpu\" not implemented for 'Half'; convert it with .float()")
    return (IN_PLACE if inplace else F).mul(input, F.random_slopes(input.detach(), lower, upper))


@op(at=(), vjp=None, like="input")
def random_slopes(xp, input, lower, upper):
    """1 for positive elements, else uniform random numbers of [lower, upper)."""
    slopes, negative = xp.ones(input.shape, input.dtype), input <= 0
    drawn = doubles(xp, rng(xp), int(negative.sum()))  # none for the others
    slopes[negative] = (drawn * (upper - lower) + lower).astype(input.dtype)
    return slopes


@random_slopes.samples
def random_slopes_samples(make):
    yield make.args(make(2, 3, requires_grad=False), 0.1, 0.3)


relu_ = _in_place(relu, "relu_")
hardtanh_ = _in_place(hardtanh)
leaky_relu_ = _in_place(leaky_relu)
threshold_ = _in_place(threshold, "threshold_")
elu_ = _in_place(elu)
selu_ = _in_place(selu, "selu_")
celu_ = _in_place(celu, "celu_")
rrelu_ = _in_place(rrelu, "rrelu_")


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
