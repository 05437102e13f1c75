"""Probability distributions with gradients, under the names of `torch.distributions`.

What every distribution stands on is here: `Distribution`, constraints, transforms and the registry of divergences.
The distributions themselves are plugins, a kind of their own, and looked up when they are first used.
"""

from __future__ import annotations

import sys
import types

from plugrad.distributions import constraints, kl, transforms, utils  # noqa: F401
from plugrad.distributions.constraint_registry import biject_to, transform_to
from plugrad.distributions.distribution import Distribution
from plugrad.distributions.exp_family import ExponentialFamily
from plugrad.distributions.kl import kl_divergence, register_kl
from plugrad.distributions.transforms import *  # noqa: F403
from plugrad.registry import lazy_names

_FAMILIES = (
    "Bernoulli Beta Binomial Categorical Cauchy Chi2 ContinuousBernoulli Dirichlet Exponential FisherSnedecor Gamma "
    "GeneralizedPareto Geometric Gumbel HalfCauchy HalfNormal Independent InverseGamma Kumaraswamy LKJCholesky Laplace "
    "LogNormal LogisticNormal LowRankMultivariateNormal MixtureSameFamily Multinomial MultivariateNormal "
    "NegativeBinomial Normal OneHotCategorical OneHotCategoricalStraightThrough Pareto Poisson RelaxedBernoulli "
    "RelaxedOneHotCategorical StudentT TransformedDistribution Uniform VonMises Weibull Wishart"
).split()

__all__ = [
    "Distribution", "ExponentialFamily", "biject_to", "constraints", "kl_divergence", "register_kl", "transform_to",
    *_FAMILIES, *transforms.__all__,
]  # fmt: skip
__all__.remove("constraints")

__getattr__, __dir__ = lazy_names(globals(), "distributions")

# PyTorch's modules, each with a distribution or two: `torch.distributions.normal.Normal`.
_MODULES = (
    "bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet exponential fishersnedecor gamma "
    "generalized_pareto geometric gumbel half_cauchy half_normal independent inverse_gamma kumaraswamy laplace "
    "lkj_cholesky log_normal logistic_normal lowrank_multivariate_normal mixture_same_family multinomial "
    "multivariate_normal negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli "
    "relaxed_categorical studentT transformed_distribution uniform von_mises weibull wishart"
).split()

# What libraries take from there although it is private: the distribution in whose file it stands here, and its name.
_PRIVATE = {
    "_batch_mahalanobis": ("MultivariateNormal", "mahalanobis"),
    "_batch_mv": ("MultivariateNormal", "times_vector"),
    "_precision_to_scale_tril": ("MultivariateNormal", "tril_of_precision"),
    "_Dirichlet_backward": ("Dirichlet", "dirichlet_backward"),
}


def _of_path(attribute: str):
    if attribute in _PRIVATE:
        family, name = _PRIVATE[attribute]
        return getattr(sys.modules[getattr(sys.modules[__name__], family).__module__], name)
    return getattr(sys.modules[__name__], attribute)


def _path(name: str) -> types.ModuleType:
    module = types.ModuleType(f"{__name__}.{name}", f"A path of PyTorch's to what {__name__} has.")
    module.__getattr__ = _of_path
    return sys.modules.setdefault(module.__name__, module)


globals().update({name: _path(name) for name in _MODULES})

if sys.modules.get("torch") is sys.modules["plugrad"]:  # there are libraries that take all classes of the namespace
    sys.modules["plugrad.as_torch"].load_ours("distributions")
