"""Exponential families, whose entropies and divergences follow from the log normaliser and its gradient."""

from __future__ import annotations

import plugrad
from plugrad.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution with the density exp(<t(x), theta> - A(theta) + k(x)).

    A subclass gives `_natural_params`, the tuple of theta, `_log_normalizer(*theta)`, which is A, and
    `_mean_carrier_measure`, the mean of k(x). F. Nielsen, R. Nock, "Entropies and cross-entropies of exponential
    families", 2010.
    """

    @property
    def _natural_params(self):
        raise NotImplementedError(f"{type(self).__name__} does not define _natural_params")

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError(f"{type(self).__name__} does not define _log_normalizer")

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError(f"{type(self).__name__} does not define _mean_carrier_measure")

    def normalizer_and_means(self):
        """Return natural parameters as leaves, their log normaliser and its gradients."""
        with plugrad.enable_grad():
            parameters = [one.detach().requires_grad_() for one in self._natural_params]
            normalizer = self._log_normalizer(*parameters)
            means = plugrad.autograd.grad(normalizer.sum(), parameters, create_graph=True)
        return parameters, normalizer, means

    def entropy(self):
        """Return the entropy by Bregman's divergence of the log normaliser."""
        parameters, normalizer, means = self.normalizer_and_means()
        result = normalizer - self._mean_carrier_measure
        for parameter, mean in zip(parameters, means):
            result = result - (parameter * mean).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
