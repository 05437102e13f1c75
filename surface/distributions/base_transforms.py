"""The base of transforms, inverses, chains, and what transforms of all kinds share."""

from __future__ import annotations

import math

import plugrad
from plugrad.distributions import constraints
from plugrad.distributions.utils import lazy_property, sum_rightmost


class Transform:
    """An invertible function of tensors.

    A subclass gives `domain` and `codomain`, `_call(x)`, `_inverse(y)` and `log_abs_det_jacobian(x, y)`, and says
    whether it is `bijective`. One whose arguments are more than `cache_size` has a `with_cache` of its own.

    Args:
        cache_size: 1 keeps the last pair (x, y), so that the inverse of a result is what it came from; or 0.

    >>> import plugrad as torch
    >>> from plugrad.distributions import ExpTransform
    >>> ExpTransform().inv(torch.ones(2))
    tensor([0., 0.])
    """

    bijective = False
    domain: constraints.Constraint
    codomain: constraints.Constraint

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size, self._inv, self._cached_x_y = cache_size, None, (None, None)
        super().__init__()

    def __getstate__(self):
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self):
        """How many of the last dimensions are one value, if before and after agree."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self):
        """The inverse transform."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self):
        """1 where the transform grows, -1 where it falls."""
        raise NotImplementedError(f"{type(self).__name__} does not define the sign of its derivative")

    def with_cache(self, cache_size=1):
        """Return the same transform with another `cache_size`."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x):
        if not self._cache_size:
            return self._call(x)
        old_x, old_y = self._cached_x_y
        if x is old_x:
            return old_y
        y = self._call(x)
        self._cached_x_y = (x, y)
        return y

    def _inv_call(self, y):
        if not self._cache_size:
            return self._inverse(y)
        old_x, old_y = self._cached_x_y
        if y is old_y:
            return old_x
        x = self._inverse(y)
        self._cached_x_y = (x, y)
        return x

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} does not define _call(x)")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} does not define _inverse(y)")

    def log_abs_det_jacobian(self, x, y):
        """Return log |det dy/dx| of a pair y = transform(x), one number for each event."""
        raise NotImplementedError(f"{type(self).__name__} does not define log_abs_det_jacobian(x, y)")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape):
        """Return the shape of results for inputs of a shape."""
        return shape

    def inverse_shape(self, shape):
        """Return the shape of inputs for results of a shape."""
        return shape


class _InverseTransform(Transform):
    """The inverse of another transform, which holds its cache."""

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self._inv.domain

    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)
    inv = property(lambda self: self._inv)

    def with_cache(self, cache_size=1):
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x):
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)


def _deepest(parts, region, first, before, after):
    """The region of a chain at its end `first`, where the parts after it may need more dimensions in an event."""
    depth = first
    for part in parts:
        depth = max(depth + before(part).event_dim - after(part).event_dim, before(part).event_dim)
    return region if depth <= region.event_dim else constraints.independent(region, depth - region.event_dim)


class ComposeTransform(Transform):
    """Transforms one after the other.

    >>> import plugrad as torch
    >>> from plugrad.distributions import AffineTransform, ComposeTransform, ExpTransform
    >>> ComposeTransform([AffineTransform(0.0, 2.0), ExpTransform()])(torch.zeros(1))
    tensor([1.])
    """

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        if not self.parts:
            return constraints.real
        last = self.parts[-1].codomain.event_dim
        return _deepest(self.parts[::-1], self.parts[0].domain, last, lambda p: p.domain, lambda p: p.codomain)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        if not self.parts:
            return constraints.real
        first = self.parts[0].domain.event_dim
        return _deepest(self.parts, self.parts[-1].codomain, first, lambda p: p.codomain, lambda p: p.domain)

    @lazy_property
    def bijective(self):
        return all([part.bijective for part in self.parts])

    @lazy_property
    def sign(self):
        return math.prod([part.sign for part in self.parts])

    @property
    def inv(self):
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return plugrad.zeros_like(x)
        between = [x]
        for part in self.parts[:-1]:
            between.append(part(between[-1]))
        between.append(y)
        depth, total = self.domain.event_dim, None
        for part, before, after in zip(self.parts, between, between[1:]):
            term = sum_rightmost(part.log_abs_det_jacobian(before, after), depth - part.domain.event_dim)
            total = term if total is None else total + term
            depth += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dimensions count as part of an event."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x):
        need_dimensions(x.dim(), self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y):
        need_dimensions(y.dim(), self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)


def need_dimensions(given: int, least: int) -> None:
    if given < least:
        raise ValueError("Too few dimensions on input")


def clipped_sigmoid(x):
    """The logistic function, kept inside of (0, 1)."""
    info = plugrad.finfo(x.dtype)
    return plugrad.clamp(plugrad.sigmoid(x), min=info.tiny, max=1.0 - info.eps)
