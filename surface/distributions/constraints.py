"""Constraints: regions in which parameters and samples lie, with a check for tensors.

`event_dim` says how many of the last dimensions are one value together, `is_discrete` whether the region is.
"""

from __future__ import annotations

import plugrad

__all__ = [
    "Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
    "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "is_dependent", "less_than",
    "lower_cholesky", "lower_triangular", "MixtureSameFamilyConstraint", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region; `check(value)` says for each event whether it lies inside.

    >>> import plugrad as torch
    >>> torch.distributions.constraints.positive.check(torch.tensor([-1.0, 2.0]))
    tensor([False,  True])
    """

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """Return a bool tensor: for each event whether it lies in the region."""
        raise NotImplementedError(f"{type(self).__name__} does not define check(value)")

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}()"


class _Dependent(Constraint):
    """Stands for a region that depends on other values."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value):
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint) -> bool:
    """Whether a constraint stands for one that depends on other values.

    >>> from plugrad.distributions import constraints
    >>> constraints.is_dependent(constraints.positive), constraints.is_dependent(constraints.dependent)
    (False, True)
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of objects that is a dependent constraint on the class."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def _need_constraints(*values) -> None:
    for value in values:
        if not isinstance(value, Constraint):
            raise AssertionError(f"this must be a Constraint, such as constraints.real, not {type(value).__name__}")


class _IndependentConstraint(Constraint):
    """An event is several of another constraint's: all of them must be inside."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        _need_constraints(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be an int >= 0, got {reinterpreted_batch_ndims!r}")
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        inside = self.base_constraint.check(value)
        kept = inside.dim() - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return inside.reshape(inside.shape[:kept] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: a value must be in that of every component."""

    def __init__(self, base_constraint):
        _need_constraints(base_constraint)
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value):
        """Return for each event whether every component can have it."""
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        kept = value.dim() - self.event_dim
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return inside.reshape(inside.shape[:kept] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """Between bounds, of which a subclass has one or both."""

    def __init__(self, **bounds):
        self.__dict__.update(bounds)
        super().__init__()

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)}" for name in ("lower_bound", "upper_bound") if name in self.__dict__]
        return f"{type(self).__name__[1:]}({', '.join(shown)})"


class _Below(_Bounded):
    def __init__(self, upper_bound):
        super().__init__(upper_bound=upper_bound)


class _Above(_Bounded):
    def __init__(self, lower_bound):
        super().__init__(lower_bound=lower_bound)


class _Between(_Bounded):
    def __init__(self, lower_bound, upper_bound):
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)


class _IntegerInterval(_Between):
    """Integers from `lower_bound` to `upper_bound`, both included."""

    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Below):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value):
        return value == value  # not for NaN


class _GreaterThan(_Above):
    """Numbers above `lower_bound`."""

    def check(self, value):
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    """Numbers from `lower_bound` on."""

    def check(self, value):
        return self.lower_bound <= value


class _LessThan(_Below):
    """Numbers below `upper_bound`."""

    def check(self, value):
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers from `lower_bound` to `upper_bound`, both included."""

    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers from `lower_bound` on and below `upper_bound`."""

    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Counts that add up to no more than a number."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return (value >= 0).all(dim=-1) & (value.sum(dim=-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).reshape(value.shape[:-2] + (-1,)).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value):
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Cholesky factors of correlations: rows have length 1."""

    def check(self, value):
        tolerance = plugrad.finfo(value.dtype).eps * value.size(-1) * 10
        lengths = plugrad.linalg.norm(value.detach(), dim=-1)
        return super().check(value) & ((lengths - 1.0).abs() <= tolerance).all(dim=-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        is_square = value.shape[-2] == value.shape[-1]
        return plugrad.full(value.shape[:-2], is_square, dtype=plugrad.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value):
        square = super().check(value)
        if not bool(square.all()):
            return square
        return plugrad.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return plugrad.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return plugrad.linalg.cholesky_ex(value).info.eq(0)


def _check_axis(dim, value) -> None:
    if not -value.dim() <= dim < value.dim():
        raise AssertionError(f"dim {dim} out of range for value with {value.dim()} dimensions")


class _Cat(Constraint):
    """Constraints for parts along a dimension, as `torch.cat` joins them."""

    def __init__(self, cseq, dim=0, lengths=None):
        self.cseq, self.dim = list(cseq), dim
        _need_constraints(*self.cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return any([one.is_discrete for one in self.cseq])

    @property
    def event_dim(self) -> int:
        return max([one.event_dim for one in self.cseq])

    def check(self, value):
        _check_axis(self.dim, value)
        parts = value.split(self.lengths, self.dim)
        return plugrad.cat([one.check(part) for one, part in zip(self.cseq, parts)], self.dim)


class _Stack(Constraint):
    """Constraints for slices of a dimension, as `torch.stack` joins them."""

    def __init__(self, cseq, dim=0):
        self.cseq, self.dim = list(cseq), dim
        _need_constraints(*self.cseq)
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return any([one.is_discrete for one in self.cseq])

    @property
    def event_dim(self) -> int:
        deepest = max([one.event_dim for one in self.cseq])
        return deepest + (self.dim + deepest < 0)

    def check(self, value):
        _check_axis(self.dim, value)
        return plugrad.stack([one.check(part) for one, part in zip(self.cseq, value.unbind(self.dim))], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
