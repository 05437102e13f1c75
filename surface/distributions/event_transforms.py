"""Transforms of whole vectors and matrices, and of parts that lie beside each other."""

from __future__ import annotations

import math

import plugrad
from plugrad.distributions import constraints
from plugrad.distributions.base_transforms import Transform, clipped_sigmoid, need_dimensions
from plugrad.distributions.utils import lazy_property, sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix
from plugrad.nn import functional as F


class ReshapeTransform(Transform):
    """Events in another shape.

    Args:
        in_shape, out_shape: shapes of one event with equal numbers of elements; ValueError if they differ.
    """

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = plugrad.Size(in_shape), plugrad.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self):
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self):
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape):
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape, old, new):
    need_dimensions(len(shape), len(old))
    cut = len(shape) - len(old)
    if shape[cut:] != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return shape[:cut] + new


class CorrCholeskyTransform(Transform):
    """From D (D - 1) / 2 numbers to Cholesky factors of D x D correlation matrices.

    The numbers become partial correlations by tanh, and rows are filled up to length 1: D. Lewandowski, D. Kurowicka,
    H. Joe, "Generating random correlation matrices based on vines and extended onion method", 2009.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        x = plugrad.tanh(x)
        eps = plugrad.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r**2).sqrt().cumprod(-1)  # what is left of a row's length
        r = r + plugrad.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = F.pad((1 - plugrad.cumsum(y * y, dim=-1))[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        of_tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return 0.5 * left.log().sum(-1) + of_tanh

    def forward_shape(self, shape):
        need_dimensions(len(shape), 1)
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (size, size)

    def inverse_shape(self, shape):
        need_dimensions(len(shape), 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class _OfEvents(Transform):
    """A transform without parameters, equal to every other of its class."""

    def __eq__(self, other):
        return isinstance(other, type(self))

    __hash__ = object.__hash__


class SoftmaxTransform(_OfEvents):
    """Softmax along the last dimension; its inverse gives one of many: the logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x):
        shares = (x - x.max(-1, True)[0]).exp()
        return shares / shares.sum(-1, True)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        need_dimensions(len(shape), 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_OfEvents):
    """From K - 1 numbers to K shares: each says how much of the rest its share takes."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x):
        taken = clipped_sigmoid(x - _waiting(x, x.shape[-1]).log())
        return F.pad(taken, [0, 1], value=1) * F.pad((1 - taken).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y):
        shares = y[..., :-1]
        rest = plugrad.clamp(1 - shares.cumsum(-1), min=plugrad.finfo(y.dtype).tiny)
        return shares.log() - rest.log() + _waiting(y, shares.shape[-1]).log()

    def log_abs_det_jacobian(self, x, y):
        x = x - _waiting(x, x.shape[-1]).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        need_dimensions(len(shape), 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        need_dimensions(len(shape), 1)
        return shape[:-1] + (shape[-1] - 1,)


def _waiting(like, count):
    """How many shares come after each: count, ..., 2, 1."""
    return count + 1 - like.new_ones(count).cumsum(-1)


class LowerCholeskyTransform(_OfEvents):
    """From square matrices to lower triangular ones with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_OfEvents):
    """From square matrices to positive definite ones, by their Cholesky factors."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(plugrad.linalg.cholesky(y))


class _Parts(Transform):
    """Transforms of parts that lie beside each other in a dimension."""

    def __init__(self, tseq, dim, cache_size):
        for one in tseq:
            if not isinstance(one, Transform):
                raise AssertionError(f"All elements of tseq must be Transform instances, one is {type(one).__name__}")
        super().__init__(cache_size=cache_size)
        self.transforms = [one.with_cache(cache_size) for one in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _parts(self, tensor):
        """The parts of a tensor, after a look at its size."""
        if not -tensor.dim() <= self.dim < tensor.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {tensor.dim()} dimensions")
        if tensor.size(self.dim) != self.length:
            raise AssertionError(f"the size {tensor.size(self.dim)} of dim {self.dim} must equal {self.length}")
        return self._split(tensor)

    def _call(self, x):
        return self._join([one(part) for one, part in zip(self.transforms, self._parts(x))])

    def _inverse(self, y):
        return self._join([one.inv(part) for one, part in zip(self.transforms, self._parts(y))])

    def _jacobians(self, x, y):
        parts = zip(self.transforms, self._parts(x), self._parts(y))
        return [one.log_abs_det_jacobian(before, after) for one, before, after in parts]

    @property
    def bijective(self):
        return all([one.bijective for one in self.transforms])


class CatTransform(_Parts):
    """Transforms of parts along a dimension, as `torch.cat` joins them.

    Args:
        tseq: the transforms.
        dim: along which dimension.
        lengths: of the parts, 1 each when None.
    """

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @lazy_property
    def event_dim(self):
        return max([one.event_dim for one in self.transforms])

    @lazy_property
    def length(self):
        return sum(self.lengths)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, tensor):
        return tensor.split(self.lengths, self.dim)

    def _join(self, parts):
        return plugrad.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = self._jacobians(x, y)
        terms = [sum_rightmost(term, self.event_dim - one.event_dim) for one, term in zip(self.transforms, terms)]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return plugrad.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @constraints.dependent_property
    def domain(self):
        return constraints.cat([one.domain for one in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        return constraints.cat([one.codomain for one in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """Transforms of the slices of a dimension, as `torch.stack` joins them."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)

    length = property(lambda self: len(self.transforms))

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _split(self, tensor):
        return tensor.unbind(self.dim)

    def _join(self, parts):
        return plugrad.stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        return self._join(self._jacobians(x, y))

    @constraints.dependent_property
    def domain(self):
        return constraints.stack([one.domain for one in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        return constraints.stack([one.codomain for one in self.transforms], self.dim)
