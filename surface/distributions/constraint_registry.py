"""From constraints to transforms that reach them from unconstrained numbers.

`biject_to` gives bijections, as Hamiltonian Monte Carlo needs them; `transform_to` what is simplest, for optimizers.
"""

from __future__ import annotations

from plugrad.distributions import constraints, transforms
from plugrad.distributions.utils import Number

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Functions that make a transform for a constraint, by the constraint's class.

    >>> import plugrad as torch
    >>> from plugrad.distributions import constraints, transform_to
    >>> transform_to(constraints.positive)(torch.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self):
        self._registry = {}
        super().__init__()

    def register(self, constraint, factory=None):
        """Register `factory(constraint) -> Transform` for a constraint's class; without it, return a decorator.

        Raises TypeError for what is neither a constraint nor a class of them.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint):
        """Return the transform to a constraint; NotImplementedError if nothing is registered for its class."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints: register(constraint, factory) adds one"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*regions):
    def register(factory):
        for region in regions:
            biject_to.register(region, factory)
            transform_to.register(region, factory)
        return factory

    return register


@_both(constraints.real)
def _to_real(constraint):
    return transforms.identity_transform


@_both(constraints.positive, constraints.greater_than_eq, constraints.greater_than)
def _to_above(constraint):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@_both(constraints.less_than)
def _to_below(constraint):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, Number) and isinstance(high, Number) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@_both(constraints.corr_cholesky)
def _to_correlations(constraint):
    return transforms.CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
for _region in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_region, lambda constraint: transforms.PositiveDefiniteTransform())


def _register_compositions(registry) -> None:
    @registry.register(constraints.independent)
    def _independent(constraint):
        return transforms.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        )

    @registry.register(constraints.cat)
    def _cat(constraint):
        parts = [registry(one) for one in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def _stack(constraint):
        return transforms.StackTransform([registry(one) for one in constraint.cseq], constraint.dim)


_register_compositions(biject_to)
_register_compositions(transform_to)
