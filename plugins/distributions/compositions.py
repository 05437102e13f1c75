"""Distributions made of others: transformed, with more dimensions in an event, mixed."""

from __future__ import annotations

import math

import plugrad
from plugrad import Size
from plugrad.distributions import ComposeTransform, Distribution, Transform, constraints
from plugrad.distributions.utils import sum_rightmost
from plugrad.extend import collect, hookimpl

from .categories import Categorical


class Independent(Distribution):
    """A distribution whose last batch dimensions count as part of an event.

    Args:
        base_distribution: what it is made of.
        reinterpreted_batch_ndims: how many dimensions of its batch.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> from plugrad.distributions import Independent, Normal
    >>> Independent(Normal(torch.zeros(3), 1.0), 1).log_prob(torch.zeros(3))
    tensor(-2.7568)
    """

    arg_constraints: dict = {}

    @staticmethod
    def samples(make):
        base = plugrad.distributions.Normal(make(2, 3), make(2, 3, low=0.5, high=2))
        yield base, 1

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        if not isinstance(base_distribution, Distribution):
            what = type(base_distribution).__name__
            raise AttributeError(f"Independent(): base_distribution is a Distribution, not {what}")
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(Independent, _instance), Size(batch_shape)
        new.base_dist = self.base_dist.expand(batch_shape + self.event_shape[: self.reinterpreted_batch_ndims])
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self):
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        base = self.base_dist.support
        n = self.reinterpreted_batch_ndims
        return constraints.independent(base, n) if n else base

    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    def sample(self, sample_shape=Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=Size()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """What becomes of samples under transforms.

    Args:
        base_distribution: what is sampled.
        transforms: a transform, or a list of them, applied from the first to the last.
        validate_args: whether arguments are checked.

    Raises ValueError for what are no transforms, and for a base of too few dimensions.

    >>> import plugrad as torch
    >>> from plugrad.distributions import ExpTransform, Normal, TransformedDistribution
    >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(torch.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: dict = {}

    @staticmethod
    def samples(make):
        base = plugrad.distributions.Normal(make(2), make(2, low=0.5, high=2))
        yield base, [plugrad.distributions.AffineTransform(0.5, -2.0)]

    def __init__(self, base_distribution, transforms, validate_args=None):
        if not isinstance(transforms, (Transform, list)):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not all([isinstance(one, Transform) for one in self.transforms]):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        whole = ComposeTransform(self.transforms)
        before, after = whole.domain.event_dim, whole.codomain.event_dim
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < before:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {before}, but got {base_shape}."
            )
        base_events = len(base_distribution.event_shape)
        shape = whole.forward_shape(base_shape)
        expanded = whole.inverse_shape(shape)
        if base_shape != expanded:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - base_events])
        if before > base_events:
            base_distribution = Independent(base_distribution, before - base_events)
        self.base_dist = base_distribution
        cut = len(shape) - max(after, base_events + after - before)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(TransformedDistribution, _instance), Size(batch_shape)
        shape = batch_shape + self.event_shape
        for one in reversed(self.transforms):
            shape = one.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    def sample(self, sample_shape=Size()):
        with plugrad.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=Size()):
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, value):
        for one in self.transforms:
            value = one(value)
        return value

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        depth, result, y = len(self.event_shape), 0.0, value
        for one in reversed(self.transforms):
            x = one.inv(y)
            depth += one.domain.event_dim - one.codomain.event_dim
            result = result - sum_rightmost(one.log_abs_det_jacobian(x, y), depth - one.domain.event_dim)
            y = x
        return result + sum_rightmost(self.base_dist.log_prob(y), depth - len(self.base_dist.event_shape))

    def _turned(self, probability):
        """The probability of the other side where the transforms fall."""
        sign = math.prod([one.sign for one in self.transforms])
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value):
        for one in reversed(self.transforms):
            value = one.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._transformed(self.base_dist.icdf(self._turned(value)))


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family.

    Args:
        mixture_distribution: a Categorical that chooses the component.
        component_distribution: the components, along the last dimension of the batch.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> from plugrad.distributions import Categorical, MixtureSameFamily, Normal
    >>> MixtureSameFamily(Categorical(torch.ones(2)), Normal(torch.tensor([-1.0, 3.0]), 1.0)).mean
    tensor(1.)
    """

    arg_constraints: dict = {}
    has_rsample = False

    @staticmethod
    def samples(make):
        components = plugrad.distributions.Normal(make(2, 3), make(2, 3, low=0.5, high=2))
        yield Categorical(make(2, 3, low=0.5, high=2)), components

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        mixed, components = mixture_distribution.batch_shape, component_distribution.batch_shape
        for size, other in zip(reversed(mixed), reversed(components[:-1])):
            if size != 1 and other != 1 and size != other:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                    f"`component_distribution.batch_shape`({components[:-1]})"
                )
        count = mixture_distribution.logits.shape[-1]
        if count != components[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` "
                f"({components[-1]})"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component, self._event_ndims = count, len(component_distribution.event_shape)
        super().__init__(components[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new, batch_shape = self._get_checked_instance(MixtureSameFamily, _instance), Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(lambda self: self._mixture_distribution, doc="What chooses the component.")
    component_distribution = property(lambda self: self._component_distribution, doc="The components.")

    def _weighted(self, values):
        """The mean of the components' values."""
        probs = self.mixture_distribution.probs
        batch = len(self.mixture_distribution.batch_shape)
        more = 0 if batch == 1 else len(self.batch_shape) - batch
        shape = probs.shape[:-1] + (1,) * more + probs.shape[-1:] + (1,) * self._event_ndims
        return (probs.reshape(shape) * values).sum(dim=-1 - self._event_ndims)

    mean = property(lambda self: self._weighted(self.component_distribution.mean))

    @property
    def variance(self):
        between = (self.component_distribution.mean - self._pad(self.mean)).pow(2.0)
        return self._weighted(self.component_distribution.variance) + self._weighted(between)

    def _pad(self, value):
        return value.unsqueeze(-1 - self._event_ndims)

    def cdf(self, x):
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(dim=-1)

    def log_prob(self, x):
        if self._validate_args:
            self._validate_sample(x)
        logits = plugrad.log_softmax(self.mixture_distribution.logits, dim=-1)
        return plugrad.logsumexp(self.component_distribution.log_prob(self._pad(x)) + logits, dim=-1)

    def sample(self, sample_shape=Size()):
        with plugrad.no_grad():
            axis = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            chosen = chosen.expand(chosen.shape[: axis + 1] + self.event_shape)
            return plugrad.gather(drawn, axis, chosen).squeeze(axis)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


@hookimpl
def plugrad_distributions():
    return collect(Distribution, globals())
