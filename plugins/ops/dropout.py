"""Dropout of elements and of channels, plain and keeping mean and variance."""

from __future__ import annotations

from math import sqrt

from plugrad.extend import Op, collect, composite, hookimpl, op, rng

from ._draws import tosses
from ._memory_formats import empty_in_order

# The negative saturation value of SELU, scale * alpha (G. Klambauer et al., arXiv:1706.02515).
SELU_FLOOR = -1.7580993408473766


@op(at=(), vjp=None)
def dropout_mask(xp, input, shape, p, scale=1.0):
    """`scale` with probability 1 - p, else 0, in the dtype of `input`."""
    if _in_order(input, shape):
        return tosses(xp, shape, 1 - p, None, input.dtype, scale)
    mask = empty_in_order(xp, input, input.dtype)  # in the order of the input, in which they are drawn, too
    inside = mask.transpose(sorted(range(mask.ndim), key=lambda d: -mask.strides[d]))
    inside[...] = tosses(xp, inside.shape, 1 - p, None, input.dtype, scale)
    return mask


def _in_order(input, shape):
    return tuple(shape) != input.shape or input.flags.c_contiguous


@dropout_mask.kernel("cuda")
def dropout_mask_on_cuda(xp, input, shape, p, scale=1.0):
    """The same numbers, drawn, compared and scaled by one kernel."""
    if input.dtype.char not in "fd" or not _in_order(input, shape):
        return dropout_mask.kernels["*"](xp, input, shape, p, scale)
    return rng(xp, None).coins(shape, 1 - p, scale, input.dtype)


@dropout_mask.meta
def dropout_mask_meta(input, shape, p, scale=1.0):
    return tuple(shape), input.dtype


@dropout_mask.samples
def dropout_mask_samples(make):
    yield make(2, 3), (2, 3), 0.5


def _check(p, error=ValueError):
    if type(p) is float and 0.0 <= p <= 1.0:
        return
    if not isinstance(p, (int, float)) and (not hasattr(p, "dtype") or p.ndim or getattr(p, "requires_grad", False)):
        raise TypeError(f"a probability is a float, not {type(p).__name__}")
    if not 0.0 <= p <= 1.0:
        error = error if p == p else RuntimeError
        raise error(f"dropout probability has to be between 0 and 1, but got {p}")


def _check_batched(input, p, training):
    if training and p > 0 and input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")


def _check_dtype(input):
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {input.dtype}: dropout takes floating point "
            "input; convert it with .float()"
        )


def _drop(F, input, p, training, inplace, shape):
    """Zero parts of `input`, as large as the ones in `shape` say, and scale up the others."""
    _check(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    _check_dtype(input)
    if p == 1:
        return input.mul_(0) if inplace else F.mul(input, 0)
    mask = F.dropout_mask(input, shape, p, 1 / (1 - p))
    return input.mul_(mask) if inplace else F.mul(input, mask)


def _drop_alpha(F, input, p, training, inplace, shape):
    """Set parts to SELU's floor, then restore mean 0 and variance 1 (Klambauer et al., section 3)."""
    _check(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    _check_dtype(input)
    if p == 1:
        return input.mul_(0) if inplace else F.mul(input, 0)
    mask = F.dropout_mask(input, shape, p)
    a = 1 / sqrt((1 - p) * (1 + p * SELU_FLOOR**2))
    shift = (mask - 1) * (-a * SELU_FLOOR) - a * p * SELU_FLOOR
    return input.mul_(mask * a).add_(shift) if inplace else F.add(F.mul(input, mask * a), shift)


def _channels(input):
    """Whole channels of (N, C, *)."""
    return (*input.shape[:2], *(1,) * (input.ndim - 2))


@composite(at=("nn.functional.dropout",))
def dropout(F, input, p=0.5, training=True, inplace=False):
    """Zero each element with probability `p`, and scale the others by 1 / (1 - p).

    Outside `training` the input itself. Raises ValueError unless 0 <= p <= 1. N. Srivastava et al.,
    "Dropout", 2014.

    >>> import plugrad as torch
    >>> torch.nn.functional.dropout(torch.ones(3), p=0.0)
    tensor([1., 1., 1.])
    """
    return _drop(F, input, p, training, inplace, tuple(input.shape))


@dropout.samples
def dropout_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), 0.25, training=False)


@composite(at=("dropout",))
def dropout_legacy(F, input, p, train):
    """Zero each element with probability `p` if `train`.

    Raises RuntimeError unless 0 <= p <= 1.

    >>> import plugrad as torch
    >>> torch.dropout(torch.ones(2), 0.5, False)
    tensor([1., 1.])
    """
    _check(p, RuntimeError)
    return _drop(F, input, p, train, False, tuple(input.shape))


@dropout_legacy.samples
def explicit_dropout_samples(make):
    yield make(2, 3, 4), 0.5, True


def _channel_dropout(F, n, input, p, training, inplace):
    """Zero whole channels of images of n dimensions, batched or not."""
    _check(p)
    if input.ndim not in (n + 1, n + 2):
        import warnings

        warnings.warn(
            f"dropout{n}d: Received a {input.ndim}-D input to dropout{n}d, which expects {n + 1}-D or {n + 2}-D: the "
            f"{'second' if n < 3 else 'first'} dimension is taken for the channels",
            stacklevel=4,
        )
    if input.ndim and (input.ndim == n + 1 or n == 3 and input.ndim != 5):
        return _drop(F, input, p, training, inplace, (input.shape[0], *(1,) * (input.ndim - 1)))
    _check_batched(input, p, training)
    return _drop(F, input, p, training, inplace, _channels(input))


@composite(at=("nn.functional.dropout1d",))
def dropout1d(F, input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, L) or (C, L) with probability `p`.

    >>> import plugrad as torch
    >>> torch.nn.functional.dropout1d(torch.ones(1, 2), p=1.0)
    tensor([[0., 0.]])
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input: it zeroes channels of (N, C, L) "
            "or (C, L); use dropout, dropout2d or dropout3d for others"
        )
    return _channel_dropout(F, 1, input, p, training, inplace)


@dropout1d.samples
def dropout1d_samples(make):
    yield make(2, 3, 4)


@composite(at=("nn.functional.dropout2d",))
def dropout2d(F, input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, H, W) with probability `p`.

    J. Tompson et al., arXiv:1411.4280.

    >>> import plugrad as torch
    >>> torch.nn.functional.dropout2d(torch.ones(1, 1, 1, 2), p=1.0)
    tensor([[[[0., 0.]]]])
    """
    if input.ndim == 3:
        import warnings

        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d, assuming that channel-wise 1D dropout behavior is desired: "
            "the input is taken as (N, C, L) and not as (C, H, W), as PyTorch does; call dropout1d for that",
            stacklevel=3,
        )
        return _drop(F, input, p, training, inplace, _channels(input))
    return _channel_dropout(F, 2, input, p, training, inplace)


@dropout2d.samples
def dropout2d_samples(make):
    yield make(2, 3, 4, 2)


@composite(at=("nn.functional.dropout3d",))
def dropout3d(F, input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W) with probability `p`.

    >>> import plugrad as torch
    >>> torch.nn.functional.dropout3d(torch.ones(1, 1, 1, 2), p=1.0)
    tensor([[[[0., 0.]]]])
    """
    return _channel_dropout(F, 3, input, p, training, inplace)


@dropout3d.samples
def dropout3d_samples(make):
    yield make(2, 3, 2, 2, 2)


@composite(at=("nn.functional.alpha_dropout",))
def alpha_dropout(F, input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance, for SELU networks.

    Dropped elements take SELU's lowest value. G. Klambauer et al., "Self-normalizing neural networks",
    arXiv:1706.02515.

    >>> import plugrad as torch
    >>> torch.nn.functional.alpha_dropout(torch.ones(2))
    tensor([1., 1.])
    """
    return _drop_alpha(F, input, p, training, inplace, tuple(input.shape))


@alpha_dropout.samples
def alpha_dropout_samples(make):
    yield make(3, 4), 0.5, True


@composite(at=("nn.functional.feature_alpha_dropout",))
def feature_alpha_dropout(F, input, p=0.5, training=False, inplace=False):
    """`alpha_dropout` of whole channels of (N, C, *).

    >>> import plugrad as torch
    >>> torch.nn.functional.feature_alpha_dropout(torch.ones(1, 2, 2)).shape
    torch.Size([1, 2, 2])
    """
    _check_batched(input, p, training)
    return _drop_alpha(F, input, p, training, inplace, _channels(input))


@feature_alpha_dropout.samples
def feature_alpha_dropout_samples(make):
    yield make(2, 3, 4), 0.5, True


@composite(at=("feature_dropout",))
def feature_dropout(F, input, p, train):
    """Zero whole channels of (N, C, *) with probability `p` if `train`.

    >>> import plugrad as torch
    >>> torch.feature_dropout(torch.ones(1, 2), 0.5, False)
    tensor([[1., 1.]])
    """
    _check(p, RuntimeError)
    _check_batched(input, p, train)
    return _drop(F, input, p, train, False, _channels(input))


@composite(at=("alpha_dropout",))
def explicit_alpha_dropout(F, input, p, train):
    """Dropout that keeps mean and variance, for SELU networks, if `train`.

    Raises RuntimeError unless 0 <= p <= 1.

    >>> import plugrad as torch
    >>> torch.alpha_dropout(torch.ones(2), 0.5, False)
    tensor([1., 1.])
    """
    _check(p, RuntimeError)
    return _drop_alpha(F, input, p, train, False, tuple(input.shape))


@composite(at=("feature_alpha_dropout",))
def explicit_feature_alpha_dropout(F, input, p, train):
    """Dropout of whole channels of (N, C, *) that keeps mean and variance, if `train`.

    Raises RuntimeError unless 0 <= p <= 1.

    >>> import plugrad as torch
    >>> torch.feature_alpha_dropout(torch.ones(1, 2), 0.5, False)
    tensor([[1., 1.]])
    """
    _check(p, RuntimeError)
    _check_batched(input, p, train)
    return _drop_alpha(F, input, p, train, False, _channels(input))


for _op in (feature_dropout, explicit_alpha_dropout, explicit_feature_alpha_dropout):
    _op.samples(explicit_dropout_samples)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
