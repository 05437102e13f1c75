"""Normalizations: batch, layer, group, instance, RMS, local response, and vectors of unit length.

The work is done by the ops of `normalization_kernels`. S. Ioffe, C. Szegedy, "Batch normalization", arXiv:1502.03167;
J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer normalization", arXiv:1607.06450; Y. Wu, K. He, "Group normalization",
arXiv:1803.08494.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from plugrad import float32, is_grad_enabled
from plugrad.extend import Op, collect, composite, held_back, hookimpl

from ._checks import as_int, ints
from .normalization_kernels import FEW, _running_average


def _not_for(name, input):
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype}': convert the input with .float()")


def _check_parts(name, input, *parts):
    """Raise RuntimeError unless weight and bias have the dtype of the input, or float32 beside half precision."""
    for part in parts:
        if part is not None and part.dtype is not input.dtype:
            if input.dtype.itemsize != 2 or part.dtype is not float32:
                more = " or torch.float32" if input.dtype.itemsize == 2 else ""
                raise RuntimeError(
                    f"mixed dtype: {name} expects weight and bias to have the dtype of the input, {input.dtype}{more}, "
                    f"but got {part.dtype}"
                )


@lru_cache(maxsize=1024)
def _channels(ndim, channels):
    """Return the dimensions of (N, C, *) but that of the channels, and the shape in which what they have lies there."""
    return (0, *range(2, ndim)), (1, channels, *(1,) * (ndim - 2)) if ndim > 1 else (-1,)


def _update(running_mean, running_var, mean, variance, count, momentum):
    """Move running statistics towards those of a batch, both or neither; the variance by its unbiased estimate."""
    move = _running_average.in_place
    with held_back():
        if running_mean is not None:
            move(running_mean, mean, 1.0, momentum)
        if running_var is not None:
            move(running_var, variance, count / max(count - 1, 1), momentum)


@composite(at=("nn.functional.batch_norm",), kinds={"running_mean": "tensor?", "running_var": "tensor?"})
def batch_norm(F, input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    """Normalize each channel of (N, C, *) over the batch, or by running statistics.

    In training by the statistics of the batch, towards which `running_mean` and `running_var` (C,), unless
    None, are moved by the fraction `momentum`; otherwise by the running ones. Then multiplied by `weight`
    (C,) and shifted by `bias` (C,). Raises ValueError when in training there is one element per channel only,
    or `eps` is not positive.

    >>> import plugrad as torch
    >>> torch.nn.functional.batch_norm(torch.tensor([[1.], [3.]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if eps <= 0 and (training or eps < 0):
        wanted = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {wanted}, but got {eps}; the default is 1e-5")
    return _in_batch(F, input, running_mean, running_var, weight, bias, training, momentum, eps)


def _in_batch(F, input, running_mean, running_var, weight, bias, training, momentum, eps):
    size, dtype = input.shape, input.dtype
    channels = size[1] if len(size) > 1 else 0
    wanted, plain = (channels,), dtype.is_floating_point
    for part in (running_mean, running_var, weight, bias):
        if part is not None and (part.shape != wanted or part.dtype is not dtype):
            plain = False
    if not plain:
        _not_for("batch_norm", input)
        named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
        for name, part in named.items():
            if part is not None and part.shape != wanted:
                raise RuntimeError(f"{name} should contain {channels} elements not {part.numel()}")
    for name, part in (("running_mean", running_mean), ("running_var", running_var)):
        if part is not None and part.requires_grad and is_grad_enabled():
            raise RuntimeError(f"batch_norm is not differentiable with respect to {name}: detach() it")
    if not training and (running_mean is None or running_var is None):
        missing = "running_mean" if running_mean is None else "running_var"
        raise RuntimeError(f"{missing} must be defined in evaluation mode")
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    dims, shape = _channels(len(size), channels)
    if not training:
        if not plain:
            _check_parts("batch_norm", input, running_mean, running_var, weight, bias)
        return F.normalize_by(input, weight, bias, running_mean, running_var, shape, eps)
    count = input.numel() // channels if channels else 0
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    if not plain:
        _check_parts("batch_norm", input, running_mean, running_var, weight, bias)
    result, mean, variance = F.normalize_affine(input, weight, bias, dims, shape, eps)
    if running_mean is not None and count:
        _update(running_mean, running_var, mean, variance, count, momentum)
    return result


@batch_norm.samples
def batch_norm_samples(make):
    yield make.args(make(4, 3), None, None, make(3), make(3), training=True)
    running = make(3, requires_grad=False), make(3, low=1, high=2, requires_grad=False)
    yield make.args(make(2, 3, 4), *running, make(3), make(3))


@composite(at=("nn.functional.instance_norm",))
def instance_norm(
    F, input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05
):
    """Normalize each channel of each image of (N, C, *) on its own.

    With `use_input_stats` false by the running statistics, otherwise by those of each image, towards whose
    mean over the batch the running ones are moved. Raises ValueError when an image has one element only.

    >>> import plugrad as torch
    >>> torch.nn.functional.instance_norm(torch.tensor([[[1., 3.]]]), eps=0)
    tensor([[[-1.,  1.]]])
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, part in (("running_mean", running_mean), ("running_var", running_var)):
        if part is not None and part.shape != (channels,):
            raise RuntimeError(f"{name} should contain {channels} elements not {part.numel()}")
    if (running_mean is None) is not (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    _not_for("instance_norm", input)
    count = prod(input.shape[2:])
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    _check_parts("instance_norm", input, weight, bias)
    (_, *dims), shape = _channels(input.ndim, channels)
    result, mean, variance = F.normalize_affine(F.contiguous(input), weight, bias, (*dims,), shape, eps)
    if running_mean is not None or running_var is not None:
        _update(running_mean, running_var, mean.detach().mean(0), variance.detach().mean(0), count, momentum)
    return result


@instance_norm.samples
def instance_norm_samples(make):
    yield make.args(make(2, 3, 4), weight=make(3), bias=make(3))


@lru_cache(maxsize=4096)
def _normalized(size, shape, of_weight, of_bias):
    """Return the dimensions that `shape`, the last sizes of `size`, is of, and whether there are few elements."""
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, part in (("weight", of_weight), ("bias", of_bias)):
        if part is not None and part != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(part)} and "
                f"normalized_shape = {list(shape)}"
            )
    if size[-len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but "
            f"got input of size{list(size)}"
        )
    return tuple(range(len(size) - len(shape), len(size))), prod(size) <= FEW


def _rows(input, normalized_shape, weight, bias):
    """Return (dimensions of a layer normalization, their sizes, whether there are few elements), checked."""
    shape, dtype = ints(normalized_shape), input.dtype
    of_weight, of_bias = None if weight is None else weight.shape, None if bias is None else bias.shape
    dims, few = _normalized(input.shape, shape, of_weight, of_bias)
    if not dtype.is_floating_point:
        _not_for("layer_norm", input)
    if of_weight and weight.dtype is not dtype or of_bias and bias.dtype is not dtype:
        _check_parts("layer_norm", input, weight, bias)
    return dims, shape, few


@composite(at=("nn.functional.layer_norm", "layer_norm"), autocast={"cuda": "float32"})
def layer_norm(F, input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """Normalize over the last dimensions, whose sizes are `normalized_shape`.

    Then multiplied by `weight` and shifted by `bias`, both of `normalized_shape`. Raises RuntimeError when
    shapes do not match.

    >>> import plugrad as torch
    >>> torch.nn.functional.layer_norm(torch.tensor([[1., 3.]]), (2,), eps=0)
    tensor([[-1.,  1.]])
    """
    dims, shape, few = _rows(input, normalized_shape, weight, bias)
    if few and input.is_cpu and input.dtype.itemsize > 2:
        return F.normalize_rows(input, weight, bias, shape, eps)
    return F.normalize_affine(input, weight, bias, dims, shape, eps)[0]


@layer_norm.samples
def layer_norm_samples(make):
    yield make(2, 3, 4), (4,), make(4), make(4)
    yield make(2, 3, 4), (3, 4)


def _in_groups(F, input, groups, weight, bias, eps):
    """Result, means and variances of a group normalization."""
    _check_parts("group_norm", input, weight, bias)
    (n, channels), groups = input.shape[:2], int(groups)  # which may be an array of one element
    shape = (1, groups, channels // groups, 1)
    return F.normalize_affine(input, weight, bias, (2, 3), shape, eps, (n, *shape[1:3], prod(input.shape[2:])))


@composite(at=("nn.functional.group_norm", "group_norm"), autocast={"cuda": "float32"})
def group_norm(F, input, num_groups, weight=None, bias=None, eps=1e-05):
    """Normalize each of `num_groups` groups of channels of each image of (N, C, *).

    Then multiplied by `weight` (C,) and shifted by `bias` (C,). Raises RuntimeError when the groups do not
    divide the channels, ValueError when a group has one element only.

    >>> import plugrad as torch
    >>> torch.nn.functional.group_norm(torch.tensor([[1., 3., 0., 4.]]), 2, eps=0)
    tensor([[-1.,  1., -1.,  1.]])
    """
    shape = input.shape
    groups, channels = _groups(shape, as_int(num_groups))
    for name, part in (("weight", weight), ("bias", bias)):
        if part is not None and tuple(part.shape) != (channels,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(part.shape)} and input of shape {list(shape)}"
            )
    _not_for("group_norm", input)
    if shape[0] * groups[2] * groups[3] == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(shape)}")
    _check_parts("group_norm", input, weight, bias)
    return F.normalize_affine(input, weight, bias, (2, 3), (1, *groups[1:3], 1), eps, groups)[0]


@lru_cache(maxsize=1024)
def _groups(shape, groups):
    """Return (N, groups, channels of each, elements of each channel), and how many channels there are."""
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    n, channels = shape[:2]
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(shape)} and num_groups={groups}"
        )
    return (n, groups, channels // groups, prod(shape[2:])), channels


@group_norm.samples
def group_norm_samples(make):
    yield make(2, 4, 3), 2, make(4), make(4)


@composite(at=("nn.functional.rms_norm", "rms_norm"), autocast={"cuda": "float32"})
def rms_norm(F, input, normalized_shape, weight=None, eps=None):
    """Divide by the root of the mean square over the last dimensions.

    These are as many as `normalized_shape` has sizes.
    `eps` is added to the mean square (default: the spacing at 1 of the dtype, of half precision that of
    float32). Then multiplied by `weight`.
    The result has the input's dtype.
    Raises RuntimeError when shapes do not match. B. Zhang, R. Sennrich, arXiv:1910.07467.

    >>> import plugrad as torch
    >>> torch.nn.functional.rms_norm(torch.tensor([3., 4.]), (2,))
    tensor([0.8485, 1.1314])
    """
    if input.ndim < len(normalized_shape):
        raise ValueError(f"Input tensor must have at least {len(normalized_shape)} dimensions, but got {input.ndim}")
    dims, _ = _normalized(input.shape, ints(normalized_shape), None if weight is None else weight.shape, None)
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise NotImplementedError(f"\"rms_norm\" not implemented for '{input.dtype}': convert the input with .float()")
    dtype = input.dtype
    if dtype.itemsize == 2:
        input = input.float()
    if eps is None:
        bits = {2: 23, 4: 23, 8: 52}
        eps = 2.0 ** -bits[dtype.itemsize // (2 if dtype.is_complex else 1)]
    result = input * F.rsqrt(F.mean(input * input, dims, True) + eps)
    if weight is not None:
        result = result * weight
    return result if result.dtype == dtype else result.to(dtype)


@rms_norm.samples
def rms_norm_samples(make):
    yield make(2, 3, 4), (4,), make(4)


@composite(at=("nn.functional.local_response_norm",), kinds={"k": "number", "size": "int"})
def local_response_norm(F, input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divide by a power of the mean square of `size` neighbouring channels.

    That is input / (k + alpha * mean) ** beta.
    `input` is (N, C, *), at least 3-dimensional. A. Krizhevsky, I. Sutskever, G. Hinton, "ImageNet
    classification with deep convolutional neural networks", 2012.

    >>> import plugrad as torch
    >>> torch.nn.functional.local_response_norm(torch.ones(1, 1, 1), 2, alpha=6., beta=1.)
    tensor([[[0.2500]]])
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if input.numel() == 0:
        return input
    if size <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got size={size}")
    sides = (0, 0) * (input.ndim - 2) + (size // 2, (size - 1) // 2)
    squares = F.constant_pad_nd(input * input, sides)
    total = sum(squares[:, i : i + input.shape[1]] for i in range(size))
    mean = total / size if input.dtype.is_floating_point else total // size
    return input / (mean * alpha + k) ** beta


@local_response_norm.samples
def local_response_norm_samples(make):
    yield make(2, 5, 4), 3


@composite(at=("nn.functional.normalize",), kinds={"p": "number?", "dim": "int|ints?"})
def normalize(F, input, p=2.0, dim=1, eps=1e-12, out=None):
    """Divide by the `p`-norm along `dim`, or by `eps` where the norm is less.

    >>> import plugrad as torch
    >>> torch.nn.functional.normalize(torch.tensor([[3., 4.]]))
    tensor([[0.6000, 0.8000]])
    """
    length = F.clamp_min(F.norm(input, p, dim, True), eps)
    return input / length if out is None else F.div(input, length, out=out)


@normalize.samples
def normalize_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), 3.0, 0)


# ---------------------------------------------------------------- with the statistics that were used


def _with_statistics(F, result, mean, variance, eps, shape, *parts):
    """The triple (result, mean, 1 / root of the variance), whose statistics have `shape`.

    Those of half precision have the dtype of the result, unless weight or bias (`parts`) are wider.
    """
    mixed = any(part is not None and part.dtype is not result.dtype for part in parts)
    return result, *(
        F.reshape(one if mixed else one.to(result.dtype), shape) for one in (mean, F.rsqrt(variance + eps))
    )


@composite(
    fresh=True, at=("native_layer_norm",), kinds={"weight": "tensor?", "bias": "tensor?"}, autocast={"cuda": "float32"}
)
def native_layer_norm(F, input, normalized_shape, weight, bias, eps):
    """`layer_norm`, with the mean and 1 / root of the variance that it used.

    Arguments and errors are those of `layer_norm`; `weight` and `bias` may be None. No gradient flows through the
    statistics.

    >>> import plugrad as torch
    >>> result, mean, rstd = torch.native_layer_norm(torch.tensor([[1., 3.]]), (2,), None, None, 0.)
    >>> mean, rstd
    (tensor([[2.]]), tensor([[1.]]))
    """
    dims, shape, _ = _rows(input, normalized_shape, weight, bias)
    result, mean, variance = F.normalize_affine(input, weight, bias, dims, shape, eps)
    return _with_statistics(F, result, mean.detach(), variance.detach(), eps, tuple(mean.shape), weight, bias)


@native_layer_norm.samples
def native_layer_norm_samples(make):
    yield make.args(make(2, 3), (3,), make(3), make(3), 1e-5)


@composite(fresh=True, at=("native_group_norm",), kinds={"weight": "tensor?", "bias": "tensor?"})
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
    if group <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {group}")
    for name, part in (("weight", weight), ("bias", bias)):
        if part is not None and part.shape != (C,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(part.shape)} and {C} channels"
            )
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"Expected X.numel() == N * C * HxW, but {input.numel()} is not {N} * {C} * {HxW}")
    shape, input = input.shape, F.reshape(input, (N, C, HxW))
    result, mean, variance = _in_groups(F, input, group, weight, bias, eps)
    result = F.reshape(result, shape)
    return _with_statistics(F, result, mean, variance, eps, (N, group), weight, bias)


@native_group_norm.samples
def native_group_norm_samples(make):
    yield make.args(make(2, 4, 3), make(4), make(4), 2, 4, 3, 2, 1e-5)


@composite(
    fresh=True,
    at=("native_batch_norm",),
    kinds={
        "weight": "tensor?", "bias": "tensor?", "running_mean": "tensor?", "running_var": "tensor?", "training": "bool"
    },
)  # fmt: skip
def native_batch_norm(F, input, weight, bias, running_mean, running_var, training, momentum, eps):
    """`batch_norm`, with the mean and 1 / root of the variance of each channel.

    Arguments are those of `batch_norm`, in another order. Unless `training`, the statistics returned are empty.

    >>> import plugrad as torch
    >>> result, mean, rstd = torch.native_batch_norm(torch.tensor([[1.], [3.]]), None, None, None, None, True, 0.1, 0.)
    >>> mean, rstd
    (tensor([2.]), tensor([1.]))
    """
    result = _in_batch(F, input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return result, input.new_empty(0), input.new_empty(0)
    dims, shape = _channels(input.ndim, input.shape[1])
    _, mean, variance = F.normalize_affine(input.detach(), None, None, dims, shape, eps)
    return _with_statistics(F, result, mean, variance, eps, (-1,), weight, bias)


@native_batch_norm.samples
def native_batch_norm_samples(make):
    yield make.args(make(4, 3), make(3), make(3), None, None, True, 0.1, 1e-5)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
