"""One of several categories, as a number or one-hot, and counts of them."""

from __future__ import annotations

import math

import plugrad
from plugrad import Size
from plugrad.distributions import Distribution, constraints
from plugrad.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
from plugrad.extend import collect, hookimpl
from plugrad.nn import functional as F

from ._parametric import Parametric, one_of
from .counts import Binomial

SHARES_OR_LOGITS = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Parametric):
    """One of K categories, as a number of 0 ... K - 1.

    Args:
        probs: (..., K), weights that are not negative, or
        logits: their logarithms.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> choice = torch.distributions.Categorical(torch.tensor([1.0, 3.0]))
    >>> choice.probs, choice.log_prob(torch.tensor(1)).exp()
    (tensor([0.2500, 0.7500]), tensor(0.7500))
    """

    arg_constraints = SHARES_OR_LOGITS
    has_enumerate_support = True
    _parameters = {"probs": 1, "logits": 1, "_param": 1, "_num_events": None}

    def __init__(self, probs=None, logits=None, validate_args=None):
        name, given = one_of(probs, logits), logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = self._param = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = self._param = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self):
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._param.size()

    mean = variance = property(lambda self: self._filled(math.nan, self.probs))
    mode = property(lambda self: self.probs.argmax(dim=-1))

    def sample(self, sample_shape=Size()):
        sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = plugrad.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._check(value)
        index, logits = plugrad.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self):
        finite = plugrad.clamp(self.logits, min=plugrad.finfo(self.logits.dtype).min)
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = plugrad.arange(self._num_events, dtype=plugrad.long, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class OfCategories(Parametric):
    """A distribution over vectors with an entry for each category of a `Categorical`."""

    arg_constraints = SHARES_OR_LOGITS
    _parameters = {"_categorical": 0}

    def __init__(self, probs, logits, validate_args):
        self._categorical = Categorical(probs, logits)
        events = self._categorical.param_shape[-1:]
        super().__init__(self._categorical.batch_shape, events, validate_args=validate_args)

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    _param = property(lambda self: self._categorical._param)
    probs = property(lambda self: self._categorical.probs, doc="The probabilities.")
    logits = property(lambda self: self._categorical.logits, doc="The logarithms of the probabilities.")
    param_shape = property(lambda self: self._categorical.param_shape, doc="The shape of the parameter.")


class OneHotCategorical(OfCategories):
    """One of K categories, as a vector with a 1 in its place.

    Args:
        probs: (..., K), weights that are not negative, or
        logits: their logarithms.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.OneHotCategorical(torch.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    support = constraints.one_hot
    has_enumerate_support = True
    _parameters = {"_categorical": 0}

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(probs, logits, validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def _one_hot(self, index):
        return F.one_hot(index, num_classes=self.event_shape[0]).to(self.probs)

    mode = property(lambda self: self._one_hot(self.probs.argmax(dim=-1)))

    def sample(self, sample_shape=Size()):
        return self._one_hot(self._categorical.sample(Size(sample_shape)))

    def log_prob(self, value):
        self._check(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n, batch = self.event_shape[0], tuple(self.batch_shape)
        values = plugrad.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(batch) + (n,))
        return values.expand((n,) + batch + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples have the gradient of the probabilities.

    Y. Bengio et al., arXiv:1308.3432.

    >>> import plugrad as torch
    >>> p = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> torch.distributions.OneHotCategoricalStraightThrough(p, validate_args=False).rsample().requires_grad
    True
    """

    has_rsample = True
    _parameters = {"_categorical": 0}

    def rsample(self, sample_shape=Size()):
        samples = self.sample(sample_shape)
        return samples + (self.probs - self.probs.detach())


class Multinomial(OfCategories):
    """How often each of K categories comes in `total_count` trials.

    Args:
        total_count: the number of trials, an int.
        probs: (..., K), weights that are not negative, or
        logits: their logarithms.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Multinomial(4, torch.ones(2)).mean
    tensor([2., 2.])
    """

    _parameters = {"_categorical": 0, "total_count": None}

    @staticmethod
    def samples(make):
        yield 5, make(2, 3, low=0.5, high=2)

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=Size()):
        drawn = self._categorical.sample(Size((self.total_count, *sample_shape))).movedim(0, -1)
        counts = plugrad.zeros(self._extended_shape(sample_shape), dtype=drawn.dtype, device=drawn.device)
        return counts.scatter_add_(-1, drawn, plugrad.ones_like(drawn)).type_as(self.probs)

    def entropy(self):
        n = plugrad.tensor(self.total_count)
        each = Binomial(self.total_count, probs=self.probs)
        counts = each.enumerate_support(expand=False)[1:]
        repeated = (plugrad.exp(each.log_prob(counts)) * plugrad.lgamma(counts + 1)).sum([0, -1])
        return n * self._categorical.entropy() - plugrad.lgamma(n + 1) + repeated

    def log_prob(self, value):
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        logits = plugrad.where((value == 0) & (logits == -math.inf), 0.0, logits)
        ways = plugrad.lgamma(value.sum(-1) + 1) - plugrad.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)


@hookimpl
def plugrad_distributions():
    return [one for one in collect(Distribution, globals()) if one is not OfCategories]
