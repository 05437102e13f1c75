"""Gradients of convolutions by hand: with respect to the input, and to the weight."""

from __future__ import annotations

from plugrad import autograd, enable_grad, is_grad_enabled
from plugrad.nn import functional

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradient(n, size, tensors, grad_output, options):
    """Return the gradient of an n-d convolution with respect to the one of (input, weight) that is None."""
    recorded = is_grad_enabled() and any(t is not None and t.requires_grad for t in (*tensors, grad_output))
    with enable_grad():
        wanted = grad_output.new_zeros(tuple(size)).requires_grad_()
        result = getattr(functional, f"conv{n}d")(*(wanted if t is None else t for t in tensors), None, *options)
        (gradient,) = autograd.grad(result, wanted, grad_output, create_graph=recorded)
    return gradient


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Return the gradient of conv1d with respect to its input.

    Args:
        input_size: the input's shape (N, C, L).
        weight: (out_channels, C / groups, kernel).
        grad_output: the gradient of the result.
        stride, padding, dilation, groups: as in conv1d.

    >>> import plugrad as torch
    >>> torch.nn.grad.conv1d_input((1, 1, 3), torch.ones(1, 1, 2), torch.ones(1, 1, 2))
    tensor([[[1., 2., 1.]]])
    """
    return _gradient(1, input_size, (None, weight), grad_output, (stride, padding, dilation, groups))


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Return the gradient of conv1d with respect to its weight.

    Args:
        input: (N, C, L).
        weight_size: the weight's shape (out_channels, C / groups, kernel).
        grad_output: the gradient of the result.
        stride, padding, dilation, groups: as in conv1d.

    >>> import plugrad as torch
    >>> torch.nn.grad.conv1d_weight(torch.tensor([[[1.0, 2.0, 3.0]]]), (1, 1, 2), torch.ones(1, 1, 2))
    tensor([[[3., 5.]]])
    """
    return _gradient(1, weight_size, (input, None), grad_output, (stride, padding, dilation, groups))


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Return the gradient of conv2d with respect to its input; see conv1d_input."""
    return _gradient(2, input_size, (None, weight), grad_output, (stride, padding, dilation, groups))


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Return the gradient of conv2d with respect to its weight; see conv1d_weight."""
    return _gradient(2, weight_size, (input, None), grad_output, (stride, padding, dilation, groups))


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Return the gradient of conv3d with respect to its input; see conv1d_input."""
    return _gradient(3, input_size, (None, weight), grad_output, (stride, padding, dilation, groups))


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Return the gradient of conv3d with respect to its weight; see conv1d_weight."""
    return _gradient(3, weight_size, (input, None), grad_output, (stride, padding, dilation, groups))
