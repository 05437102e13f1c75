"""Distributions that are others under a transform: LogNormal, HalfNormal, Gumbel, Pareto, Weibull and more."""

from __future__ import annotations

import math

import plugrad
from plugrad import Size
from plugrad.distributions import (
    AbsTransform,
    AffineTransform,
    Distribution,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
    constraints,
)
from plugrad.distributions.utils import broadcast_all, euler_constant
from plugrad.extend import collect, hookimpl

from .compositions import TransformedDistribution
from .gammas import Exponential, Gamma
from .location_scale import LOCATION_SCALE, Cauchy, Normal, Uniform


def of_base(name):
    """A property that is the base distribution's."""
    return property(lambda self: getattr(self.base_dist, name), doc=f"The base distribution's `{name}`.")


class Derived(TransformedDistribution):
    """A named TransformedDistribution: expanded by its base, and by its own parameters where it keeps some."""

    _own: tuple = ()

    def expand(self, batch_shape, _instance=None):
        owner = next(one for one in type(self).__mro__ if "_own" in vars(one))
        new = self._get_checked_instance(owner, _instance)
        for name in self._own:
            setattr(new, name, getattr(self, name).expand(batch_shape))
        return super().expand(batch_shape, _instance=new)


class LogNormal(Derived):
    """Numbers whose logarithms are normal.

    Args:
        loc, scale: mean and standard deviation of the logarithm.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = LOCATION_SCALE
    support = constraints.positive
    has_rsample = True
    _own = ()

    @staticmethod
    def samples(make):
        yield make(2), make(2, low=0.1, high=0.5)

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    loc, scale = of_base("loc"), of_base("scale")
    mean = property(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())

    @property
    def variance(self):
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class _Half(Derived):
    """The absolute values of a distribution around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _own = ()
    scale = of_base("scale")
    mode = property(lambda self: plugrad.zeros_like(self.scale))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value = plugrad.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return plugrad.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value):
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal number.

    Args:
        scale: the standard deviation of that one.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    _own = ()

    def __init__(self, scale, validate_args=None):
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))


class HalfCauchy(_Half):
    """The absolute value of a Cauchy number.

    Args:
        scale: the scale, which is the median.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.HalfCauchy(1.0).cdf(torch.tensor(1.0))
    tensor(0.5000)
    """

    _own = ()

    def __init__(self, scale, validate_args=None):
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self):
        return plugrad.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    variance = of_base("variance")


class Gumbel(Derived):
    """The Gumbel distribution of maxima.

    Args:
        loc: the mode.
        scale: the scale.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = LOCATION_SCALE
    support = constraints.real
    _own = ("loc", "scale")

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        info = plugrad.finfo(self.loc.dtype)
        ends = [plugrad.full_like(self.loc, end) for end in (info.tiny, 1 - info.eps)]
        turned = AffineTransform(loc=0, scale=-plugrad.ones_like(self.scale))
        transforms = [ExpTransform().inv, turned, ExpTransform().inv, AffineTransform(loc=loc, scale=-self.scale)]
        super().__init__(Uniform(*ends, validate_args=validate_args), transforms, validate_args=validate_args)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: (math.pi / math.sqrt(6)) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)


class Pareto(Derived):
    """The Pareto distribution of numbers above `scale`.

    Args:
        scale: the smallest number.
        alpha: how fast larger ones become rare.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Pareto(1.0, 3.0).mean
    tensor(1.5000)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _own = ("scale", "alpha")

    @staticmethod
    def samples(make):
        yield make(2, low=0.5, high=2), make(2, low=5, high=9)

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    mode = property(lambda self: self.scale)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)  # infinite there
        return a * self.scale / (a - 1)

    @property
    def variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self):
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(Derived):
    """The Weibull distribution of lifetimes.

    Args:
        scale: the scale.
        concentration: the shape; below 1 failures become rarer in time.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _own = ("scale", "concentration", "concentration_reciprocal")

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(plugrad.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n):
        return plugrad.exp(plugrad.lgamma(1 + n * self.concentration_reciprocal))

    mean = property(lambda self: self.scale * self._moment(1))
    variance = property(lambda self: self.scale.pow(2) * (self._moment(2) - self._moment(1).pow(2)))

    @property
    def mode(self):
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    def entropy(self):
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + plugrad.log(self.scale * inverse) + 1


class Kumaraswamy(Derived):
    """The Kumaraswamy distribution on (0, 1).

    It is much like Beta, with a simple distribution function.

    Args:
        concentration1, concentration0: the shapes at 1 and at 0.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _own = ("concentration1", "concentration0")

    @staticmethod
    def samples(make):
        yield make(2, low=1.5, high=3), make(2, low=1.5, high=3)

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        ends = [plugrad.full_like(self.concentration0, end) for end in (0, 1)]
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]  # fmt: skip
        super().__init__(Uniform(*ends, validate_args=validate_args), transforms, validate_args=validate_args)

    def _moment(self, n):
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * plugrad.exp(plugrad.lgamma(a) + plugrad.lgamma(b) - plugrad.lgamma(a + b))

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self.mean.pow(2))

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return plugrad.where((b < 1) | (a < 1), math.nan, log_mode).exp()

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = plugrad.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - plugrad.log(a) - plugrad.log(b)


class InverseGamma(Derived):
    """Numbers whose reciprocals have a gamma distribution.

    Args:
        concentration, rate: shape and rate of that one.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _own = ()

    @staticmethod
    def samples(make):
        yield make(2, low=5, high=9), make(2, low=0.5, high=2)

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    concentration, rate = of_base("concentration"), of_base("rate")
    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self):
        return plugrad.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def variance(self):
        c = self.concentration
        return plugrad.where(c > 2, self.rate.square() / ((c - 1).square() * (c - 2)), math.inf)

    def entropy(self):
        c = self.concentration
        return c + self.rate.log() + c.lgamma() - (1 + c) * c.digamma()


class LogisticNormal(Derived):
    """Shares that add up to 1, made of normal numbers by stick breaking.

    Args:
        loc, scale: (..., K - 1), means and standard deviations of the normal numbers.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.LogisticNormal(torch.zeros(3), torch.ones(3)).sample().shape
    torch.Size([4])
    """

    arg_constraints = LOCATION_SCALE
    support = constraints.simplex
    has_rsample = True
    _own = ()

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand(Size([1]))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc, doc="The means of the normal numbers.")
    scale = property(lambda self: self.base_dist.base_dist.scale, doc="Their standard deviations.")


@hookimpl
def plugrad_distributions():
    return [one for one in collect(Distribution, globals()) if one is not Derived]
