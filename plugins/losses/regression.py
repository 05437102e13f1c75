"""Losses between numbers: squared, absolute and in between, and likelihoods of measured values."""

from __future__ import annotations

import math
import numbers

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, is_integral, legacy_reduction, loss, native, op

from ._pairs_on_cuda import on_cuda
from ._reduce import (
    check_reduction,
    each,
    paired,
    reduce_values,
    reduced,
    reduced_shape,
    refuse_far,
    refuse_integers,
)


def _weighted(F, values, weight, reduction, by_weight):
    if values.shape != weight.shape:
        raise ValueError("Weights and input must have the same size.")
    values = F.mul(values, weight)
    if by_weight and reduction == "mean":
        return F.div(F.sum(values), F.sum(weight))
    return reduce_values(F, values, reduction)


# ---------------------------------------------------------------- squared


@op(at=(), node="MseLossBackward0")
def mse(xp, input, target, reduction):
    """Squared differences of two arrays of one shape, reduced."""
    refuse_integers("mse_cpu", input)
    difference = xp.subtract(input, target)
    if reduction == "none" or difference.dtype.itemsize == 2:
        return reduced(xp, difference * difference, reduction, input.dtype)
    total = xp.vdot(difference, difference)
    if reduction == "sum":
        return total
    return total / difference.size if difference.size else total * math.nan


@mse.vjp("input")
def mse_vjp_input(F, g, input, target, reduction):
    return (input - target) * (each(g, reduction, input.shape) * 2)


@mse.vjp("target")
def mse_vjp_target(F, g, input, target, reduction):
    return (target - input) * (each(g, reduction, input.shape) * 2)


on_cuda(mse)


@mse.meta
def mse_meta(input, target, reduction):
    return reduced_shape(input.shape, reduction), input.dtype


@mse.samples
def mse_samples(make):
    for reduction in ("none", "mean", "sum"):
        yield make(3, 4), make(3, 4), reduction


@loss(module="MSELoss")
@composite(at=("nn.functional.mse_loss",), autocast="float32")
def mse_loss(F, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Mean squared error between two tensors.

    Args:
        input, target: float tensors of one shape.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.
        weight: factor of each element; the mean is then weighted, too.

    Errors: `ValueError` for another reduction.

    >>> import plugrad as torch
    >>> torch.nn.functional.mse_loss(torch.tensor([1., 2.]), torch.tensor([1., 4.]))
    tensor(2.)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if input.shape != target.shape or input.dtype is not target.dtype:
        input, target = paired(F, input, target)
    if weight is not None:
        return _weighted(F, F.mse(input, target, "none"), weight, reduction, True)
    return F.mse(input, target, reduction)


@mse_loss.samples
def pair_samples(make):
    yield make(3, 4), make(3, 4)
    yield make.args(make(3, 4), make(3, 4), reduction="none")


# ---------------------------------------------------------------- absolute


@op(
    at=(), node={"AbsBackward0": "reduction == 'none'", "SumBackward0": "reduction == 'sum'",
                 "MeanBackward0": "reduction == 'mean'"},
)  # fmt: skip
def l1(xp, difference, reduction):
    """Absolute values of a difference, reduced.

    Backward needs no more, so that the tensors whose difference it is may be written.
    """
    if is_integral(difference.dtype):
        refuse_integers("l1_cpu", difference)
    values = xp.abs(difference)
    return reduced(xp, values, reduction, values.dtype)


@l1.vjp
def l1_vjp(F, g, difference, reduction):
    return F.sgn(difference) * each(g, reduction, difference.shape)


@l1.meta
def l1_meta(difference, reduction):
    real = {"complex64": "float32", "complex128": "float64"}
    return reduced_shape(difference.shape, reduction), real.get(str(difference.dtype), difference.dtype)


@l1.samples
def l1_samples(make):
    yield make(3, 4), "mean"


@loss(module="L1Loss")
@composite(at=("nn.functional.l1_loss",), autocast="float32")
def l1_loss(F, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Mean absolute error between two tensors.

    Args:
        input, target: float or complex tensors of one shape.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.
        weight: factor of each element; the mean is then weighted, too.

    >>> import plugrad as torch
    >>> torch.nn.functional.l1_loss(torch.tensor([1., 2.]), torch.tensor([1., 4.]))
    tensor(1.)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if input.shape != target.shape or input.dtype is not target.dtype:
        if plugrad.bool in (input.dtype, target.dtype):
            return F.sub(input, target)  # which refuses them
        input, target = paired(F, input, target)
    if weight is not None:
        return _weighted(F, F.l1(F.sub(input, target), "none"), weight, reduction, True)
    return F.l1(F.sub(input, target), reduction)


l1_loss.samples(pair_samples)


# ---------------------------------------------------------------- in between


@op(at=(), node={"HuberLossBackward0": "not smooth", "SmoothL1LossBackward0": "smooth"})
def huber(xp, input, target, reduction, delta, smooth):
    """Huber's function of the differences, reduced; `smooth` divides it by `delta`."""
    refuse_integers("huber_cpu", input)
    difference = xp.subtract(input, target)
    # With c the difference clipped to +-delta, c * (d - c / 2) is d^2 / 2 inside and delta * (|d| - delta / 2) outside.
    clipped = xp.minimum(xp.maximum(difference, -delta), delta)
    values = clipped * (difference - clipped * 0.5)
    return reduced(xp, values * (1 / delta) if smooth else values, reduction, input.dtype)


@huber.kernel("cpu")
@native("huber", otherwise=huber)
def huber_in_c(call, xp, input, target, reduction, delta, smooth):
    values = call(input, target, delta, 1 / delta if smooth else 1.0) if input.shape == target.shape else NotImplemented
    return values if values is NotImplemented else reduced(xp, values, reduction, input.dtype)


@huber.vjp("input")
def huber_vjp_input(F, g, input, target, reduction, delta, smooth):
    return F.clamp(input - target, -delta, delta) * (each(g, reduction, input.shape) * (1 / delta if smooth else 1.0))


@huber.vjp("target")
def huber_vjp_target(F, g, input, target, reduction, delta, smooth):
    return F.clamp(target - input, -delta, delta) * (each(g, reduction, input.shape) * (1 / delta if smooth else 1.0))


@huber.meta
def huber_meta(input, target, reduction, delta, smooth):
    return reduced_shape(input.shape, reduction), input.dtype


@huber.samples
def huber_samples(make):
    yield make(3, 4), make(3, 4), "mean", 0.7, False


@loss(module="HuberLoss")
@composite(at=("nn.functional.huber_loss",), autocast="float32")
def huber_loss(F, input, target, reduction="mean", delta=1.0, weight=None):
    """Squared error near zero, absolute beyond `delta` (Huber 1964).

    Args:
        input, target: float tensors of one shape.
        reduction: "none", "mean" or "sum".
        delta: positive number where the parabola goes over into straight lines.
        weight: factor of each element.

    Errors: `RuntimeError` when `delta` is not positive.

    >>> import plugrad as torch
    >>> torch.nn.functional.huber_loss(torch.tensor([0., 0.]), torch.tensor([0.5, 4.]), reduction="none")
    tensor([0.1250, 3.5000])
    """
    check_reduction(reduction)
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if input.shape != target.shape or input.dtype is not target.dtype:
        if target.dtype.is_floating_point and not input.dtype.is_floating_point:
            raise RuntimeError(f"result type {target.dtype} can't be cast to the desired output type {input.dtype}")
        dtype = input.dtype  # that of the result, whatever the target's
        input, target = paired(F, input, target)
        input, target = input.to(dtype), target.to(dtype)
    if weight is not None:
        return _weighted(F, F.huber(input, target, "none", delta, False), weight, reduction, False)
    return F.huber(input, target, reduction, delta, False)


@loss(module="SmoothL1Loss")
@composite(at=("nn.functional.smooth_l1_loss",), kinds={"beta": "float"}, autocast="float32")
def smooth_l1_loss(F, input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Absolute error, with a parabola within `beta` of zero.

    Args:
        input, target: float tensors of one shape.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.
        beta: where the parabola ends; zero gives `l1_loss`.

    Errors: `RuntimeError` for a negative `beta`.

    >>> import plugrad as torch
    >>> torch.nn.functional.smooth_l1_loss(torch.tensor([0., 0.]), torch.tensor([0.5, 4.]), reduction="none")
    tensor([0.1250, 3.5000])
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if input.shape != target.shape or input.dtype is not target.dtype:
        input, target = paired(F, input, target)
    if beta == 0:
        return F.l1(F.sub(input, target), reduction)
    return F.huber(input, target, reduction, beta, True)


huber_loss.samples(pair_samples)
smooth_l1_loss.samples(pair_samples)


# ---------------------------------------------------------------- likelihoods


@loss(module="PoissonNLLLoss")
@composite(at=("nn.functional.poisson_nll_loss",), kinds={"target": "tensor"}, autocast="float32")
def poisson_nll_loss(
    F, input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean",
):  # fmt: skip
    """Negative log likelihood of counts that follow Poisson's distribution.

    Args:
        input: logarithm of the expected counts, or the counts themselves when `log_input` is False.
        target: observed counts.
        full: whether to add Stirling's approximation of `log(target!)`.
        eps: added to `input` before its logarithm is taken.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    >>> import plugrad as torch
    >>> torch.nn.functional.poisson_nll_loss(torch.tensor([0.]), torch.tensor([3.]))
    tensor(1.)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if log_input:
        values = F.exp(input) - target * input
    else:
        values = input - target * F.log(input + eps)
    if full:
        many = target > 1
        safe = F.where(many, target, 1)
        values = values + F.where(many, safe * F.log(safe) - safe + 0.5 * F.log(2 * math.pi * safe), 0)
    return reduce_values(F, values, reduction)


@poisson_nll_loss.samples
def poisson_nll_loss_samples(make):
    yield make(3, 4), make(3, 4, low=0, high=3)
    yield make.args(make(3, 4, low=0.5, high=2), make(3, 4, low=1.5, high=3), log_input=False, full=True)


@loss(module="GaussianNLLLoss", forward=("input", "target", "var"))
@composite(at=("nn.functional.gaussian_nll_loss",), kinds={"var": "tensor|float"})
def gaussian_nll_loss(F, input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood of values that follow normal distributions.

    Args:
        input: expected values.
        target: observed values.
        var: variances: a number, or a tensor with the shape of `input` (its last dimension may be 1 or missing).
        full: whether to add the constant `log(2 pi) / 2`.
        eps: least variance; clamping to it does not change gradients.
        reduction: "none", "mean" or "sum".

    Errors: `ValueError` for negative variances or a wrong shape (Nix and Weigend 1994).

    >>> import plugrad as torch
    >>> torch.nn.functional.gaussian_nll_loss(torch.tensor([1.]), torch.tensor([3.]), torch.tensor([4.]))
    tensor(1.1931)
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    if isinstance(var, numbers.Real):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = F.ones_like(input) * float(var)
    elif not var.is_floating_point():
        raise RuntimeError(f"result type Float can't be cast to the desired output type {var.dtype}: var is no float")
    elif not var.is_meta and bool(F.any(var < 0)):
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = F.unsqueeze(var, -1)
        elif input.shape[:-1] != var.shape[:-1] or var.shape[-1] != 1:
            if not _broadcasts_to(var.shape, input.shape):
                raise ValueError("var is of incorrect size")
    refuse_far(F, eps, var)
    with plugrad.no_grad():
        raised = F.where(var < eps, eps - var, 0)
    var = var + raised
    difference = input - target
    values = (F.log(var) + difference * difference / var) * 0.5
    if full:
        values = values + 0.5 * math.log(2 * math.pi)
    return reduce_values(F, values, reduction)


@gaussian_nll_loss.samples
def gaussian_nll_loss_samples(make):
    yield make(3, 4), make(3, 4), make(3, 4, low=0.5, high=2)
    yield make.args(make(3, 4), make(3, 4), make(3, low=0.5, high=2), full=True)


def _broadcasts_to(shape, target) -> bool:
    return len(shape) == len(target) and all(a == b or a == 1 for a, b in zip(shape, target, strict=True))


@loss(module="KLDivLoss")
@composite(at=("nn.functional.kl_div",), autocast="float32")
def kl_div(F, input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """Kullback-Leibler divergence of distributions given as log probabilities.

    Args:
        input: log probabilities.
        target: probabilities, or their logarithms when `log_target` is True.
        reduction: "none", "sum", "mean" (over all elements) or "batchmean" (the sum over the number of rows, which
            is the divergence as mathematics defines it).
        size_average, reduce: what this was before; deprecated.

    >>> import plugrad as torch
    >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]])
    >>> torch.nn.functional.kl_div(q.log(), p, reduction="batchmean")
    tensor(0.5108)
    """
    if not input.is_floating_point() or target.is_complex():
        kind = "Complex" if input.is_complex() or target.is_complex() else "Integral"
        raise RuntimeError(f"kl_div: {kind} inputs not supported; convert them with .float()")
    per_row = input.shape[0] if reduction == "batchmean" and input.ndim else 1
    if reduction == "batchmean":
        reduction = "sum"
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    if log_target:
        values = F.exp(target) * (target - input)
    else:
        values = F.xlogy(target, target) - target * input
    result = reduce_values(F, values, reduction)
    return result if per_row == 1 else result / per_row


@kl_div.samples
def kl_div_samples(make):
    yield make.args(make(3, 4), make(3, 4, low=0.1, high=1), reduction="batchmean")
    yield make.args(make(3, 4), make(3, 4), log_target=True)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
