"""Random numbers: tensors drawn from distributions, and the in-place methods that fill with them.

Every op takes `generator=` (default: the device's own, seeded by `manual_seed`). The streams are those of the array
library, so equal seeds give other numbers than PyTorch's.
"""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, composite, factory, hookimpl, is_integral, is_single_or_double, op, rng

from ._checks import DIFFERENTIABLE
from ._memory_formats import like
from .creation import options

DIGITS = {"float16": 11, "bfloat16": 8}  # significant bits; wider floats are drawn directly


def refuse_integers(name, dtype):
    if is_integral(dtype):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype}'; give a floating point dtype")


def uniform_array(xp, size, dtype, generator):
    """Samples of [0, 1); coarse dtypes are drawn on their own grid, since rounding could reach 1."""
    dtype, source = xp.dtype(dtype), rng(xp, generator)
    if is_single_or_double(dtype):
        return xp.asarray(source.random(size, dtype))
    refuse_integers("check_uniform_bounds", dtype)
    if dtype.kind == "c":
        real = "float32" if dtype.itemsize == 8 else "float64"
        return (source.random(size, dtype=real) + 1j * source.random(size, dtype=real)).astype(dtype)
    grid = 2.0 ** DIGITS[dtype.name]
    return (source.integers(0, int(grid), size) / grid).astype(dtype)


def normal_array(xp, size, dtype, generator):
    """Standard normal samples; complex ones have variance 1 in total."""
    dtype, source = xp.dtype(dtype), rng(xp, generator)
    if is_single_or_double(dtype):
        return xp.asarray(source.standard_normal(size, dtype))
    refuse_integers("normal_kernel", dtype)
    if dtype.kind == "c":
        real = "float32" if dtype.itemsize == 8 else "float64"
        parts = source.standard_normal((2, *size), dtype=real)
        return ((parts[0] + 1j * parts[1]) * 0.5**0.5).astype(dtype)
    return xp.asarray(source.standard_normal(size, dtype="float32")).astype(dtype)


def integer_array(xp, low, high, size, dtype, generator):
    """Integers of [low, high)."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    wide = "uint64" if high > 2**63 else "int64"
    return xp.asarray(rng(xp, generator).integers(low, high, size, dtype=wide)).astype(dtype)


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
    return integer_array(xp, low, high, size, "int64" if dtype is None else dtype, generator)


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
    if size is None:
        raise TypeError("randint() takes a tuple of ints as its size: write randint(10, (2, 3)) or (5, 10, (2, 3))")
    return F.randint_sized(
        low, high, size, generator=generator, out=out, dtype=dtype, device=device, requires_grad=requires_grad
    )


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
    return xp.argsort(rng(xp, generator).random(n)).astype("int64" if dtype is None else dtype)


@randperm.samples
def randperm_samples(make):
    yield make.args(5)


@composite(at=("rand_like",))
def rand_like(
    F, input, *, generator=None, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None
):
    """Uniform random numbers of [0, 1) in the shape of `input`.

    >>> import plugrad as torch
    >>> torch.rand_like(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    result = F.rand(input.shape, generator=generator, **options(input, dtype, device, False))
    return like(F, result, input, memory_format, requires_grad)


@composite(at=("randn_like",))
def randn_like(
    F, input, *, generator=None, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None
):
    """Standard normal random numbers in the shape of `input`.

    >>> import plugrad as torch
    >>> torch.randn_like(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    result = F.randn(input.shape, generator=generator, **options(input, dtype, device, False))
    return like(F, result, input, memory_format, requires_grad)


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
    requires_grad=False,
    memory_format=None,
):
    """Random integers of [low, high) in the shape and dtype of `input`.

    One number is `high`.

    >>> import plugrad as torch
    >>> torch.randint_like(torch.zeros(2), 1)
    tensor([0., 0.])
    """
    if low is None and high is None:
        raise TypeError("randint_like() lacks the end of the range: write randint_like(input, 10)")
    low, high = (0, low) if high is None else (low or 0, high)
    result = F.randint(low, high, input.shape, generator=generator, **options(input, dtype, device, False))
    return like(F, result, input, memory_format, requires_grad)


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
    return (normal_array(xp, size, dtype, generator) * std + mean).astype(dtype)


@normal_sized.samples
def normal_sized_samples(make):
    yield make.args((2, 3), 1.0, 0.5)


@op(at=())
def normal_around(xp, mean, std, *, generator=None):
    """Normal samples, one for each pair of broadcast mean and deviation."""
    mean_like = mean if hasattr(mean, "dtype") else std
    refuse_integers("normal_kernel", mean_like.dtype)
    check_deviation(xp, std)
    size = getattr(mean + std, "shape", ())
    return xp.asarray(normal_array(xp, size, mean_like.dtype, generator) * std + mean).astype(mean_like.dtype)


def check_deviation(xp, std):
    if hasattr(std, "dtype"):
        if std.size and not bool(xp.all(std >= 0)):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
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
        if std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
        return F.normal_sized(
            size, mean, std, generator=generator, dtype=dtype, device=device, requires_grad=requires_grad
        )
    if not (hasattr(mean, "dtype") or hasattr(std, "dtype")):
        raise TypeError(
            "normal() received an invalid combination of arguments: with two numbers it needs a size, "
            "as in torch.normal(0.0, 1.0, (2, 3))"
        )
    return F.normal_around(mean, std, generator=generator)


normal.samples(normal_samples)


@op(at=("bernoulli", "Tensor.bernoulli"), like="input", kinds={"p": "tensor|float?"})
def bernoulli(xp, input, p=None, *, generator=None):
    """Zeros and ones, each one with the probability held by `input` (or `p` for all).

    Raises `RuntimeError` for probabilities outside [0, 1].

    >>> import plugrad as torch
    >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is None:
        refuse_integers("bernoulli_tensor_cpu_p_", input.dtype)
        if input.size and not bool(xp.all((input >= 0) & (input <= 1))):
            raise RuntimeError(
                "Expected p_in >= 0 && p_in <= 1 to be true, but got false: every element of the input is a probability"
            )
        p = input
    return coin_flips(xp, input.shape, p, generator).astype(input.dtype)


def coin_flips(xp, shape, p, generator):
    if not hasattr(p, "dtype") and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return xp.asarray(rng(xp, generator).random(shape) < p)


bernoulli.vjp(no_gradient)


@bernoulli.samples
def bernoulli_samples(make):
    yield make(2, 3, low=0, high=1)


@op(vjp=None)
def multinomial(xp, input, num_samples, replacement=False, *, generator=None):
    """Indices drawn in proportion to the weights in each row of `input`.

    `input` is 1-d or 2-d with non-negative weights; the result has `num_samples` int64 columns. Without replacement
    the largest of weight / exponential sample are taken (Efraimidis and Spirakis 2006). Raises `RuntimeError` for
    weights that are negative, infinite or all zero.

    >>> import plugrad as torch
    >>> torch.multinomial(torch.tensor([0.0, 1.0]), 3, replacement=True)
    tensor([1, 1, 1])
    """
    check_weights(xp, input, num_samples, replacement)
    weights = input.astype("float64") if input.ndim == 2 else input.astype("float64")[None]
    rows, k = weights.shape
    if replacement:
        cdf = xp.cumsum(weights, 1)
        cdf = cdf / cdf[:, -1:] + xp.arange(rows)[:, None]
        u = rng(xp, generator).random((rows, num_samples)) + xp.arange(rows)[:, None]
        u = xp.minimum(u, xp.nextafter(xp.arange(1.0, rows + 1), 0)[:, None])  # the shift by the row may round up
        picked = xp.searchsorted(cdf.ravel(), u.ravel(), side="right").reshape(u.shape) - k * xp.arange(rows)[:, None]
    else:
        waits = -xp.log1p(-rng(xp, generator).random(weights.shape)) + 1e-300
        picked = xp.argsort(-weights / waits, axis=1)[:, :num_samples]
    return (picked if input.ndim == 2 else picked[0]).astype("int64")


def check_weights(xp, input, num_samples, replacement):
    if input.dtype.kind != "f" and input.dtype.name != "bfloat16":
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype}")
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if not bool(xp.all(xp.isfinite(input) & (input >= 0))):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not bool(xp.all(input.sum(-1) > 0)):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


@multinomial.meta
def multinomial_meta(input, num_samples, replacement=False, *, generator=None):
    return (*input.shape[:-1], num_samples), plugrad.int64.numpy


@multinomial.samples
def multinomial_samples(make):
    yield make(2, 4, low=0, high=1), 3
    yield make(4, low=0, high=1), 6, True


@op(at=("poisson",), like="input")
def poisson(xp, input, generator=None):
    """Poisson random numbers of the rates in `input`.

    Raises `RuntimeError` for negative rates.

    >>> import plugrad as torch
    >>> torch.poisson(torch.zeros(2))
    tensor([0., 0.])
    """
    refuse_integers("poisson_cpu", input.dtype)
    if input.size and not bool(xp.all(input >= 0)):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return xp.asarray(rng(xp, generator).poisson(input.astype("float64"))).astype(input.dtype)


poisson.vjp(no_gradient)


@poisson.samples
def poisson_samples(make):
    yield make(2, 3, low=0, high=9)


@op(at=("binomial",))
def binomial(xp, count, prob, generator=None):
    """Binomial random numbers: successes in `count` trials of probability `prob`.

    >>> import plugrad as torch
    >>> torch.binomial(torch.tensor([3.0]), torch.tensor([1.0]))
    tensor([3.])
    """
    for name, array in (("count", count), ("prob", prob)):
        if array.dtype.kind not in DIFFERENTIABLE:
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {array.dtype}")
    if count.dtype != prob.dtype:
        raise RuntimeError(f"binomial expects count and prob to have one dtype, but got {count.dtype} and {prob.dtype}")
    drawn = rng(xp, generator).binomial(count.astype("int64"), prob.astype("float64"))
    return xp.asarray(drawn).astype(count.dtype)


@binomial.meta
def binomial_meta(count, prob, generator=None):
    return normal_around_meta(count, prob)


@binomial.vjp("count")
def binomial_vjp_count(F, g, count_shape):
    return F.sum_to_size(F.zeros_like(g), count_shape)


@binomial.vjp("prob")
def binomial_vjp_prob(F, g, prob_shape):
    return F.sum_to_size(F.zeros_like(g), prob_shape)


@binomial.samples
def binomial_samples(make):
    yield make.ints(3, low=0, high=9).double(), make(3, low=0, high=1)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
