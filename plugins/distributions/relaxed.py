"""Bernoulli and one-hot categorical distributions relaxed to continuous ones, with gradients."""

from __future__ import annotations

import math

import plugrad
from plugrad import Size
from plugrad.distributions import Distribution, ExpTransform, SigmoidTransform, constraints
from plugrad.distributions.utils import broadcast_all, clamp_probs
from plugrad.extend import collect, hookimpl

from ._parametric import BinaryParameter
from .categories import SHARES_OR_LOGITS, OfCategories
from .compositions import TransformedDistribution
from .counts import PROBS_OR_LOGITS


class LogitRelaxedBernoulli(BinaryParameter):
    """The log odds of a RelaxedBernoulli's samples.

    Args:
        temperature: a tensor; the lower, the nearer are samples to 0 and 1.
        probs: the probability of 1, or
        logits: its log odds.
        validate_args: whether arguments are checked.
    """

    arg_constraints = PROBS_OR_LOGITS
    support = constraints.real
    has_rsample = True
    _parameters = {"temperature": None, **BinaryParameter._parameters}

    @staticmethod
    def samples(make):
        yield plugrad.tensor(0.7, dtype=plugrad.float64), make(2, low=0.2, high=0.8)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(self._take(probs, logits), validate_args=validate_args)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(plugrad.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        distance = logits - value.mul(self.temperature)
        return self.temperature.log() + distance - 2 * distance.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Bernoulli relaxed to numbers between 0 and 1, with gradients.

    C. Maddison, A. Mnih, Y. W. Teh, "The concrete distribution", arXiv:1611.00712. The arguments are those of
    LogitRelaxedBernoulli.

    >>> import plugrad as torch
    >>> relaxed = torch.distributions.RelaxedBernoulli(torch.tensor(2.0), torch.full((3,), 0.5))
    >>> relaxed.sample().shape
    torch.Size([3])
    """

    arg_constraints = PROBS_OR_LOGITS
    support = constraints.unit_interval
    has_rsample = True

    @staticmethod
    def samples(make):
        yield plugrad.tensor(0.7, dtype=plugrad.float64), make(2, low=0.2, high=0.8)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    temperature = property(lambda self: self.base_dist.temperature, doc="The temperature.")
    probs = property(lambda self: self.base_dist.probs, doc="The probability of 1.")
    logits = property(lambda self: self.base_dist.logits, doc="Its log odds.")


class ExpRelaxedCategorical(OfCategories):
    """The logarithms of a RelaxedOneHotCategorical's samples.

    Args:
        temperature: a tensor; the lower, the nearer are samples to one-hot vectors.
        probs: (..., K), weights that are not negative, or
        logits: their logarithms.
        validate_args: whether arguments are checked.
    """

    support = constraints.real_vector
    has_rsample = True
    _parameters = {"_categorical": 0, "temperature": None}

    @staticmethod
    def samples(make):
        yield plugrad.tensor(0.7, dtype=plugrad.float64), make(2, 3, low=0.5, high=2)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(plugrad.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value):
        self._check(value)
        k = self.event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        log_scale = math.lgamma(k) + (k - 1) * self.temperature.log()
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """OneHotCategorical relaxed to shares that add up to 1, with gradients.

    The arguments are those of ExpRelaxedCategorical. E. Jang, S. Gu, B. Poole, arXiv:1611.01144.

    >>> import plugrad as torch
    >>> relaxed = torch.distributions.RelaxedOneHotCategorical(torch.tensor(2.0), torch.ones(3))
    >>> relaxed.sample().shape
    torch.Size([3])
    """

    arg_constraints = SHARES_OR_LOGITS
    support = constraints.simplex
    has_rsample = True

    @staticmethod
    def samples(make):
        yield plugrad.tensor(0.7, dtype=plugrad.float64), make(2, 3, low=0.5, high=2)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self._get_checked_instance(RelaxedOneHotCategorical, _instance))

    temperature = property(lambda self: self.base_dist.temperature, doc="The temperature.")
    probs = property(lambda self: self.base_dist.probs, doc="The probabilities.")
    logits = property(lambda self: self.base_dist.logits, doc="Their logarithms.")


@hookimpl
def plugrad_distributions():
    return collect(Distribution, globals())
