"""Normalizations that also return the statistics they used: the names under which PyTorch's own layers call them."""

from __future__ import annotations

from plugrad.extend import Op, collect, composite, hookimpl

from .norm import _affine, _channels, _check_normalized, _not_for


def _with_statistics(F, result, mean, variance, eps, shape):
    """The triple (result, mean, 1 / root of the variance), whose statistics have `shape`."""
    return result, F.reshape(mean, shape), F.reshape(F.rsqrt(variance + eps), shape)


@composite(at=("native_layer_norm",))
def native_layer_norm(F, input, normalized_shape, weight, bias, eps):
    """`layer_norm`, with the mean and 1 / root of the variance that it used.

    Arguments and errors are those of `layer_norm`; `weight` and `bias` may be None. No gradient flows through the
    statistics.

    >>> import plugrad as torch
    >>> result, mean, rstd = torch.native_layer_norm(torch.tensor([[1., 3.]]), (2,), None, None, 0.)
    >>> mean, rstd
    (tensor([[2.]]), tensor([[1.]]))
    """
    dims = _check_normalized(input, normalized_shape, weight, bias)
    _not_for("layer_norm", input)
    result, mean, variance = F.standardize(input, dims, eps)
    result = _affine(F, "layer_norm", result, weight, bias, tuple(normalized_shape))
    return _with_statistics(F, result, mean.detach(), variance.detach(), eps, tuple(mean.shape))


@native_layer_norm.samples
def native_layer_norm_samples(make):
    yield make.args(make(2, 3), (3,), make(3), make(3), 1e-5)


@composite(at=("native_group_norm",))
def native_group_norm(F, input, weight, bias, N, C, HxW, group, eps):
    """`group_norm` of an input (N, C, *), with the statistics that it used.

    `HxW` is the number of elements of a channel, `group` that of the groups. Gives the result, and means and
    1 / roots of the variances as (N, group).

    >>> import plugrad as torch
    >>> result, mean, rstd = torch.native_group_norm(torch.tensor([[1., 3.]]), None, None, 1, 2, 1, 1, 0.)
    >>> mean, rstd
    (tensor([[2.]]), tensor([[1.]]))
    """
    _not_for("group_norm", input)
    grouped = F.reshape(input, (N, group, C // group * HxW))
    result, mean, variance = F.standardize(grouped, (2,), eps)
    result = _affine(F, "group_norm", F.reshape(result, tuple(input.shape)), weight, bias, _channels(input))
    return _with_statistics(F, result, mean, variance, eps, (N, group))


@native_group_norm.samples
def native_group_norm_samples(make):
    yield make.args(make(2, 4, 3), make(4), make(4), 2, 4, 3, 2, 1e-5)


@composite(at=("native_batch_norm",))
def native_batch_norm(F, input, weight, bias, running_mean, running_var, training, momentum, eps):
    """`batch_norm`, with the mean and 1 / root of the variance of each channel.

    Arguments are those of `batch_norm`, in another order. Unless `training`, the statistics returned are empty.

    >>> import plugrad as torch
    >>> result, mean, rstd = torch.native_batch_norm(torch.tensor([[1.], [3.]]), None, None, None, None, True, 0.1, 0.)
    >>> mean, rstd
    (tensor([2.]), tensor([1.]))
    """
    result = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return result, input.new_empty(0), input.new_empty(0)
    _, mean, variance = F.standardize(input.detach(), (0, *range(2, input.ndim)), eps)
    return _with_statistics(F, result, mean, variance, eps, (-1,))


@native_batch_norm.samples
def native_batch_norm_samples(make):
    yield make.args(make(4, 3), make(3), make(3), None, None, True, 0.1, 1e-5)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
