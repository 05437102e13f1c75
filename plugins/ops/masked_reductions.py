"""Reductions and normalizations that only see the elements under a mask: the functions of `masked`.

Elements that are masked out are replaced by the identity of the operation before it runs.
"""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Op, axes, collect, composite, hookimpl


def _masked(function):
    """Declare the function `masked.NAME`, and document what all of them share."""
    name = function.__name__.rstrip("_")
    first, _, rest = (function.__doc__ or "").partition("\n")  # `python -OO` leaves no docstrings
    function.__doc__ = f"""{first}

    `mask` is boolean and broadcasts to the input: True means seen, None that all is. `dim` is an int or a tuple where
    several dimensions are reduced (None: all), `keepdim` keeps them with size 1, `dtype` is that of the result.
    Raises `IndexError` for a mask of more dimensions than the input, or a `dim` out of range.
{rest}"""
    policy = {"cpu": "float32"} if name == "prod" else None
    record = composite(name=f"masked_{name}", at=(f"masked.{name}",), autocast=policy)(function)
    record.samples(_reduction_samples)
    return record


def _reduction_samples(make):
    mask = plugrad.tensor([[True, False, True, True], [True, True, False, True], [False, True, True, True]])
    yield make.args(make(3, 4), dim=1, mask=mask)
    yield make.args(make(3, 4), dim=0)


def _full_mask(F, input, mask):
    """The mask as bool in the shape of the input."""
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input): "
            f"{list(mask.shape)} and {list(input.shape)}"
        )
    return F.expand(mask.to(plugrad.bool), tuple(input.shape))


def _filled(F, input, mask, value):
    """The input with `value` where it is masked out."""
    return input if mask is None else F.where(_full_mask(F, input, mask), input, value)


def _least(input):
    """The identity of the maximum, in the dtype of the input."""
    if input.is_floating_point() or input.is_complex():
        return -math.inf
    return False if input.dtype is plugrad.bool else plugrad.iinfo(input.dtype).min


def _greatest(input):
    """The identity of the minimum, in the dtype of the input."""
    if input.is_floating_point() or input.is_complex():
        return math.inf
    return True if input.dtype is plugrad.bool else plugrad.iinfo(input.dtype).max


def _dims(dim, ndim):
    """The dimensions reduced, as a tuple of non-negative ints."""
    if dim is None or dim == () or dim == []:
        return tuple(range(ndim))
    return axes(tuple(dim) if isinstance(dim, (tuple, list)) else (dim,), ndim)


def _widened(input, dtype):
    """The dtype of sums and products: int64 for smaller integers."""
    exact = not (input.is_floating_point() or input.is_complex())
    return dtype or (plugrad.int64 if exact else input.dtype)


# ---------------------------------------------------------------------------------------------------- reductions


@_masked
def sum_(F, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Sum of the elements under a mask; 0 where there is none.

    >>> import plugrad as torch
    >>> torch.masked.sum(torch.tensor([1, 2, 3]), mask=torch.tensor([True, False, True]))
    tensor(4)
    """
    filled = _filled(F, input, mask, 0)
    return F.sum(filled, _dims(dim, input.ndim), bool(keepdim), dtype=_widened(input, dtype))


@_masked
def prod(F, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Product of the elements under a mask; 1 where there is none.

    >>> import plugrad as torch
    >>> torch.masked.prod(torch.tensor([1, 2, 3]), mask=torch.tensor([True, False, True]))
    tensor(3)
    """
    product, dtype = _filled(F, input, mask, 1), _widened(input, dtype)
    for d in sorted(_dims(dim, input.ndim), reverse=True) if dim != [] else ():  # as in PyTorch; () is all of them
        product = F.prod(product, d, bool(keepdim), dtype=dtype)
    return product.to(dtype)


@_masked
def amax(F, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Maximum of the elements under a mask; the least number where there is none.

    >>> import plugrad as torch
    >>> torch.masked.amax(torch.tensor([1, 2, 3]), mask=torch.tensor([True, True, False]))
    tensor(2)
    """
    filled = _filled(F, input, mask, _least(input))
    return F.amax(filled, _dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


@_masked
def amin(F, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Minimum of the elements under a mask; the greatest number where there is none.

    >>> import plugrad as torch
    >>> torch.masked.amin(torch.tensor([1, 2, 3]), mask=torch.tensor([False, True, True]))
    tensor(2)
    """
    filled = _filled(F, input, mask, _greatest(input))
    return F.amin(filled, _dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


@_masked
def argmax(F, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Place of the maximum of the elements under a mask.

    As in PyTorch the result has the dtype of the input unless `dtype` says otherwise.

    >>> import plugrad as torch
    >>> torch.masked.argmax(torch.tensor([1, 2, 3]), mask=torch.tensor([True, True, False]))
    tensor(1)
    """
    places = F.argmax(_filled(F, input, mask, _least(input)), dim, bool(keepdim))
    return places.to(dtype or input.dtype)


@_masked
def argmin(F, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Place of the minimum of the elements under a mask.

    As in PyTorch the result has the dtype of the input unless `dtype` says otherwise.

    >>> import plugrad as torch
    >>> torch.masked.argmin(torch.tensor([1, 2, 3]), mask=torch.tensor([False, True, True]))
    tensor(1)
    """
    places = F.argmin(_filled(F, input, mask, _greatest(input)), dim, bool(keepdim))
    return places.to(dtype or input.dtype)


def _count(F, input, dim, keepdim, mask):
    """How many elements are seen."""
    ones = plugrad.ones(input.shape, dtype=plugrad.int64, device=input.device)
    seen = ones if mask is None else _full_mask(F, input, mask)
    return F.sum(seen, _dims(dim, input.ndim), keepdim, dtype=plugrad.int64)


@_masked
def mean(F, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Mean of the elements under a mask; NaN where there is none.

    Integers are refused with a `ValueError`.

    >>> import plugrad as torch
    >>> torch.masked.mean(torch.tensor([1.0, 2.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    result = dtype or input.dtype
    if not (result.is_floating_point or result.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {'Input' if dtype is None else 'Optional'} dtype must be either a "
            f"floating point or complex dtype. Got: {result}; write input.float()"
        )
    total = F.masked_sum(input, dim, keepdim=keepdim, dtype=result, mask=mask)
    return total / _count(F, input, dim, bool(keepdim), mask)


@_masked
def median(F, input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """Median along `dim` of the elements under a mask; NaN where there is none.

    Raises `ValueError` where integers have none.

    >>> import plugrad as torch
    >>> torch.masked.median(torch.tensor([1.0, 2.0, 3.0]), mask=torch.tensor([False, True, True]))
    tensor(2.)
    """
    dim = _dims(dim, input.ndim)[0]
    floats = input if input.is_floating_point() else input.float()
    medians = F.nanmedian(_filled(F, floats, mask, math.nan), dim, keepdim)
    if input.is_floating_point():
        return medians[0]
    if not input.is_meta and bool(F.any(F.isnan(medians[0]))):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return medians[0].to(dtype or input.dtype)


@_masked
def norm(F, input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Vector norm of the elements under a mask.

    `ord` is the exponent, or infinite.

    >>> import plugrad as torch
    >>> torch.masked.norm(torch.tensor([3.0, 4.0, 9.0]), mask=torch.tensor([True, True, False]))
    tensor(5.)
    """
    filled = _filled(F, input, mask, math.inf if ord == -math.inf else 0.0)
    return F.linalg_vector_norm(filled, 2.0 if ord is None else ord, _dims(dim, input.ndim), bool(keepdim), dtype=dtype)


def _spread(F, input, dim, unbiased, correction, keepdim, dtype, mask):
    """The variance of the elements that are seen."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    exact = not (input.is_floating_point() or input.is_complex())
    dtype = dtype or (plugrad.float32 if exact else input.dtype)
    compute = dtype if dtype.is_floating_point or dtype.is_complex else plugrad.float32
    count = _count(F, input, dim, True, mask)
    away = input - F.masked_sum(input, dim, keepdim=True, dtype=dtype, mask=mask) / count
    total = F.masked_sum(away * F.conjugated(away), dim, keepdim=keepdim, dtype=compute, mask=mask)
    count = F.reshape(count, tuple(total.shape))
    freedom = F.clamp_min(count.to(compute.to_real()) - correction, 0) if correction else count
    return (total / freedom).to(dtype)


@_masked
def var(F, input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Variance of the elements under a mask; NaN where there is none.

    `correction` (by default 1, or 0 if not `unbiased`) is taken off the number of elements.

    >>> import plugrad as torch
    >>> torch.masked.var(torch.tensor([1.0, 2.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    return _spread(F, input, dim, unbiased, correction, keepdim, dtype, mask)


@_masked
def std(F, input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Standard deviation of the elements under a mask; NaN where there is none.

    `correction` (by default 1, or 0 if not `unbiased`) is taken off the number of elements.

    >>> import plugrad as torch
    >>> torch.masked.std(torch.tensor([1.0, 2.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(1.4142)
    """
    return F.sqrt(_spread(F, input, dim, unbiased, correction, keepdim, dtype, mask))


@_masked
def logsumexp(F, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Logarithm of the sum of the exponentials of the elements under a mask.

    >>> import plugrad as torch
    >>> torch.masked.logsumexp(torch.tensor([1.0, 2.0]), mask=torch.tensor([True, False]))
    tensor(1.)
    """
    sums = F.logsumexp(_filled(F, input, mask, _least(input)), _dims(dim, input.ndim), keepdim)
    return sums.to(dtype or input.dtype)


# ---------------------------------------------------------------------------------------------------- the same shape


@_masked
def cumsum(F, input, dim, *, dtype=None, mask=None):
    """Running sums of the elements under a mask.

    >>> import plugrad as torch
    >>> torch.masked.cumsum(torch.tensor([1, 2, 3]), 0, mask=torch.tensor([True, False, True]))
    tensor([1, 1, 4])
    """
    return F.cumsum(_filled(F, input, mask, 0), dim, dtype=dtype or input.dtype)


@_masked
def cumprod(F, input, dim, *, dtype=None, mask=None):
    """Running products of the elements under a mask.

    >>> import plugrad as torch
    >>> torch.masked.cumprod(torch.tensor([1, 2, 3]), 0, mask=torch.tensor([True, False, True]))
    tensor([1, 1, 3])
    """
    return F.cumprod(_filled(F, input, mask, 1), dim, dtype=dtype or input.dtype)


@_masked
def softmax(F, input, dim, *, dtype=None, mask=None):
    """Softmax along `dim` of the elements under a mask; 0 elsewhere.

    >>> import plugrad as torch
    >>> torch.masked.softmax(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return F.softmax(_filled(F, input, mask, _least(input)), dim, dtype=dtype or input.dtype)


@_masked
def log_softmax(F, input, dim, *, dtype=None, mask=None):
    """Logarithm of the softmax along `dim` of the elements under a mask.

    >>> import plugrad as torch
    >>> torch.masked.log_softmax(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return F.log_softmax(_filled(F, input, mask, _least(input)), dim, dtype=dtype or input.dtype)


@_masked
def softmin(F, input, dim, *, dtype=None, mask=None):
    """Softmax of the negative along `dim` of the elements under a mask; 0 elsewhere.

    >>> import plugrad as torch
    >>> torch.masked.softmin(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return F.softmax(-_filled(F, input, mask, _greatest(input)), dim, dtype=dtype or input.dtype)


@_masked
def normalize(F, input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """Elements under a mask over their norm along `dim`; 0 elsewhere.

    Norms are taken to be at least `eps`.

    >>> import plugrad as torch
    >>> torch.masked.normalize(torch.tensor([3.0, 4.0, 9.0]), 2, 0, mask=torch.tensor([True, True, False]))
    tensor([0.6000, 0.8000, 0.0000])
    """
    length = F.masked_norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(F, input, mask, 0) / F.maximum(length, length.new_full((), eps))


@normalize.samples
def normalize_samples(make):
    yield make.args(make(3, 4), 2.0, 1, mask=make.bool(3, 4))


@composite(name="masked_logaddexp", at=("masked.logaddexp",))
def logaddexp(F, input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), where each operand is seen under its mask.

    Masks are boolean and broadcast to their operands: True means seen. Raises `IndexError` for one of more dimensions.

    >>> import plugrad as torch
    >>> torch.masked.logaddexp(torch.zeros(2), torch.zeros(2), other_mask=torch.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    first = _filled(F, input, input_mask, _least(input))
    return F.logaddexp(first, _filled(F, other, other_mask, _least(other))).to(dtype or input.dtype)


@logaddexp.samples
def logaddexp_samples(make):
    yield make.args(make(3), make(3), input_mask=plugrad.tensor([True, True, True]))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
