"""Numbers around a place: Normal, Laplace, Cauchy, Student's t, Uniform, generalised Pareto, von Mises."""

from __future__ import annotations

import math

import plugrad
from plugrad import Size
from plugrad.distributions import Distribution, ExponentialFamily, constraints
from plugrad.distributions.utils import lazy_property, standard_normal
from plugrad.extend import collect, hookimpl

from ._parametric import Parametric, drawn_without_gradient
from .gammas import Chi2

LOCATION_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class _LocationScale(Parametric):
    """A place `loc` and a `scale`; `mode` is the place."""

    arg_constraints = LOCATION_SCALE
    support = constraints.real
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(self._broadcast(loc=loc, scale=scale), validate_args=validate_args)

    @property
    def mode(self):
        return self.loc


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution.

    Args:
        loc: the mean.
        scale: the standard deviation.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-0.9189)
    """

    _parameters = {"loc": 0, "scale": 0}
    _mean_carrier_measure = 0
    mean = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.pow(2))

    @drawn_without_gradient
    def sample(self, shape):
        return plugrad.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape=Size()):
        noise = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value):
        self._check(value)
        squares = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -squares - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value):
        self._check(value)
        return 0.5 * (1 + plugrad.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value):
        return self.loc + self.scale * plugrad.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + plugrad.log(self.scale)

    @property
    def _natural_params(self):
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * plugrad.log(-math.pi / y)


class Laplace(_LocationScale):
    """The Laplace distribution: exponential on both sides of `loc`.

    Args:
        loc: the mean.
        scale: the mean distance from it.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Laplace(0.0, 1.0).cdf(torch.tensor(0.0))
    tensor(0.5000)
    """

    _parameters = {"loc": 0, "scale": 0}
    mean = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2**0.5 * self.scale)

    def rsample(self, sample_shape=Size()):
        noise = plugrad.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u = noise.uniform_(plugrad.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * plugrad.log1p(-u.abs())

    def log_prob(self, value):
        self._check(value)
        return -plugrad.log(2 * self.scale) - plugrad.abs(value - self.loc) / self.scale

    def cdf(self, value):
        self._check(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * plugrad.expm1(-distance.abs() / self.scale)

    def icdf(self, value):
        side = value - 0.5
        return self.loc - self.scale * side.sign() * plugrad.log1p(-2 * side.abs())

    def entropy(self):
        return 1 + plugrad.log(2 * self.scale)


class Cauchy(_LocationScale):
    """The Cauchy (Lorentz) distribution, which has no mean.

    Args:
        loc: the median.
        scale: half of the width at half of the height.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Cauchy(0.0, 1.0).icdf(torch.tensor(0.75))
    tensor(1.)
    """

    _parameters = {"loc": 0, "scale": 0}
    mean = property(lambda self: self._filled(math.nan, self.loc))
    variance = property(lambda self: self._filled(math.inf, self.loc))

    def rsample(self, sample_shape=Size()):
        noise = plugrad.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise.cauchy_() * self.scale

    def log_prob(self, value):
        self._check(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value):
        self._check(value)
        return plugrad.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return plugrad.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class StudentT(Parametric):
    """Student's t distribution.

    Args:
        df: degrees of freedom.
        loc: the place of the maximum.
        scale: its scale.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive, **LOCATION_SCALE}
    support = constraints.real
    has_rsample = True
    _parameters = {"df": 0, "loc": 0, "scale": 0, "_chi2": 0}

    @staticmethod
    def samples(make):
        yield make(2, low=5, high=9), make(2), make(2, low=0.5, high=2)

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        shape = self._broadcast(df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)
        super().__init__(shape, validate_args=validate_args)

    mode = property(lambda self: self.loc)

    @property
    def mean(self):
        return plugrad.where(self.df <= 1, math.nan, self.loc)

    @property
    def variance(self):
        spread = self.scale.pow(2) * self.df / (plugrad.where(self.df > 2, self.df, 3.0) - 2)
        return plugrad.where(self.df > 2, spread, plugrad.where(self.df > 1, math.inf, math.nan).to(self.df.dtype))

    def rsample(self, sample_shape=Size()):
        noise = standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        return self.loc + self.scale * (noise * plugrad.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def _log_beta(self):
        """log B(df / 2, 1 / 2)"""
        return plugrad.lgamma(0.5 * self.df) + math.lgamma(0.5) - plugrad.lgamma(0.5 * (self.df + 1.0))

    def log_prob(self, value):
        self._check(value)
        y = (value - self.loc) / self.scale
        normalizer = self.scale.log() + 0.5 * self.df.log() + self._log_beta()
        return -0.5 * (self.df + 1.0) * plugrad.log1p(y**2.0 / self.df) - normalizer

    def entropy(self):
        half = 0.5 * (self.df + 1)
        spread = plugrad.digamma(half) - plugrad.digamma(0.5 * self.df)
        return self.scale.log() + half * spread + 0.5 * self.df.log() + self._log_beta()


class Uniform(Parametric):
    """The uniform distribution on [low, high).

    >>> import plugrad as torch
    >>> torch.distributions.Uniform(0.0, 2.0).mean
    tensor(1.)
    """

    has_rsample = True
    _parameters = {"low": 0, "high": 0}

    @staticmethod
    def samples(make):
        yield make(2), make(2) + 5

    def __init__(self, low, high, validate_args=None):
        super().__init__(self._broadcast(low=low, high=high), validate_args=validate_args)

    @property
    def arg_constraints(self):
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: math.nan * self.high)
    stddev = property(lambda self: (self.high - self.low) / 12**0.5)
    variance = property(lambda self: (self.high - self.low).pow(2) / 12)

    def rsample(self, sample_shape=Size()):
        drawn = plugrad.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value):
        self._check(value)
        inside = self.low.le(value) & self.high.gt(value)
        return plugrad.log(inside.type_as(self.low)) - plugrad.log(self.high - self.low)

    def cdf(self, value):
        self._check(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return plugrad.log(self.high - self.low)


class GeneralizedPareto(Parametric):
    """The generalised Pareto distribution: what exceeds a high threshold.

    Args:
        loc: the threshold.
        scale: the scale.
        concentration: the shape; 0 is exponential, a negative one ends at loc - scale / concentration.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.GeneralizedPareto(0.0, 1.0, 0.0).mean
    tensor(1.)
    """

    arg_constraints = {**LOCATION_SCALE, "concentration": constraints.real}
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0, "concentration": 0}

    @staticmethod
    def samples(make):
        yield make(2), make(2, low=0.5, high=2), make(2, low=-0.2, high=0.2)

    def __init__(self, loc, scale, concentration, validate_args=None):
        shape = self._broadcast(loc=loc, scale=scale, concentration=concentration)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = plugrad.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)

    def _shape(self):
        """Where the shape counts as 0, and the shape with 1 in those places."""
        zero = plugrad.isclose(self.concentration, plugrad.zeros_like(self.concentration))
        return zero, plugrad.where(zero, 1.0, self.concentration)

    mode = property(lambda self: self.loc)

    @property
    def mean(self):
        known = self.concentration < 1
        result = self.loc + self.scale / (1 - plugrad.where(known, self.concentration, 0.5))
        return plugrad.where(known, result, math.nan)

    @property
    def variance(self):
        known = self.concentration < 0.5
        c = plugrad.where(known, self.concentration, 0.25)
        return plugrad.where(known, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.nan)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(plugrad.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value):
        self._check(value)
        z, (zero, c) = (value - self.loc) / self.scale, self._shape()
        power = 1 / c + 1
        curved = plugrad.where(power == 0, 0.0, power * plugrad.log1p(c * z))
        return -self.scale.log() - plugrad.where(zero, z, curved)

    def log_survival_function(self, value):
        """Return the logarithm of the probability of what is above a value."""
        self._check(value)
        z, (zero, c) = (value - self.loc) / self.scale, self._shape()
        return plugrad.where(zero, -z, -plugrad.log1p(c * z) / c)

    def log_cdf(self, value):
        """Return the logarithm of the probability of what is not above a value."""
        return plugrad.log1p(-plugrad.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return plugrad.exp(self.log_cdf(value))

    def icdf(self, value):
        rest, (zero, c) = plugrad.log1p(-value), self._shape()
        curved = self.loc + self.scale / c * plugrad.expm1(-c * rest)
        return plugrad.where(zero, self.loc - self.scale * rest, curved)

    def entropy(self):
        return (plugrad.log(self.scale) + self.concentration + 1).expand(self._batch_shape)


class VonMises(Parametric):
    """The von Mises distribution of angles, in radians.

    Args:
        loc: the mean angle.
        concentration: how near to it they are.
        validate_args: whether arguments are checked.

    Samples by rejection from a wrapped Cauchy distribution: D. Best, N. Fisher, "Efficient simulation of the von Mises
    distribution", 1979.

    >>> import plugrad as torch
    >>> bool(torch.distributions.VonMises(0.0, 4.0).sample((9,)).abs().max() <= torch.pi)
    True
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _parameters = {"loc": 0, "concentration": 0}

    def __init__(self, loc, concentration, validate_args=None):
        super().__init__(self._broadcast(loc=loc, concentration=concentration), validate_args=validate_args)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        """The circular variance."""
        return 1 - plugrad.special.i1e(self.concentration) / plugrad.special.i0e(self.concentration)

    def log_prob(self, value):
        self._check(value)
        log_bessel = plugrad.special.i0e(self.concentration).log() + self.concentration
        return self.concentration * plugrad.cos(value - self.loc) - math.log(2 * math.pi) - log_bessel

    @drawn_without_gradient
    def sample(self, shape):
        loc, kappa = self.loc.double(), self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        r = plugrad.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))
        angle, done = plugrad.zeros(shape, dtype=loc.dtype, device=loc.device), plugrad.zeros(shape, dtype=plugrad.bool)
        done = done.to(loc.device)
        while not bool(done.all()):
            u1, u2, u3 = plugrad.rand((3, *shape), dtype=loc.dtype, device=loc.device).unbind()
            z = plugrad.cos(math.pi * u1)
            f = (1 + r * z) / (r + z)
            c = kappa * (r - f)
            accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
            angle = plugrad.where(accepted, (u3 - 0.5).sign() * f.acos(), angle)
            done = done | accepted
        return ((angle + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


@hookimpl
def plugrad_distributions():
    return collect(Distribution, globals())
