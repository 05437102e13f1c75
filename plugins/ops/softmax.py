"""Softmax and its relatives."""

from __future__ import annotations

import functools
import pathlib

import plugrad
from plugrad.extend import (
    Op,
    axes,
    collect,
    complement,
    composite,
    hookimpl,
    is_floating,
    is_single_or_double,
    load_inline,
    native,
    op,
)

from ._checks import NOT_FLOATING, refuse
from ._draws import exponential_array

_on_cuda = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_suffix(".cu"), like=0, per="rows",
    types="floating",
)  # fmt: skip


def _prepare(name, input, dim, dtype):
    """The input in the dtype to compute with, the dtype of the result, and the non-negative axis."""
    axis = axes(dim, input.ndim)
    if dtype is None and is_single_or_double(input.dtype) and input.ndim:
        return input, input.dtype, axis
    result = input.dtype if dtype is None else dtype
    if not is_floating(result):
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{result}': give a floating point dtype=, or convert with .float()"
        )
    compute = result
    if result.itemsize == 2:
        compute = "float32"
    if input.dtype != compute:
        input = input.real if input.dtype.kind == "c" else input
        input = input.astype(compute)
    return (input if input.ndim else input.reshape(1)), result, axis


def _finish(values, like, dtype):
    values = values if like.ndim else values.reshape(())
    return values if values.dtype is dtype or values.dtype == dtype else values.astype(dtype)


def _shift(values, axis):
    """Subtract the maximum, so that no exponential overflows."""
    return values - values.max(axis, None, True) if values.size else values.copy()


@op(aliases=("special.softmax",), any_order="rows", autocast={"cuda": "set_dtype"})
def softmax(xp, input, dim, dtype=None):
    """Exponentials, divided by their sum along `dim`.

    `dtype` converts the input first. Raises IndexError when `dim` is out of range, NotImplementedError for
    integers without a `dtype`.

    >>> import plugrad as torch
    >>> torch.softmax(torch.tensor([0., 0.]), dim=0)
    tensor([0.5000, 0.5000])
    """
    values, dtype, axis = _prepare("softmax", input, dim, dtype)
    values = _shift(values, axis)
    xp.exp(values, values)
    values /= values.sum(axis, None, None, True)
    return _finish(values, input, dtype)


@softmax.kernel("cpu")
def softmax_on_cpu(xp, input, dim, dtype=None):
    """The same; where no exponential can overflow nothing needs to be subtracted, and that is cheap to find out."""
    if dtype is None and is_single_or_double(input.dtype) and input.ndim and input.size:
        if input.item(input.argmax()) < 40 and input.item(input.argmin()) > -40:
            values = xp.exp(input)
            values /= values.sum(axes(dim, input.ndim), None, None, True)
            return values
    return softmax.kernels["*"](xp, input, dim, dtype)


def _along(call, xp, input, dim, dtype=None):
    return call(input, dim) if dtype is None else NotImplemented


def _along_grad(call, xp, g, y, dim):
    return call(g, y, dim)


def _rows(call, xp, input, dim, dtype=None):
    return call(input) if dtype is None and _is_last(dim, input.ndim) else NotImplemented


def _rows_grad(call, xp, g, y, dim):
    return call(g, y) if _is_last(dim, y.ndim) else NotImplemented


softmax.kernel("cpu")(native("softmax", otherwise=softmax, widens=True)(_along))
softmax.kernel("cuda")(native(_on_cuda(name="softmax", arrays=1), otherwise=softmax)(_rows))


def _is_last(dim, ndim):
    return dim == ndim - 1 or dim == -1


def _same_shape(input, dim, dtype=None):
    axes(dim, input.ndim)
    return input.shape, input.dtype if dtype is None else dtype


@softmax.meta
def softmax_meta(input, dim, dtype=None):
    return _same_shape(input, dim, dtype)


@softmax.vjp
def softmax_vjp(F, g, y, dim):
    if y.dtype.itemsize == 2:
        return _in_single(F, softmax_vjp, g, y, dim)
    product = g * y
    return product - y * F.sum(product, dim, True)


softmax.vjp_kernel("cpu")(native("softmax_grad")(_along_grad))
softmax.vjp_kernel("cuda")(native(_on_cuda(name="softmax_grad", arrays=2))(_rows_grad))


def _in_single(F, formula, g, y, dim):
    """Carry out a formula of half precision in float32."""
    return F.to_copy(formula(F, F.to_copy(g, _SINGLE), F.to_copy(y, _SINGLE), dim), y.dtype)


_SINGLE = plugrad.float32.numpy


@softmax.samples
def softmax_samples(make):
    yield make.args(make(3, 4), 1)
    yield make.args(make(2, 3, low=-800, high=800), 0)


@op(aliases=("special.log_softmax",), any_order="rows", autocast={"cuda": "set_dtype"})
def log_softmax(xp, input, dim, dtype=None):
    """The logarithm of `softmax`, computed without loss: input - log(sum(exp(input))).

    Arguments and errors as for `softmax`.

    >>> import plugrad as torch
    >>> torch.log_softmax(torch.tensor([0., 0.]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    values, dtype, axis = _prepare("log_softmax", input, dim, dtype)
    values = _shift(values, axis)
    values -= xp.log(xp.exp(values).sum(axis, None, None, True))
    return _finish(values, input, dtype)


log_softmax.kernel("cpu")(native("log_softmax", otherwise=log_softmax, widens=True)(_along))
log_softmax.kernel("cuda")(native(_on_cuda(name="log_softmax", arrays=1), otherwise=log_softmax)(_rows))


@log_softmax.meta
def log_softmax_meta(input, dim, dtype=None):
    return _same_shape(input, dim, dtype)


@log_softmax.vjp
def log_softmax_vjp(F, g, y, dim):
    if y.dtype.itemsize == 2:
        return _in_single(F, log_softmax_vjp, g, y, dim)
    return g - F.exp(y) * F.sum(g, dim, True)


log_softmax.vjp_kernel("cpu")(native("log_softmax_grad")(_along_grad))
log_softmax.vjp_kernel("cuda")(native(_on_cuda(name="log_softmax_grad", arrays=2))(_rows_grad))


@log_softmax.samples
def log_softmax_samples(make):
    yield make.args(make(3, 4), 1)
    yield make.args(make(2, 3, low=-800, high=800), 0)


@op(at=(), node="SoftmaxBackward0", any_order=True)
def safe_softmax(xp, input, dim, dtype=None):
    """Softmax that is 0, not nan, along lines where everything is minus infinity."""
    values = softmax.kernels["*"](xp, input, dim, dtype)
    nothing = (input == -float("inf")).all(dim, keepdims=True)
    return xp.where(nothing, xp.zeros((), values.dtype), values)


safe_softmax.kernel("cpu")(native("safe_softmax", otherwise=safe_softmax, widens=True)(_rows))
safe_softmax.kernel("cuda")(native(_on_cuda(name="safe_softmax", arrays=1), otherwise=safe_softmax)(_rows))


@safe_softmax.meta
def safe_softmax_meta(input, dim, dtype=None):
    return _same_shape(input, dim, dtype)


safe_softmax.vjp(softmax_vjp)
safe_softmax.vjp_kernel("cpu")(native("softmax_grad")(_along_grad))
safe_softmax.vjp_kernel("cuda")(native(_on_cuda(name="softmax_grad", arrays=2))(_rows_grad))


def _implicit_dim(name, ndim):
    """The dimension that PyTorch's early versions took when none was given."""
    import warnings

    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=5,
    )
    return 0 if ndim in (0, 1, 3) else 1


@composite(at=("nn.functional.softmax",))
def functional_softmax(F, input, dim=None, _stacklevel=3, dtype=None):
    """Exponentials, divided by their sum along `dim`.

    `dtype` converts the input first. Raises IndexError when `dim` is out of range.

    >>> import plugrad as torch
    >>> torch.nn.functional.softmax(torch.tensor([[0., 0.]]), dim=1)
    tensor([[0.5000, 0.5000]])
    """
    return F.softmax(input, _implicit_dim("softmax", input.ndim) if dim is None else dim, dtype)


@composite(at=("nn.functional.log_softmax",))
def functional_log_softmax(F, input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of softmax along `dim`, computed without loss.

    `dtype` converts the input first. Raises IndexError when `dim` is out of range.

    >>> import plugrad as torch
    >>> torch.nn.functional.log_softmax(torch.tensor([[0., 0.]]), dim=1)
    tensor([[-0.6931, -0.6931]])
    """
    return F.log_softmax(input, _implicit_dim("log_softmax", input.ndim) if dim is None else dim, dtype)


@safe_softmax.samples
@functional_softmax.samples
@functional_log_softmax.samples
def functional_samples(make):
    yield make(3, 4), 1
    yield make(2, 3, 4), 0


@composite(at=("nn.functional.softmin",))
def softmin(F, input, dim=None, _stacklevel=3, dtype=None):
    """Softmax of the negative: small values get large shares.

    >>> import plugrad as torch
    >>> torch.nn.functional.softmin(torch.tensor([0., 1.]), dim=0)
    tensor([0.7311, 0.2689])
    """
    return F.softmax(-input, _implicit_dim("softmin", input.ndim) if dim is None else dim, dtype)


softmin.samples(functional_samples)


@op(at=(), vjp=None, like="input")
def gumbel_noise(xp, input):
    """Gumbel distributed noise in the shape of `input`."""
    return -xp.log(exponential_array(xp, input.shape, input.dtype, None))


@gumbel_noise.samples
def gumbel_noise_samples(make):
    yield make(3, 4, requires_grad=False)


@composite(at=("nn.functional.gumbel_softmax",), kinds={"tau": "number"})
def gumbel_softmax(F, logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Sample from the Gumbel-softmax distribution with temperature `tau`.

    With `hard` the sample is one-hot, and the gradient that of the soft sample. `eps` has no effect. E. Jang,
    S. Gu, B. Poole, arXiv:1611.01144; C. Maddison, A. Mnih, Y. W. Teh, arXiv:1611.00712.

    >>> import plugrad as torch
    >>> torch.nn.functional.gumbel_softmax(torch.zeros(2, 3), hard=True).sum(1)
    tensor([1., 1.])
    """
    if not logits.dtype.is_floating_point:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you "
            f"specified {logits.dtype}: convert the logits with .float()"
        )
    soft = F.softmax((logits + F.gumbel_noise(logits)) / tau, dim)
    if not hard:
        return soft
    winner = soft.detach()
    index = F.argmax(winner, dim, True)
    chosen = F.scatter(F.zeros_like(winner), dim, index, 1.0)
    return chosen - winner + soft


@gumbel_softmax.samples
def gumbel_softmax_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), tau=2.0, dim=0)


def _halves(input, dim):
    """Return the axis of a gated unit and the size of its halves; RuntimeError where there are none."""
    if len(input.shape) == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    axis = axes(dim, len(input.shape))
    size = input.shape[axis]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    return axis, size // 2


@op(at=("nn.functional.glu",))
def glu(xp, input, dim=-1):
    """Gated linear unit: one half of the input times the sigmoid of the other.

    Halves are along `dim`. Raises RuntimeError when the size along `dim` is odd. Y. Dauphin et al.,
    arXiv:1612.08083.

    >>> import plugrad as torch
    >>> torch.nn.functional.glu(torch.tensor([2., 0.]))
    tensor([1.])
    """
    refuse(NOT_FLOATING, "glu_cpu", input)
    axis, half = _halves(input, dim)
    lead = (slice(None),) * axis
    gate = xp.exp(-input[(*lead, slice(half, None))])
    gate += 1
    result = input[(*lead, slice(half))] / gate
    return result if result.dtype == input.dtype else result.astype(input.dtype)


@glu.kernel("cpu")
@native("glu", otherwise=glu)
def glu_in_c(call, xp, input, dim=-1):
    axis, half = _halves(input, dim)
    result = xp.empty((*input.shape[:axis], half, *input.shape[axis + 1 :]), input.dtype)
    return result if call(input, result, axis) is None else NotImplemented


@glu.meta
def glu_meta(input, dim=-1):
    axis, half = _halves(input, dim)
    return (*input.shape[:axis], half, *input.shape[axis + 1 :]), input.dtype


@glu.vjp
def glu_vjp(F, g, input, dim):
    axis, half = _halves(input, dim)
    value, gate = F.narrow(input, axis, 0, half), F.sigmoid(F.narrow(input, axis, half, half))
    return F.cat([g * gate, g * value * (gate * complement(F, gate))], axis)


@glu.samples
def glu_samples(make):
    yield make(3, 4)
    yield make(4, 3), 0


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
