"""Kullback-Leibler divergences of our distributions: of one family in closed form, of two as cross entropy - entropy.

The cross entropy of p under q needs means under p only: of x, its square, its logarithm or an exponential. They are
functions of p here, and each q says in what way it needs them.
"""

from __future__ import annotations

import math

import plugrad
from plugrad.distributions import ExponentialFamily, kl_divergence, register_kl
from plugrad.distributions.utils import euler_constant, sum_rightmost
from plugrad.nn import functional as F

from .categories import Categorical, OneHotCategorical
from .compositions import Independent, TransformedDistribution
from .counts import Bernoulli, Binomial, ContinuousBernoulli, Geometric, Poisson
from .derived import Gumbel, HalfNormal, Pareto
from .gammas import Beta, Dirichlet, Exponential, Gamma
from .location_scale import Cauchy, Laplace, Normal, Uniform
from .multivariate import LowRankMultivariateNormal, MultivariateNormal, half_log_det, mahalanobis

# ---------------------------------------------------------------------------------------------------- one family


@register_kl(Normal, Normal)
def normals(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def half_normals(p, q):
    return normals(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def laplaces(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * plugrad.exp(-distance / p.scale) - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def cauchys(p, q):
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Uniform, Uniform)
def uniforms(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return plugrad.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Gumbel, Gumbel)
def gumbels(p, q):
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    mean = ratio * euler_constant + shift - ratio.log()
    return mean + plugrad.exp((1 + ratio).lgamma() - shift) - (1 + euler_constant)


@register_kl(Exponential, Exponential)
def exponentials(p, q):
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def gammas(p, q):
    return (
        q.concentration * (p.rate / q.rate).log()
        + plugrad.lgamma(q.concentration) - plugrad.lgamma(p.concentration)
        + (p.concentration - q.concentration) * plugrad.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )  # fmt: skip


def _dirichlets(p, q):
    """Of concentrations along the last dimension."""
    total_p, total_q, more = p.sum(-1), q.sum(-1), p - q
    moved = (more * (p.digamma() - total_p.digamma().unsqueeze(-1))).sum(-1)
    return total_p.lgamma() - total_q.lgamma() - (p.lgamma() - q.lgamma()).sum(-1) + moved


@register_kl(Dirichlet, Dirichlet)
def dirichlets(p, q):
    return _dirichlets(p.concentration, q.concentration)


@register_kl(Beta, Beta)
def betas(p, q):
    return _dirichlets(p._dirichlet.concentration, q._dirichlet.concentration)


@register_kl(Pareto, Pareto)
def paretos(p, q):
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return plugrad.where(p.scale < q.scale, math.inf, result)


@register_kl(Bernoulli, Bernoulli)
def bernoullis(p, q):
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    one = plugrad.where(p.probs == 0, 0.0, plugrad.where(q.probs == 0, math.inf, one))
    return one + plugrad.where(p.probs == 1, 0.0, plugrad.where(q.probs == 1, math.inf, zero))


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def continuous_bernoullis(p, q):
    of_p = p._cont_bern_log_norm() + plugrad.log1p(-p.probs)
    return p.mean * (p.logits - q.logits) + of_p - q._cont_bern_log_norm() - plugrad.log1p(-q.probs)


@register_kl(Binomial, Binomial)
def binomials(p, q):
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    failing = (-p.probs).log1p() - (-q.probs).log1p()
    result = p.total_count * (p.probs * (p.logits - q.logits) + failing)
    return plugrad.where(p.total_count > q.total_count, math.inf, result)


@register_kl(Geometric, Geometric)
def geometrics(p, q):
    return -p.entropy() - plugrad.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def poissons(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def categoricals(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms = plugrad.where(p.probs == 0, 0.0, plugrad.where(q.probs == 0, math.inf, terms))
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def one_hot_categoricals(p, q):
    return categoricals(p._categorical, q._categorical)


@register_kl(ExponentialFamily, ExponentialFamily)
def exponential_families(p, q):
    """By the Bregman divergence of the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    parameters, normalizer, means = p.normalizer_and_means()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for of_p, of_q, mean in zip(parameters, q._natural_params, means):
        result = result - sum_rightmost((of_q - of_p) * mean, len(q.event_shape))
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of transformed distributions needs the same transforms and event shapes")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def independents(p, q):
    n = p.reinterpreted_batch_ndims
    if n != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independent distributions needs equal reinterpreted_batch_ndims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), n)


# ---------------------------------------------------------------------------------------------------- vectors


def _same_events(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two (Low Rank) Multivariate Normals with different event shapes "
            f"{tuple(p.event_shape)} and {tuple(q.event_shape)} cannot be computed"
        )
    return p.event_shape[0]


def _squares(matrix):
    return matrix.pow(2).sum((-2, -1))


def _log_det(p):
    if isinstance(p, LowRankMultivariateNormal):
        return p.log_det()
    return 2 * half_log_det(p._unbroadcasted_scale_tril)


def _factors(p):
    """Matrices whose squares add up to the covariance."""
    if isinstance(p, LowRankMultivariateNormal):
        return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]
    return [p._unbroadcasted_scale_tril]


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def to_multivariate_normal(p, q):
    n, tril = _same_events(p, q), q._unbroadcasted_scale_tril
    spreads = [_squares(plugrad.linalg.solve_triangular(tril, factor, upper=False)) for factor in _factors(p)]
    distance = mahalanobis(tril, q.loc - p.loc)
    return 0.5 * (2 * half_log_det(tril) - _log_det(p) + sum(spreads) + distance - n)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def to_low_rank(p, q):
    n, scaled = _same_events(p, q), q._scaled()
    root = q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    spread = sum([_squares(factor * root) - _squares(scaled @ factor) for factor in _factors(p)])
    return 0.5 * (q.log_det() - _log_det(p) + spread + q.mahalanobis(q.loc - p.loc) - n)


# ---------------------------------------------------------------------------------------------------- two families


def _x_log_x(x):
    return plugrad.special.xlogy(x, x)


def _mean_log_between(low, high):
    """The mean of log x for x uniform on [low, high]."""
    return (_x_log_x(high) - _x_log_x(low)) / (high - low) - 1


def _log_total(p):
    return (p.concentration1 + p.concentration0).digamma()


MEAN_LOG = {  # of log x
    Beta: lambda p: p.concentration1.digamma() - _log_total(p),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _mean_log_between(p.low, p.high),
}
MEAN_EXP = {  # of exp(-x / s)
    Exponential: lambda p, s: p.rate * s / (p.rate * s + 1),
    Gamma: lambda p, s: (1 + (p.rate * s).reciprocal()).pow(-p.concentration),
    Normal: lambda p, s: plugrad.exp(-p.loc / s + 0.5 * (p.scale / s).pow(2)),
    Uniform: lambda p, s: s / (p.high - p.low) * (plugrad.exp(-p.low / s) - plugrad.exp(-p.high / s)),
}


def _under_normal(p, q):
    square = (p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2)
    return 0.5 * (math.log(2 * math.pi) + square) + q.scale.log()


def _under_exponential(p, q):
    return q.rate * p.mean - q.rate.log()


def _under_gamma(p, q):
    normalizer = q.concentration.lgamma() - q.concentration * q.rate.log()
    return normalizer + (1 - q.concentration) * MEAN_LOG[_known(p, MEAN_LOG)](p) + q.rate * p.mean


def _under_gumbel(p, q):
    mean_exp = MEAN_EXP[_known(p, MEAN_EXP)](p, q.scale)
    return q.scale.log() + (p.mean - q.loc) / q.scale + plugrad.exp(q.loc / q.scale) * mean_exp


def _under_continuous_bernoulli(p, q):
    return -p.mean * q.logits - plugrad.log1p(-q.probs) - q._cont_bern_log_norm()


def _under_uniform(p, q):
    return (q.high - q.low).log()


def _under_beta(p, q):  # of a uniform p
    a, b = q.concentration1, q.concentration0
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    logs = (a - 1) * _mean_log_between(p.low, p.high) + (b - 1) * _mean_log_between(1 - p.high, 1 - p.low)
    return log_beta - logs


def _under_pareto(p, q):  # of a uniform p
    return (q.alpha + 1) * _mean_log_between(p.low, p.high) - (q.alpha * q.scale.pow(q.alpha)).log()


def _under_laplace(p, q):  # of a normal p
    shift = (p.loc - q.loc) / p.scale
    near = math.sqrt(2 / math.pi) * plugrad.exp(-0.5 * shift.pow(2)) + shift * plugrad.erf(math.sqrt(0.5) * shift)
    return (2 * q.scale).log() + p.scale * near / q.scale


def _under_poisson(p, q):  # of a p whose values are 0 and 1
    return q.rate - p.probs * q.rate.log()


def _known(p, table):
    return next(one for one in table if isinstance(p, one))


def _region(p):
    return (p.low, p.high) if isinstance(p, Uniform) else (p.support.lower_bound, p.support.upper_bound)


def _outside(p, q):
    """Where p has values that q has not: only uniform ones need a look, others are known by their family."""
    if isinstance(p, Uniform) and isinstance(q, (Exponential, Gamma)):
        return p.low < 0
    if isinstance(p, Uniform) and isinstance(q, Pareto):
        return p.low < q.scale
    if (isinstance(p, Uniform) and isinstance(q, (Beta, ContinuousBernoulli))) or isinstance(q, Uniform):
        (low, high), (least, most) = _region(p), _region(q)
        return (low < least) | (high > most)
    return None


def _cross(under):
    def divergence(p, q):
        result, outside = under(p, q) - p.entropy(), _outside(p, q)
        return result if outside is None else plugrad.where(outside, math.inf, result)

    return divergence


CROSS_ENTROPIES = {
    Normal: (_under_normal, Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform),
    Exponential: (_under_exponential, Beta, ContinuousBernoulli, Gamma, Pareto, Uniform),
    Gamma: (_under_gamma, Beta, Exponential, Pareto, Uniform),
    Gumbel: (_under_gumbel, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (_under_continuous_bernoulli, Beta, Uniform),
    Uniform: (_under_uniform, Beta, ContinuousBernoulli),
    Beta: (_under_beta, Uniform),
    Pareto: (_under_pareto, Uniform),
    Laplace: (_under_laplace, Normal),
    Poisson: (_under_poisson, Bernoulli),
}
for _q, (_under, *_of) in CROSS_ENTROPIES.items():
    for _p in _of:
        register_kl(_p, _q)(_cross(_under))

BOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
POSITIVE = (Exponential, Gamma)
INFINITE = {  # p has values where the density of q is 0, whatever the parameters
    Beta: (Pareto,), ContinuousBernoulli: (Pareto,), Exponential: BOUNDED, Gamma: BOUNDED,
    Gumbel: BOUNDED + POSITIVE, Laplace: BOUNDED + POSITIVE, Normal: BOUNDED + POSITIVE,
    Pareto: (Beta, ContinuousBernoulli, Uniform), Poisson: (Bernoulli, Binomial),
}  # fmt: skip


def infinite(p, q):
    return plugrad.full_like(p.mean, math.inf)


for _p, _all in INFINITE.items():
    for _q in _all:
        register_kl(_p, _q)(infinite)
