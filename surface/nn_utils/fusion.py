"""Batch normalization, as it is in evaluation, merged into the layer before it."""

from __future__ import annotations

import copy

import plugrad
from plugrad.nn import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_eval(conv, bn, transpose: bool = False):
    """Return a convolution that does what `conv` and then `bn` do.

    Args:
        conv: a convolution, of any kind.
        bn: a BatchNorm with running statistics.
        transpose: whether `conv` is a transposed convolution.

    Raises AssertionError unless both are in evaluation mode and there are statistics.

    >>> import plugrad as torch
    >>> conv, bn = torch.nn.Conv2d(2, 3, 1).eval(), torch.nn.BatchNorm2d(3).eval()
    >>> x = torch.randn(1, 2, 4, 4)
    >>> torch.allclose(torch.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    fused = _copy(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose: bool = False):
    """Return weight and bias of a convolution merged with a BatchNorm.

    Args:
        conv_w: weight of the convolution.
        conv_b: its bias, or None.
        bn_rm: running mean.
        bn_rv: running variance.
        bn_eps: what is added to it.
        bn_w: weight of the BatchNorm, or None.
        bn_b: its bias, or None.
        transpose: whether the channels that come out are the weight's second dimension.
    """
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _merged(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear, bn):
    """Return a linear layer that does what `linear` and then `bn` do.

    Args:
        linear: a linear layer.
        bn: a BatchNorm with running statistics, of as many features as come out of `linear`, or of one.

    Raises AssertionError unless both are in evaluation mode, there are statistics and the features fit.
    """
    fused = _copy(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, "
            f"got linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Return weight and bias of a linear layer merged with a BatchNorm.

    The arguments are those of `fuse_conv_bn_weights`."""
    return _merged(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _copy(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval! Call eval() on both modules first")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return copy.deepcopy(layer)


def _merged(weight, bias, mean, variance, eps, scale, shift, shape) -> tuple:
    bias = plugrad.zeros_like(mean, dtype=weight.dtype) if bias is None else bias
    factor = plugrad.rsqrt(variance + eps)
    if scale is not None:
        factor = factor * scale
    merged = (bias - mean) * factor
    if shift is not None:
        merged = merged + shift
    return (
        Parameter((weight * factor.reshape(shape)).to(weight.dtype), weight.requires_grad),
        Parameter(merged.to(bias.dtype), bias.requires_grad),
    )
