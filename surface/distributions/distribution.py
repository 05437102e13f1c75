"""The base of all distributions: shapes, checks of parameters and values, and what a family has to define."""

from __future__ import annotations

import warnings

import plugrad
from plugrad.distributions import constraints
from plugrad.distributions.utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution, or a batch of them.

    Args:
        batch_shape: the shape of the batch of parameters.
        event_shape: the shape of one sample of one distribution.
        validate_args: whether parameters and values are checked; the class's default when None.

    Raises ValueError for a parameter that its constraint does not allow.

    >>> import plugrad as torch
    >>> normal = torch.distributions.Normal(torch.zeros(3), 1.0)
    >>> normal.batch_shape, normal.sample((2,)).shape
    (torch.Size([3]), torch.Size([2, 3]))
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether arguments are checked where a distribution is not told."""
        if value not in (True, False):
            raise ValueError(f"validate_args is True or False, not {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape=plugrad.Size(), event_shape=plugrad.Size(), validate_args=None):
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self._constraints_to_check():
                self._check_parameter(name, constraint)
        super().__init__()

    def _constraints_to_check(self) -> list:
        try:
            declared = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return []
        pairs = [pair for pair in declared.items() if not constraints.is_dependent(pair[1])]
        return [
            (name, constraint)
            for name, constraint in pairs
            if name in self.__dict__ or not isinstance(getattr(type(self), name), lazy_property)
        ]

    def _check_parameter(self, name, constraint) -> None:
        value = getattr(self, name)
        if not bool(constraint.check(value).all()):
            raise ValueError(
                f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
            )

    def expand(self, batch_shape, _instance=None):
        """Return the distribution with its batch expanded to `batch_shape`, uncopied."""
        raise NotImplementedError(f"{type(self).__name__} does not define expand(batch_shape)")

    @property
    def batch_shape(self):
        """The shape of the batch of parameters."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one sample of one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict:
        """What the parameters must be, by their names."""
        raise NotImplementedError(f"{type(self).__name__} does not define arg_constraints")

    @property
    def support(self):
        """The constraint that samples satisfy."""
        raise NotImplementedError(f"{type(self).__name__} does not define its support")

    @property
    def mean(self):
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean that is known in closed form")

    @property
    def mode(self):
        """The most likely value."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance that is known in closed form")

    @property
    def stddev(self):
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape=plugrad.Size()):
        """Return samples without gradient, of sample_shape + batch_shape + event_shape."""
        with plugrad.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=plugrad.Size()):
        """Return samples through which gradients reach parameters, where `has_rsample`."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample: its samples have no gradient; use sample()")

    def sample_n(self, n: int):
        """Return `n` samples; deprecated for `sample((n,))`."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(plugrad.Size((n,)))

    def log_prob(self, value):
        """Return the logarithm of the density, or of the probability, of a value."""
        raise NotImplementedError(f"{type(self).__name__} does not define log_prob(value)")

    def cdf(self, value):
        """Return the probability of what is not above a value."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf that is known in closed form")

    def icdf(self, value):
        """Return the value below which a probability lies: the inverse of `cdf`."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf that is known in closed form")

    def enumerate_support(self, expand: bool = True):
        """Return all values of a discrete distribution along a new first dimension.

        With `expand` in the batch's shape, else with dimensions of 1 in its place.
        """
        raise NotImplementedError(f"{type(self).__name__} has no finite support that could be enumerated")

    def entropy(self):
        """Return the entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy that is known in closed form")

    def perplexity(self):
        """Return the exponential of the entropy."""
        return plugrad.exp(self.entropy())

    def _extended_shape(self, sample_shape=plugrad.Size()):
        """Return the shape of samples."""
        return plugrad.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value) -> None:
        """Raise ValueError for a value that is no tensor, does not fit in shape, or lies outside of the support."""
        if not isinstance(value, plugrad.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, events = value.shape, self._event_shape
        if shape[len(shape) - len(events) :] != events:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {events}.")
        expected = self._batch_shape + events
        for size, wanted in zip(reversed(shape), reversed(expected)):
            if size != 1 and wanted != 1 and size != wanted:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls, _instance=None):
        """Return the empty object that `expand` of `cls` fills; a subclass with another constructor has to give one."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        parameters = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        shown = [f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in parameters.items()]
        return f"{type(self).__name__}({', '.join(shown)})"
