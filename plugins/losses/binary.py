"""Losses of yes-or-no answers, one or many for each sample."""

from __future__ import annotations

import math

from plugrad import is_grad_enabled, promote_types
from plugrad.extend import Op, collect, composite, hookimpl, legacy_reduction, loss, native, op, refuse_where

from ._pairs_on_cuda import on_cuda
from ._reduce import check_reduction, each, reduce_values, reduced, reduced_shape, refuse_derived, refuse_integers


def _times(value, factor):
    return value if factor is None else value * factor


def _other_dtype(input, target):
    text = f"Found dtype {target.dtype} but expected {input.dtype}; convert with target.to(input.dtype)"
    return RuntimeError(text)


# ---------------------------------------------------------------- from probabilities


@op(at=(), node="BinaryCrossEntropyBackward0")
def bce(xp, input, target, weight, reduction):
    """Binary cross entropy of probabilities, reduced."""
    refuse_integers("binary_cross_entropy", input)
    for name, values in {"input": input, "target": target}.items():
        text = f"all elements of {name} should be between 0 and 1"
        refuse_where(xp, ~((values >= 0) & (values <= 1)), lambda text=text: RuntimeError(text))
    # PyTorch bounds the logarithms, so that a confident wrong answer costs much but not infinitely much.
    yes, no = xp.maximum(xp.log(input), -100), xp.maximum(xp.log1p(-input), -100)
    return reduced(xp, _times((target - 1) * no - target * yes, weight), reduction, input.dtype)


@bce.vjp("input")
def bce_vjp_input(F, g, input, target, weight, reduction):
    slope = (input - target) / F.clamp_min((1 - input) * input, 1e-12)
    return _times(slope, weight) * each(g, reduction, input.shape)


@bce.vjp("target")
def bce_vjp_target(F, g, input, weight, reduction):
    slope = F.log1p(-input) - F.log(input)
    return _times(slope, weight) * each(g, reduction, input.shape)


@bce.meta
def bce_meta(input, target, weight, reduction):
    return reduced_shape(input.shape, reduction), input.dtype


@bce.samples
def bce_samples(make):
    yield make(3, 4, low=0.1, high=0.9), make(3, 4, low=0.1, high=0.9), None, "mean"


def _unsafe(*values):
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: probabilities near 0 or "
        "1 are lost in float16. Where a sigmoid stands before the loss, write "
        "torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss in place of both."
    )


@loss(module="BCELoss", buffers=("weight",))
@composite(at=("nn.functional.binary_cross_entropy",), autocast={"cpu": "float32", "cuda": _unsafe})
def binary_cross_entropy(F, input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Cross entropy of probabilities with yes-or-no targets.

    Args:
        input: probabilities.
        target: what they should be, of the same shape and dtype.
        weight: factor of each element; broadcasts.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    Errors: `RuntimeError` for probabilities or targets outside of [0, 1], and for a target of another dtype;
    `ValueError` for different shapes.

    >>> import plugrad as torch
    >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.]))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    if input.dtype is not target.dtype:
        raise _other_dtype(input, target)
    refuse_derived("binary_cross_entropy", "weight", weight)
    if weight is not None and weight.shape != input.shape:
        weight = F.expand(weight, input.shape)
    return F.bce(input, target, weight, reduction)


@binary_cross_entropy.samples
def binary_cross_entropy_samples(make):
    yield make(3, 4, low=0.1, high=0.9), make(3, 4, low=0, high=1)
    yield make.args(make(3, 4, low=0.1, high=0.9), make(3, 4, low=0, high=1), weight=make(4, requires_grad=False))


# ---------------------------------------------------------------- from logits


@op(at=(), node="BinaryCrossEntropyWithLogitsBackward0")
def bce_logits(xp, input, target, weight, pos_weight, reduction):
    """Binary cross entropy of logits, reduced."""
    refuse_integers("binary_cross_entropy_with_logits", input)
    tail = xp.log1p(xp.exp(-xp.abs(input))) - xp.minimum(input, 0)
    values = (1 - target) * input + (tail if pos_weight is None else ((pos_weight - 1) * target + 1) * tail)
    return reduced(xp, _times(values, weight), reduction, input.dtype)


@bce_logits.vjp("input")
def bce_logits_vjp_input(F, g, input, target, weight, pos_weight, reduction):
    probability = F.sigmoid(input)
    if pos_weight is None:
        slope = probability - target
    else:
        slope = 1 - target - ((pos_weight - 1) * target + 1) * (1 - probability)
    return _times(slope, weight) * each(g, reduction, input.shape)


@bce_logits.vjp("target")
def bce_logits_vjp_target(F, g, input, weight, pos_weight, reduction):
    slope = -input if pos_weight is None else -input - (pos_weight - 1) * F.logsigmoid(input)
    return _times(slope, weight) * each(g, reduction, input.shape)


on_cuda(bce_logits)


@bce_logits.meta
def bce_logits_meta(input, target, weight, pos_weight, reduction):
    return reduced_shape(input.shape, reduction), input.dtype


@bce_logits.samples
def bce_logits_samples(make):
    yield make(3, 4), make(3, 4, low=0, high=1), None, None, "mean"
    weights = make(4, requires_grad=False), make(4, requires_grad=False)  # constants, in PyTorch too
    yield make(3, 4), make(3, 4, low=0, high=1), *weights, "none"


@loss(module="BCEWithLogitsLoss", buffers=("weight", "pos_weight"))
@composite(
    at=("nn.functional.binary_cross_entropy_with_logits",), autocast="float32",
    kinds={"weight": "tensor?", "pos_weight": "tensor?"},
)  # fmt: skip
def binary_cross_entropy_with_logits(
    F, input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None,
):  # fmt: skip
    """Cross entropy of `sigmoid(input)` with yes-or-no targets, without overflow.

    Args:
        input: logits.
        target: probabilities, of the same shape.
        weight: factor of each element; broadcasts.
        pos_weight: factor of the positive answers; broadcasts.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    Errors: `ValueError` for different shapes.

    >>> import plugrad as torch
    >>> torch.nn.functional.binary_cross_entropy_with_logits(torch.tensor([0.]), torch.tensor([1.]))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if input.dtype is not target.dtype and not target.dtype.is_floating_point:
        raise _other_dtype(input, target)
    if not (input.is_floating_point() or input.is_complex()):
        raise NotImplementedError(f'"log_sigmoid_cpu" not implemented for {input.dtype}; convert it with .float()')
    for argument, factor in (("weight", weight), ("pos_weight", pos_weight)):
        refuse_derived("binary_cross_entropy_with_logits", argument, factor)
        if factor is not None and factor.is_complex() and not input.is_complex():
            raise RuntimeError(f"result type {factor.dtype} can't be cast to the desired output type {input.dtype}")
    if pos_weight is not None and str(pos_weight.dtype) == "torch.bool":
        raise RuntimeError("Subtraction, the `-` operator, with a bool pos_weight is not supported; write .float()")
    if target.dtype is not input.dtype and target.is_floating_point():
        common, result = promote_types(input.dtype, target.dtype), target.dtype
        input, target = input.to(common), target.to(common)
        return F.bce_logits(input, target, weight, pos_weight, reduction).to(result)
    return F.bce_logits(input, target, weight, pos_weight, reduction)


@binary_cross_entropy_with_logits.samples
def binary_cross_entropy_with_logits_samples(make):
    yield make(3, 4), make(3, 4, low=0, high=1)
    yield make.args(make(3, 4), make(3, 4, low=0, high=1), pos_weight=make(4, low=1, high=2, requires_grad=False))


# ---------------------------------------------------------------- margins of signs


@op(at=(), node="SoftMarginLossBackward0")
def soft_margin(xp, input, target, reduction):
    """`log(1 + exp(-target * input))`, reduced."""
    refuse_integers("soft_margin_loss", input)
    return reduced(xp, xp.logaddexp(input.dtype.type(0), -target * input), reduction, input.dtype)


@soft_margin.kernel("cpu")
@native("softplus", otherwise=soft_margin)
def soft_margin_in_c(call, xp, input, target, reduction):
    losses = call(-target * input, 1.0, math.inf) if input.dtype.kind == "f" else NotImplemented
    return losses if losses is NotImplemented else reduced(xp, losses, reduction, input.dtype)


@soft_margin.vjp("input")
def soft_margin_vjp_input(F, g, input, target, reduction):
    return -target * F.sigmoid(-target * input) * each(g, reduction, input.shape)


@soft_margin.vjp("target")
def soft_margin_vjp_target(F, g, input, target, reduction):
    return -input * F.sigmoid(-target * input) * each(g, reduction, input.shape)


@soft_margin.meta
def soft_margin_meta(input, target, reduction):
    return reduced_shape(input.shape, reduction), input.dtype


@soft_margin.samples
def soft_margin_samples(make):
    yield make(3, 4), make(3, 4), "mean"


@loss(module="SoftMarginLoss")
@composite(at=("nn.functional.soft_margin_loss",), autocast="float32")
def soft_margin_loss(F, input, target, size_average=None, reduce=None, reduction="mean"):
    """Logistic loss `log(1 + exp(-target * input))` with targets 1 and -1.

    Args:
        input: scores.
        target: 1 or -1, of the same shape.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    >>> import plugrad as torch
    >>> torch.nn.functional.soft_margin_loss(torch.tensor([0.]), torch.tensor([1.]))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if target.requires_grad and is_grad_enabled():
        raise RuntimeError("soft_margin_loss is not differentiable with respect to argument 'target': detach it")
    if input.shape != target.shape:
        shape = input.shape
        input, target = F.broadcast_tensors(input, target)
        if input.shape != shape:
            raise RuntimeError(
                f"output with shape {list(shape)} doesn't match the broadcast shape {list(input.shape)}: the target "
                "has more elements than the input"
            )
    return F.soft_margin(input, target.to(input.dtype), reduction)


@soft_margin_loss.samples
def soft_margin_loss_samples(make):
    yield make(3, 4), make.bool(3, 4).double() * 2 - 1


@loss(module="MultiLabelSoftMarginLoss", buffers=("weight",))
@composite(at=("nn.functional.multilabel_soft_margin_loss",))
def multilabel_soft_margin_loss(F, input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Binary cross entropy of logits, averaged over the classes of each sample.

    Args:
        input: logits, classes in the last dimension.
        target: 0 or 1, of the same shape.
        weight: factor of each class.
        reduction: "none", "mean" or "sum", over samples.
        size_average, reduce: what this was before; deprecated.

    >>> import plugrad as torch
    >>> torch.nn.functional.multilabel_soft_margin_loss(torch.tensor([[0., 0.]]), torch.tensor([[0., 1.]]))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    values = -(target * F.logsigmoid(input) + (1 - target) * F.logsigmoid(-input))
    values = F.sum(_times(values, weight), input.ndim - 1) / input.shape[-1]
    return reduce_values(F, values, reduction)


@multilabel_soft_margin_loss.samples
def multilabel_soft_margin_loss_samples(make):
    yield make(3, 4), make.bool(3, 4).double()


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
