"""Numbers drawn from weights, rates and shapes: multinomial, poisson, binomial, gamma, Dirichlet."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, composite, dtype_of, hookimpl, op, rng, scipy_of

from . import _rejection as rejection
from ._checks import DIFFERENTIABLE, ordered_floats, underived
from ._draws import doubles, exponential_array, refuse_integers
from ._implicit import beta_derivative, gamma_derivative
from .random import no_gradient, normal_around_meta


def _range(dtype):
    return plugrad.finfo(dtype_of(dtype))


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
    if not input.size:  # no rows, and so nothing that could be stacked
        return xp.empty((*input.shape[:-1], num_samples), "int64")
    if not replacement or num_samples == 1:
        waits = xp.maximum(exponential_array(xp, input.shape, input.dtype, generator), _range(input.dtype).tiny)
        order = xp.argsort(ordered_floats(-(input / waits.astype(input.dtype))), axis=-1, kind="stable")
        return order[..., :num_samples].astype("int64")
    wide = "float64" if input.dtype.itemsize == 8 else "float32"
    shares = xp.cumsum(input if input.ndim == 2 else input[None], 1, dtype=wide)
    shares = (shares / shares[:, -1:]).astype("float64")
    drawn = doubles(xp, rng(xp, generator), (shares.shape[0], num_samples))
    last = input.shape[-1] - 1
    picked = xp.stack([xp.minimum(xp.searchsorted(row, u), last) for row, u in zip(shares, drawn)])
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
    if input.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24; draw the number of a group of them first")
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
    source = rng(xp, generator)
    drawn = rejection.draw(rejection.poisson, source, input)
    return xp.asarray(source.poisson(input.astype("float64")) if drawn is None else drawn).astype(input.dtype)


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
    source = rng(xp, generator)
    drawn = rejection.draw(rejection.binomial, source, count, prob)
    if drawn is None:
        drawn = source.binomial(count.astype("int64"), prob.astype("float64"))
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


def gamma_array(xp, alpha, generator):
    """Standard gamma samples in float64."""
    source = rng(xp, generator)
    drawn = rejection.draw(rejection.gamma, source, alpha)
    return xp.asarray(source.standard_gamma(alpha.astype("float64")) if drawn is None else drawn)


@op(at=(), like="input")
def gamma_samples(xp, input, generator=None):
    """Gamma random numbers of the shapes in `input` and scale 1."""
    refuse_integers("gamma_cpu", input.dtype)
    drawn = gamma_array(xp, input, generator).astype(input.dtype)
    return xp.maximum(drawn, input.dtype.type(_range(input.dtype).tiny))


@gamma_samples.vjp
def gamma_samples_vjp(F, g, y, input):
    return g * F.standard_gamma_grad(input, y)


@composite(at=("_standard_gamma",))
def standard_gamma(F, input, generator=None):
    """Gamma random numbers of the shapes in `input` and scale 1, with gradients.

    >>> import plugrad as torch
    >>> bool((torch._standard_gamma(torch.ones(9)) > 0).all())
    True
    """
    return F.gamma_samples(input, generator)


@op(at=("_standard_gamma_grad",), node="NotImplemented")
def standard_gamma_grad(xp, input, output):
    """How gamma samples `output` move with their shapes: see `_implicit`.

    >>> import plugrad as torch
    >>> torch._standard_gamma_grad(torch.ones(1), torch.ones(1))
    tensor([1.1736])
    """
    return gamma_derivative(xp, scipy_of(xp, "special").digamma, input, output).astype(input.dtype)


@op(at=(), like="input")
def dirichlet_samples(xp, input, generator=None):
    """Random shares that add up to 1, of the concentrations along the last dimension."""
    refuse_integers("dirichlet", input.dtype)
    drawn = xp.maximum(gamma_array(xp, input, generator), rejection.LEAST)
    shares, info = drawn / drawn.sum(-1, keepdims=True), _range(input.dtype)
    return xp.clip(shares, info.tiny, 1 - info.eps / 2).astype(input.dtype)


@dirichlet_samples.vjp
def dirichlet_samples_vjp(F, g, y, input):
    total = F.expand(F.sum(input, -1, True), input.shape)
    return F.dirichlet_grad(y, input, total) * (g - F.sum(y * g, -1, True))


@composite(at=("_sample_dirichlet",))
def sample_dirichlet(F, input, generator=None):
    """Random shares that add up to 1, with gradients.

    `input` has the concentrations along its last dimension.

    >>> import plugrad as torch
    >>> float(torch._sample_dirichlet(torch.ones(4, dtype=torch.float64)).sum().round(decimals=9))
    1.0
    """
    return F.dirichlet_samples(input, generator)


@op(at=("_dirichlet_grad",), node="NotImplemented", kinds={"alpha": "tensor", "total": "tensor"})
def dirichlet_grad(xp, x, alpha, total):
    """How a share of a Dirichlet sample moves with its concentration.

    It is divided by 1 - `x`; see `_implicit`. `total` is the sum of the concentrations.

    >>> import plugrad as torch
    >>> torch._dirichlet_grad(torch.tensor([0.5]), torch.ones(1), torch.full((1,), 2.0))
    tensor([0.6931])
    """
    return beta_derivative(xp, scipy_of(xp, "special").digamma, x, alpha, total).astype(x.dtype)


@standard_gamma_grad.meta
@dirichlet_grad.meta
def broadcast_like_the_first(first, *others):
    return plugrad.broadcast_shapes(first.shape, *[t.shape for t in others]), first.dtype, [first]


@gamma_samples.samples
@standard_gamma.samples
@dirichlet_samples.samples
@sample_dirichlet.samples
def concentrations(make):
    yield make(2, 3, low=0.5, high=3, requires_grad=False)


standard_gamma_grad.vjp("input")(underived("_standard_gamma_grad"))
dirichlet_grad.vjp("x", "alpha", "total")(underived("_dirichlet_grad"))


@standard_gamma_grad.samples
def standard_gamma_grad_samples(make):
    yield make(2, 3, low=0.5, high=3, requires_grad=False), make(2, 3, low=0.5, high=3, requires_grad=False)


@dirichlet_grad.samples
def dirichlet_grad_samples(make):
    parts = make(2, 3, low=0.5, high=3, requires_grad=False)
    yield make(2, 3, low=0.1, high=0.9, requires_grad=False), parts, parts + 1


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
