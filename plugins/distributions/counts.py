"""Numbers of successes, trials and events: Bernoulli and its continuous form, Binomial, Geometric, Poisson..."""

from __future__ import annotations

import math

import plugrad
from plugrad import Size
from plugrad.distributions import Distribution, ExponentialFamily, constraints
from plugrad.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs
from plugrad.extend import collect, hookimpl
from plugrad.nn import functional as F

from ._parametric import BinaryParameter, Parametric, drawn_without_gradient
from .gammas import Gamma

PROBS_OR_LOGITS = {"probs": constraints.unit_interval, "logits": constraints.real}


def _enumerated(values, batch_shape, expand):
    values = values.view((-1,) + (1,) * len(batch_shape))
    return values.expand((-1,) + tuple(batch_shape)) if expand else values


class Bernoulli(BinaryParameter, ExponentialFamily):
    """0 or 1.

    Args:
        probs: the probability of 1, or
        logits: its log odds.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Bernoulli(0.25).variance
    tensor(0.1875)
    """

    arg_constraints = PROBS_OR_LOGITS
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _parameters = BinaryParameter._parameters

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(self._take(probs, logits), validate_args=validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self):
        mode = (self.probs >= 0.5).to(self.probs)
        return plugrad.where(self.probs == 0.5, math.nan, mode)

    @drawn_without_gradient
    def sample(self, shape):
        return plugrad.bernoulli(self.probs.expand(shape))

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        values = plugrad.arange(2, dtype=self._param.dtype, device=self._param.device)
        return _enumerated(values, self._batch_shape, expand)

    @property
    def _natural_params(self):
        return (plugrad.logit(self.probs),)

    def _log_normalizer(self, x):
        return plugrad.log1p(plugrad.exp(x))


class ContinuousBernoulli(BinaryParameter, ExponentialFamily):
    """Numbers of [0, 1] with a density proportional to p**x (1 - p)**(1 - x).

    G. Loaiza-Ganem, J. P. Cunningham, "The continuous Bernoulli: fixing a pervasive error in variational
    autoencoders", arXiv:1907.06845.

    Args:
        probs: p, or
        logits: its log odds.
        lims: between these probabilities series stand in for formulas that cancel.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.ContinuousBernoulli(0.5).variance
    tensor(0.0833)
    """

    arg_constraints = PROBS_OR_LOGITS
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {**BinaryParameter._parameters, "_lims": None}

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        shape = self._take(probs, logits)
        if probs is not None:
            if validate_args is not None and not bool(constraints.unit_interval.check(self.probs).all()):
                raise ValueError("The parameter probs has invalid values")
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _stable(self):
        """Where the formulas hold, and the probabilities with another one in the other places."""
        low, high = self._lims
        stable = (self.probs <= low) | (self.probs > high)
        return stable, plugrad.where(stable, self.probs, low)

    def _cont_bern_log_norm(self):
        stable, p = self._stable()
        below, above = plugrad.where(p <= 0.5, p, 0.0), plugrad.where(p >= 0.5, p, 1.0)
        spread = plugrad.where(p <= 0.5, plugrad.log1p(-2.0 * below), plugrad.log(2.0 * above - 1.0))
        exact = plugrad.log(plugrad.abs(plugrad.log1p(-p) - plugrad.log(p))) - spread
        x = (self.probs - 0.5).pow(2)
        return plugrad.where(stable, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self):
        stable, p = self._stable()
        exact = p / (2.0 * p - 1.0) + 1.0 / (plugrad.log1p(-p) - plugrad.log(p))
        x = self.probs - 0.5
        return plugrad.where(stable, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def variance(self):
        stable, p = self._stable()
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (plugrad.log1p(-p) - plugrad.log(p)).pow(2)
        x = (self.probs - 0.5).pow(2)
        return plugrad.where(stable, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(plugrad.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value):
        self._check(value)
        stable, p = self._stable()
        exact = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = plugrad.where(stable, exact, value)
        return plugrad.where(value <= 0.0, 0.0, plugrad.where(value >= 1.0, 1.0, inside))

    def icdf(self, value):
        stable, p = self._stable()
        failure = plugrad.log1p(-p)
        exact = (plugrad.log1p(-p + value * (2.0 * p - 1.0)) - failure) / (plugrad.log(p) - failure)
        return plugrad.where(stable, exact, value)

    def entropy(self):
        failure = plugrad.log1p(-self.probs)
        return self.mean * (failure - plugrad.log(self.probs)) - self._cont_bern_log_norm() - failure

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        low, high = (limit - 0.5 for limit in self._lims)
        stable = (x <= low) | (x > high)
        cut = plugrad.where(stable, x, low)
        exact = plugrad.log(plugrad.abs(plugrad.expm1(cut))) - plugrad.log(plugrad.abs(cut))
        return plugrad.where(stable, exact, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)


class Binomial(BinaryParameter):
    """How many of `total_count` trials succeed.

    Args:
        total_count: the number of trials.
        probs: the probability of success, or
        logits: its log odds.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Binomial(4, 0.5).log_prob(torch.tensor(2.0)).exp()
    tensor(0.3750)
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, **PROBS_OR_LOGITS}
    has_enumerate_support = True
    _parameters = {"total_count": 0, **BinaryParameter._parameters}

    @staticmethod
    def samples(make):
        yield 5, make(2, low=0.1, high=0.9)

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        super().__init__(self._take(probs, logits, total_count=total_count), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @drawn_without_gradient
    def sample(self, shape):
        return plugrad.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        self._check(value)
        n, logits = self.total_count, self.logits
        ways = plugrad.lgamma(n + 1) - plugrad.lgamma(value + 1) - plugrad.lgamma(n - value + 1)
        # max(logits, 0), with the gradient 1/2 at 0, and log(1 + exp(-|logits|)): together softplus.
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        return value * logits + ways - n * positive - n * plugrad.log1p(plugrad.exp(-plugrad.abs(logits)))

    def _only_count(self, what) -> int:
        count = int(self.total_count.max())
        if not bool(self.total_count.min() == count):
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return count

    def entropy(self):
        self._only_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(plugrad.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        count = self._only_count("enumerate_support")
        values = plugrad.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        return _enumerated(values, self._batch_shape, expand)


class Geometric(BinaryParameter):
    """How many trials fail before the first success.

    Args:
        probs: the probability of success, not 0, or
        logits: its log odds.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Geometric(0.25).mean
    tensor(3.)
    """

    arg_constraints = PROBS_OR_LOGITS
    support = constraints.nonnegative_integer
    _parameters = BinaryParameter._parameters

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(self._take(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            value = self.probs
            raise ValueError(
                f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                f"{self!r} to be positive but found invalid values:\n{value.detach()[~(value > 0)]}"
            )

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: plugrad.zeros_like(self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    @drawn_without_gradient
    def sample(self, shape):
        drawn = plugrad.empty(shape, dtype=self.probs.dtype, device=self.probs.device)
        u = drawn.uniform_(plugrad.finfo(drawn.dtype).tiny, 1)
        return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        self._check(value)
        value, probs = broadcast_all(value, self.probs)
        failing = plugrad.where((probs == 1) & (value == 0), 0.0, probs)  # 0 * log(0) is 0 here
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self):
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(BinaryParameter):
    """How many trials succeed before `total_count` have failed.

    Args:
        total_count: the number of failures, not negative; it need not be whole.
        probs: the probability of success, below 1, or
        logits: its log odds.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.NegativeBinomial(3.0, 0.5).mean
    tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer
    _parameters = {"total_count": 0, **BinaryParameter._parameters}

    @staticmethod
    def samples(make):
        yield make(2, low=1, high=4), make(2, low=0.1, high=0.7)

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        super().__init__(self._take(probs, logits, total_count=total_count), validate_args=validate_args)

    mean = property(lambda self: self.total_count * plugrad.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / plugrad.sigmoid(-self.logits))

    def sample(self, sample_shape=Size()):
        with plugrad.no_grad():
            rates = Gamma(self.total_count, plugrad.exp(-self.logits), validate_args=False)
            return plugrad.poisson(rates.sample(sample_shape))

    def log_prob(self, value):
        self._check(value)
        n = self.total_count
        likely = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = plugrad.lgamma(n + value) - plugrad.lgamma(1.0 + value) - plugrad.lgamma(n)
        return likely + ways.masked_fill(n + value == 0.0, 0.0)


class Poisson(Parametric, ExponentialFamily):
    """How many independent events happen.

    Args:
        rate: their mean number.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Poisson(4.0).variance
    tensor(4.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        super().__init__(self._broadcast(rate=rate), validate_args=validate_args)

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())

    @drawn_without_gradient
    def sample(self, shape):
        return plugrad.poisson(self.rate.expand(shape))

    def log_prob(self, value):
        self._check(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (plugrad.log(self.rate),)

    def _log_normalizer(self, x):
        return plugrad.exp(x)


@hookimpl
def plugrad_distributions():
    return collect(Distribution, globals())
