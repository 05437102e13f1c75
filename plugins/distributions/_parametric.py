"""Distributions that are their parameters: broadcasting, expanding, probabilities or their logits."""

from __future__ import annotations

from plugrad import Size, full, no_grad
from plugrad.distributions import Distribution
from plugrad.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class Parametric(Distribution):
    """A distribution that is expanded by expanding what `_parameters` names.

    `_parameters` has for each attribute how many of its last dimensions are not the batch's, and None for what is
    taken over as it is. Parts that are distributions are expanded, too.
    """

    _parameters: dict = {}

    def _broadcast(self, **parameters):
        """Keep parameters, broadcast to one shape, and return that."""
        tensors = broadcast_all(*parameters.values())
        self.__dict__.update(zip(parameters, tensors))
        return tensors[0].shape

    def expand(self, batch_shape, _instance=None):
        owner = next(one for one in type(self).__mro__ if "_parameters" in vars(one))
        new, batch_shape = self._get_checked_instance(owner, _instance), Size(batch_shape)
        for name, dims in self._parameters.items():
            if name not in self.__dict__:
                continue
            value = self.__dict__[name]
            if isinstance(value, Distribution):
                value = value.expand(batch_shape + value.batch_shape[len(value.batch_shape) - dims :])
            elif dims is not None:
                value = value.expand(batch_shape + value.shape[value.dim() - dims :])
            new.__dict__[name] = value
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _check(self, value):
        """Raise ValueError for values that can't be samples, where arguments are checked."""
        if self._validate_args:
            self._validate_sample(value)

    def _filled(self, value, like):
        """A tensor of one number in the shape of samples."""
        return full(self._extended_shape(), value, dtype=like.dtype, device=like.device)


def one_of(probs, logits) -> str:
    """Return which of the two is given; ValueError unless it is exactly one."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


class BinaryParameter(Parametric):
    """Of numbers with a probability each, given as `probs` or as log odds, `logits`; the other is computed if asked."""

    _parameters = {"probs": 0, "logits": 0, "_param": 0}

    def _take(self, probs, logits, **others):
        name = one_of(probs, logits)
        shape = self._broadcast(**others, **{name: logits if probs is None else probs})
        self._param = self.__dict__[name]
        for other in others:
            self.__dict__[other] = self.__dict__[other].type_as(self._param)
        return shape

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self):
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._param.size()


def drawn_without_gradient(draw):
    """A decorator for `sample(self, sample_shape)`, which is called with the shape of the samples."""

    def sample(self, sample_shape=Size()):
        with no_grad():
            return draw(self, self._extended_shape(sample_shape))

    sample.__doc__ = Distribution.sample.__doc__
    return sample
