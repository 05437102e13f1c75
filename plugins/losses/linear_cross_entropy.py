"""Cross entropy of what a linear map makes of its input."""

from __future__ import annotations

from math import prod

import plugrad
from plugrad.extend import Module, Op, collect, composite, hookimpl


def _check(input, linear_weight, target, linear_bias, ignore_index, options):
    """Raise RuntimeError for shapes that do not fit, and TypeError for options of another class."""
    if options is not None and not isinstance(options, plugrad.nn.LinearCrossEntropyOptions):
        raise TypeError(f"options must be LinearCrossEntropyOptions or None, not {type(options).__name__}")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    if linear_weight.ndim > 2 and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got {tuple(input.shape)}"
        )
    if target.is_floating_point() and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    wanted = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != wanted:
        raise RuntimeError(f"expected linear_bias shape {wanted}, got {tuple(linear_bias.shape)}")


@composite(at=("nn.functional.linear_cross_entropy",))
def linear_cross_entropy(
    F, input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None,
    label_smoothing=0.0, options=None,
):  # fmt: skip
    """Cross entropy of the logits `input @ linear_weight.T + linear_bias`.

    Args:
        input: (N, features) or (features).
        linear_weight: (C, features), or (C, d1, ..., features) for a loss of several dimensions.
        target, weight, reduction, ignore_index, label_smoothing: as those of `cross_entropy`.
        linear_bias: (C), or (C, d1, ...).
        options: a LinearCrossEntropyOptions, how PyTorch divides the work; without effect, all logits are made at once.

    Raises `RuntimeError` for shapes that do not fit.

    >>> import plugrad as torch
    >>> torch.nn.functional.linear_cross_entropy(torch.ones(1, 2), torch.zeros(2, 2), torch.tensor([0]))
    tensor(0.6931)
    """
    _check(input, linear_weight, target, linear_bias, ignore_index, options)
    outputs, features = tuple(linear_weight.shape[:-1]), linear_weight.shape[-1]
    matrix = F.reshape(linear_weight, (prod(outputs), features))
    bias = linear_bias if linear_bias is None else F.reshape(linear_bias, (prod(outputs),))
    logits = F.linear(input, matrix, bias)
    if len(outputs) > 1:
        logits = F.reshape(logits, (input.shape[0], *outputs))
    return F.cross_entropy(
        logits, target, weight, ignore_index=-100 if ignore_index is None else ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip


@linear_cross_entropy.samples
def linear_cross_entropy_samples(make):
    yield make.args(make(3, 4), make(5, 4), make.ints(3, low=0, high=5), linear_bias=make(5))
    yield make.args(make(2, 4), make(3, 2, 4), make.ints(2, 2, low=0, high=3), reduction="sum")


@linear_cross_entropy.errors
def linear_cross_entropy_errors(make):
    yield RuntimeError, "dimensionality 1 or 2", make.args(make(2, 3, 3), make(2, 3), make.ints(2))
    yield RuntimeError, "last dimensions", make.args(make(2, 3), make(2, 4), make.ints(2))


class LinearCrossEntropyLoss(Module):
    """Cross entropy of the logits of a linear map; see `linear_cross_entropy`.

    Args:
        in_features: size of the input.
        num_classes: number of classes C.
        out_features: sizes (d1, ...) of a loss of several dimensions.
        bias: whether the linear map, the child `linear`, has a bias.
        weight: one factor per class, or None.
        reduction, ignore_index, label_smoothing, options: as those of the function.

    Raises `RuntimeError` for a `weight` of another shape, or a `label_smoothing` outside [0, 1].

    >>> import plugrad as torch
    >>> torch.nn.LinearCrossEntropyLoss(4, 3)(torch.ones(2, 4), torch.tensor([0, 2])).shape
    torch.Size([])
    """

    @staticmethod
    def samples(make):
        yield (4, 3), (make(2, 4), make.ints(2, low=0, high=3))
        yield make.args(4, 3, bias=True, label_smoothing=0.25), (make(2, 4), make.ints(2, low=0, high=3))

    def __init__(
        self, in_features, num_classes, *, out_features=(), bias=False, device=None, dtype=None, reduction="mean",
        weight=None, ignore_index=None, label_smoothing=0.0, options=None,
    ):  # fmt: skip
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.register_buffer("weight", weight)
        self.num_classes, self.out_features, self.reduction = num_classes, tuple(out_features), reduction
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        count = num_classes * prod(out_features)
        self.linear = plugrad.nn.Linear(in_features, count, bias=bias, device=device, dtype=dtype)

    def forward(self, input, target):
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return linear_cross_entropy.function(
            input, self.linear.weight.reshape(*shape, -1), target, weight=self.weight, reduction=self.reduction,
            linear_bias=bias if bias is None else bias.reshape(shape), ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self):
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


@hookimpl
def plugrad_ops():
    return collect(Op, globals())


@hookimpl
def plugrad_losses():
    return [LinearCrossEntropyLoss]
