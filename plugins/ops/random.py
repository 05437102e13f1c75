"""Random numbers: tensors drawn from distributions, and the in-place methods that fill with them.

Every op takes `generator=` (default: the device's own, seeded by `manual_seed`). On the CPU equal seeds give PyTorch's
numbers; see `_draws`.
"""

from __future__ import annotations

import numpy

from plugrad.extend import LEFT_OUT, Op, broadcast_shapes, collect, composite, factory, hookimpl, op, rng, write_out

from ._checks import check_probabilities, fitted, ints
from ._draws import (
    check_count,
    check_range,
    integer_array,
    normal_array,
    permutation,
    refuse_integers,
    tosses,
    uniform_array,
)
from ._memory_formats import is_in_order, like
from .creation import options


@factory(variadic="size", promote="float")
def rand(xp, size, *, generator=None, dtype):
    """Uniform random numbers of [0, 1).

    >>> import plugrad as torch
    >>> torch.rand(2, 3).shape
    torch.Size([2, 3])
    """
    return uniform_array(xp, size, dtype, generator)


@factory(variadic="size", promote="float")
def randn(xp, size, *, generator=None, dtype):
    """Random numbers of the standard normal distribution.

    >>> import plugrad as torch
    >>> torch.randn(2, 3).shape
    torch.Size([2, 3])
    """
    return normal_array(xp, size, dtype, generator)


@rand.samples
@randn.samples
def sized_samples(make):
    yield make.args((2, 3))


@factory(at=())
def randint_sized(xp, low, high, size, *, generator=None, dtype=None):
    """Random integers of [low, high), int64 unless a dtype is given."""
    dtype = xp.dtype("int64" if dtype is None else dtype)
    if dtype.kind == "c":
        raise RuntimeError("randint handles only integral, floating-point and boolean types; pass another dtype=")
    check_range(dtype, low, high)
    return integer_array(xp, low, high, size, dtype, generator)


@randint_sized.samples
def randint_sized_samples(make):
    yield make.args(0, 2, (2, 3))


@composite(at=("randint",), kinds={"low": "int", "high": "int|ints?"})
def randint(
    F,
    low=0,
    high=None,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Random integers of [low, high).

    Call `randint(high, size)` or `randint(low, high, size)`. The dtype is int64 unless given. An empty range is
    a `RuntimeError`.

    >>> import plugrad as torch
    >>> bool((torch.randint(3, (10,)) < 3).all())
    True
    """
    if isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is not None:
        size = ints(size)
    else:
        raise TypeError("randint() takes a tuple of ints as its size: write randint(10, (2, 3)) or (5, 10, (2, 3))")
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return F.randint_sized(low, high, size, generator=generator, out=out, **options)


@randint.samples
def randint_samples(make):
    yield 5, (2, 3)
    yield -2, 3, (2, 3)


@factory()
def randperm(xp, n, *, generator=None, dtype=None):
    """A random permutation of 0 ... n - 1, int64 unless given.

    >>> import plugrad as torch
    >>> torch.randperm(5).sort().values
    tensor([0, 1, 2, 3, 4])
    """
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    source, dtype = rng(xp, generator), xp.dtype("int64" if dtype is None else dtype)
    if dtype.kind == "b":
        raise NotImplementedError("\"randperm\" not implemented for 'Bool'; draw int64 and compare")
    if n > 128:
        check_count(dtype, n)
    if xp is numpy:
        return permutation(source, n).astype(dtype, copy=False)
    return xp.argsort(source.random(n)).astype(dtype)


@randperm.samples
def randperm_samples(make):
    yield make.args(5)


@composite(at=("rand_like",))
def rand_like(
    F,
    input,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    memory_format=None,
):
    """Uniform random numbers of [0, 1) in the shape of `input`.

    >>> import plugrad as torch
    >>> torch.rand_like(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    settings = options(input, dtype, device, False, layout)
    if is_in_order(input, memory_format):
        return like(F, F.rand(input.shape, generator=generator, **settings), input, memory_format, requires_grad)
    result = F.empty_like(input, memory_format=memory_format, **settings).uniform_(generator=generator)
    return result.requires_grad_(requires_grad)


@composite(at=("randn_like",))
def randn_like(
    F,
    input,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    memory_format=None,
):
    """Standard normal random numbers in the shape of `input`.

    >>> import plugrad as torch
    >>> torch.randn_like(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    settings = options(input, dtype, device, False, layout)
    if is_in_order(input, memory_format):
        return like(F, F.randn(input.shape, generator=generator, **settings), input, memory_format, requires_grad)
    result = F.empty_like(input, memory_format=memory_format, **settings).normal_(generator=generator)
    return result.requires_grad_(requires_grad)


@rand_like.samples
@randn_like.samples
def like_samples(make):
    yield make(2, 3)


@composite(at=("randint_like",), kinds={"low": "tensor|int?", "high": "tensor|int?"})
def randint_like(
    F,
    input,
    low=None,
    high=None,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    memory_format=None,
):
    """Random integers of [low, high) in the shape and dtype of `input`.

    One number is `high`.

    >>> import plugrad as torch
    >>> torch.randint_like(torch.zeros(2), 1)
    tensor([0., 0.])
    """
    if dtype is complex or getattr(dtype or input.dtype, "is_complex", False):
        raise RuntimeError("randint_like handles only integral, floating-point and boolean types; pass dtype=")
    if low is None and high is None:
        raise TypeError("randint_like() lacks the end of the range: write randint_like(input, 10)")
    low, high = (0, low) if high is None else (low or 0, high)
    settings = options(input, dtype, device, False, layout)
    if is_in_order(input, memory_format):
        result = F.randint(low, high, input.shape, generator=generator, **settings)
        return like(F, result, input, memory_format, requires_grad)
    result = F.empty_like(input, memory_format=memory_format, **settings)
    return result.random_(low, high, generator=generator).requires_grad_(requires_grad)


@randint_like.samples
def randint_like_samples(make):
    yield make(2, 3), 5
    yield make.ints(2, 3), -2, 3


def no_gradient(F, g):
    """Samples do not depend smoothly on what they replace: PyTorch answers zeros."""
    return F.zeros_like(g)


@factory(at=(), promote="float")
def normal_sized(xp, size, mean, std, *, generator=None, dtype):
    """Normal samples of a given size."""
    return normal_array(xp, size, dtype, generator, mean, std)


@normal_sized.samples
def normal_sized_samples(make):
    yield make.args((2, 3), 1.0, 0.5)


@op(at=())
def normal_around(xp, mean, std, *, generator=None):
    """Normal samples, one for each pair of broadcast mean and deviation."""
    mean_like = mean if hasattr(mean, "dtype") else std
    refuse_integers("normal_kernel", mean_like.dtype)
    check_deviation(xp, std)
    if not hasattr(mean, "dtype") and mean_like.dtype.itemsize > 2:  # half precision is computed in float32
        fitted(mean_like.dtype, mean)
    size = broadcast_shapes(getattr(mean, "shape", ()), getattr(std, "shape", ()))
    return xp.asarray(normal_array(xp, size, mean_like.dtype, generator) * std + mean).astype(mean_like.dtype)


def check_deviation(xp, std):
    if hasattr(std, "dtype"):
        if std.size and not bool(xp.all(std >= 0)):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


@normal_around.meta
def normal_around_meta(mean, std, *, generator=None):
    like = mean if hasattr(mean, "dtype") else std
    pair = [getattr(x, "shape", ()) for x in (mean, std)]
    n = max(map(len, pair))
    pair = [(1,) * (n - len(s)) + tuple(s) for s in pair]
    return tuple(b if a == 1 else a for a, b in zip(*pair)), like.dtype


@normal_around.vjp("mean")
def normal_around_vjp_mean(F, g, mean_shape):
    return F.sum_to_size(F.zeros_like(g), mean_shape)


@normal_around.vjp("std")
def normal_around_vjp_std(F, g, std_shape):
    return F.sum_to_size(F.zeros_like(g), std_shape)


@normal_around.samples
def normal_samples(make):  # without gradients: PyTorch's are zero, though mean and deviation do move the samples
    deviations = make(2, 3, low=0, high=1, requires_grad=False)
    yield make(3, requires_grad=False), deviations
    yield make(2, 3, requires_grad=False), 0.5
    yield 0.5, deviations


@composite(at=("normal",), kinds={"mean": "tensor|float", "std": "tensor|float"})
def normal(
    F,
    mean,
    std=1.0,
    size=None,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Normal random numbers of given mean and standard deviation.

    `mean` and `std` are numbers with a `size`, or at least one is a tensor, which sets the shape. Raises
    `RuntimeError` for a negative `std`.

    >>> import plugrad as torch
    >>> torch.normal(0.0, 1.0, (2, 3)).shape
    torch.Size([2, 3])
    """
    if size is not None:
        if not std >= 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
        options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
        return F.normal_sized(size, mean, std, generator=generator, **options)
    if not (hasattr(mean, "dtype") or hasattr(std, "dtype")):
        raise TypeError(
            "normal() received an invalid combination of arguments: with two numbers it needs a size, "
            "as in torch.normal(0.0, 1.0, (2, 3))"
        )
    return F.normal_around(mean, std, generator=generator)


normal.samples(normal_samples)


@composite(kinds={"p": "tensor|float...", "out": "tensor?"})
def bernoulli(F, input, p=LEFT_OUT, *, generator=None, out=None):
    """Zeros and ones, each one with the probability held by `input` (or `p` for all).

    `out` may be of any dtype. Raises `RuntimeError` for probabilities outside [0, 1].

    >>> import plugrad as torch
    >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    drawn = F.coins(input, None if p is LEFT_OUT else p, generator=generator)
    return drawn if out is None else write_out(bernoulli, drawn.to(out.dtype), out)


@op(at=(), like="input", kinds={"p": "tensor|float?"}, node="BernoulliBackward0")
def coins(xp, input, p=None, *, generator=None):
    """Zeros and ones, each one with the probability held by `input` (or `p` for all)."""
    if p is None:
        refuse_integers("bernoulli_tensor_cpu_p_", input.dtype)
        check_probabilities(xp, input)
        p = input
    return tosses(xp, input.shape, p, generator, input.dtype)


coins.vjp(no_gradient)


@bernoulli.samples
@coins.samples
def bernoulli_samples(make):
    yield make(2, 3, low=0, high=1)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
