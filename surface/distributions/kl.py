"""Kullback-Leibler divergences: rules for pairs of classes, and which of them is meant."""

from __future__ import annotations

import sys
import warnings

from plugrad.distributions.exp_family import ExponentialFamily
from plugrad.registry import lazy_names

__all__ = ["kl_divergence", "register_kl"]

_rules: dict = {}
_chosen: dict = {}


def register_kl(type_p, type_q):
    """Return a decorator that registers a rule for KL(p || q) of two classes.

    Where several rules fit, the one of the nearest classes is meant; RuntimeWarning if p and q disagree on that.
    Raises TypeError for what are no classes of distributions.

    >>> from plugrad.distributions import Normal, kl_divergence, register_kl
    >>> class Standard(Normal):
    ...     pass
    >>> @register_kl(Standard, Standard)
    ... def nothing(p, q):
    ...     return 0.0
    >>> kl_divergence(Standard(0.0, 1.0), Standard(0.0, 1.0))
    0.0
    """
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(given, type):  # any class: libraries have distributions with a base of their own
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {given}")

    def decorator(function):
        _rules[type_p, type_q] = function
        _chosen.clear()
        return function

    return decorator


def _nearest(pairs, order):
    """The pair whose classes are the most derived: of the first one in `order`, then of the other."""
    best = pairs[0]
    for pair in pairs[1:]:
        for place in order:
            if pair[place] is not best[place]:
                best = pair if issubclass(pair[place], best[place]) else best
                break
    return best


def _choose(type_p, type_q):
    pairs = [pair for pair in tuple(_rules) if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not pairs:
        return None
    by_p, by_q = _nearest(pairs, (0, 1)), _nearest(pairs, (1, 0))
    if _rules[by_p] is not _rules[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({by_p[0].__name__}, "
            f"{by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _rules[by_p]


def kl_divergence(p, q):
    """Return the KL divergence KL(p || q), the mean under p of log p(x) - log q(x).

    Args:
        p, q: distributions of one batch shape, or of shapes that broadcast.

    Returns a tensor of the batch's shape. Raises NotImplementedError if there is no rule for their classes.

    >>> from plugrad.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    kinds = type(p), type(q)
    if kinds not in _chosen:
        _chosen[kinds] = _choose(*kinds)
    rule = _chosen[kinds]
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}: "
            "register_kl adds a rule"
        )
    return rule(p, q)


_borrowed, __dir__ = lazy_names(globals(), None, {})  # what PyTorch's module of this name only imports


def __getattr__(name):
    """PyTorch's names of single rules, `_kl_normal_gumbel`: the rule of the classes that are called so."""
    if name.startswith("_kl_") and sys.modules["plugrad.distributions"].Normal:  # which brings the rules along
        for (p, q), rule in list(_rules.items()):
            names = ["expfamily" if one is ExponentialFamily else one.__name__.lower() for one in (p, q)]
            if name == "_kl_" + "_".join(names):
                return rule
    return _borrowed(name)
