"""Positive numbers and shares of the gamma family: Gamma, Chi2, Exponential, Beta, Dirichlet, F."""

from __future__ import annotations

import math

import plugrad
from plugrad import Size
from plugrad.distributions import Distribution, ExponentialFamily, constraints
from plugrad.distributions.utils import Number, broadcast_all
from plugrad.extend import collect, hookimpl
from plugrad.nn import functional as F

from ._parametric import Parametric


class Gamma(Parametric, ExponentialFamily):
    """The gamma distribution.

    Args:
        concentration: the shape.
        rate: the inverse of the scale.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"concentration": 0, "rate": 0}

    def __init__(self, concentration, rate, validate_args=None):
        super().__init__(self._broadcast(concentration=concentration, rate=rate), validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        value = plugrad._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=plugrad.finfo(value.dtype).tiny)  # no history: the gradient is that of the draw
        return value

    def log_prob(self, value):
        value = plugrad.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._check(value)
        c, rate = self.concentration, self.rate
        return plugrad.xlogy(c, rate) + plugrad.xlogy(c - 1, value) - rate * value - plugrad.lgamma(c)

    def cdf(self, value):
        self._check(value)
        return plugrad.special.gammainc(self.concentration, self.rate * value)

    def entropy(self):
        c = self.concentration
        return c - plugrad.log(self.rate) + plugrad.lgamma(c) + (1.0 - c) * plugrad.digamma(c)

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return plugrad.lgamma(x + 1) + (x + 1) * plugrad.log(-y.reciprocal())


class Chi2(Gamma):
    """The chi-squared distribution.

    Args:
        df: degrees of freedom.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Chi2(4.0).variance
    tensor(8.)
    """

    arg_constraints = {"df": constraints.positive}
    _parameters = Gamma._parameters

    @staticmethod
    def samples(make):
        yield make(2, low=1, high=5)

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self):
        """Degrees of freedom."""
        return self.concentration * 2


class Exponential(Parametric, ExponentialFamily):
    """The exponential distribution.

    Args:
        rate: the inverse of the mean.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        super().__init__(self._broadcast(rate=rate), validate_args=validate_args)

    mean = stddev = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: plugrad.zeros_like(self.rate))
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape=Size()):
        drawn = plugrad.empty(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device)
        return drawn.exponential_() / self.rate

    def log_prob(self, value):
        self._check(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        self._check(value)
        return 1 - plugrad.exp(-self.rate * value)

    def icdf(self, value):
        return -plugrad.log1p(-value) / self.rate

    def entropy(self):
        return 1.0 - plugrad.log(self.rate)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -plugrad.log(-x)


def dirichlet_backward(x, concentration, grad_output):
    """The gradient of a Dirichlet sample `x` to its concentrations."""
    total = concentration.sum(-1, True).expand_as(concentration)
    return plugrad._dirichlet_grad(x, concentration, total) * (grad_output - (x * grad_output).sum(-1, True))


class Dirichlet(Parametric, ExponentialFamily):
    """The Dirichlet distribution of shares that add up to 1.

    Args:
        concentration: (..., K), positive.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Dirichlet(torch.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameters = {"concentration": 1}

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        return plugrad._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._check(value)
        c = self.concentration
        return plugrad.xlogy(c - 1.0, value).sum(-1) + plugrad.lgamma(c.sum(-1)) - plugrad.lgamma(c).sum(-1)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self):
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = (self.concentration < 1).all(dim=-1, keepdim=True)  # the whole mass is near the corners
        largest = F.one_hot(mode.argmax(dim=-1), above.shape[-1]).to(mode)
        return plugrad.where(corner, largest, mode)

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        c = self.concentration
        k, total = c.size(-1), c.sum(-1)
        log_beta = plugrad.lgamma(c).sum(-1) - plugrad.lgamma(total)
        return log_beta - (k - total) * plugrad.digamma(total) - ((c - 1.0) * plugrad.digamma(c)).sum(-1)

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - plugrad.lgamma(x.sum(-1))


class Beta(Parametric, ExponentialFamily):
    """The beta distribution of numbers between 0 and 1.

    Args:
        concentration1, concentration0: the shapes at 1 and at 0.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = {"_dirichlet": 0}

    def __init__(self, concentration1, concentration0, validate_args=None):
        if isinstance(concentration1, Number) and isinstance(concentration0, Number):
            both = plugrad.tensor([float(concentration1), float(concentration0)])
        else:
            both = plugrad.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def concentration1(self):
        """The shape at 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self):
        """The shape at 0."""
        return self._dirichlet.concentration[..., 1]

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self._dirichlet.mode[..., 0])

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        self._check(value)
        return self._dirichlet.log_prob(plugrad.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return plugrad.lgamma(x) + plugrad.lgamma(y) - plugrad.lgamma(x + y)


class FisherSnedecor(Parametric):
    """The F distribution: the quotient of two variances.

    Args:
        df1, df2: degrees of freedom above and below.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = {"df1": 0, "df2": 0, "_gamma1": 0, "_gamma2": 0}

    @staticmethod
    def samples(make):
        yield make(2, low=2, high=9), make(2, low=9, high=20)

    def __init__(self, df1, df2, validate_args=None):
        shape = self._broadcast(df1=df1, df2=df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self):
        df2 = plugrad.where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self):
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return plugrad.where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self):
        df2 = plugrad.where(self.df2 <= 4, math.nan, self.df2)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape=Size()):
        above, below = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        tiny = plugrad.finfo(below.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value):
        self._check(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        log_beta = half1.lgamma() + half2.lgamma() - (half1 + half2).lgamma()
        heights = half1 * ratio.log() + (half1 - 1) * plugrad.log(value)
        return heights - log_beta - (half1 + half2) * plugrad.log1p(ratio * value)


@hookimpl
def plugrad_distributions():
    return collect(Distribution, globals())
