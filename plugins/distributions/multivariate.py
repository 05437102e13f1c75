"""Vectors and matrices: multivariate normal, of full and of low rank, Wishart, Cholesky factors of correlations."""

from __future__ import annotations

import math
import warnings

import plugrad
from plugrad import Size
from plugrad.distributions import Distribution, ExponentialFamily, constraints
from plugrad.distributions.utils import Number, broadcast_all, lazy_property, standard_normal
from plugrad.extend import collect, hookimpl

from ._parametric import Parametric
from .gammas import Beta, Chi2

MATRICES = {
    "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}  # fmt: skip


def times_vector(matrix, vector):
    """The product of matrices (..., n, m) with vectors (..., m)."""
    return plugrad.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def mahalanobis(tril, vector):
    """The squared length of tril^-1 vector: (..., n, n) and (..., n)."""
    return plugrad.linalg.solve_triangular(tril, vector.unsqueeze(-1), upper=False).squeeze(-1).pow(2).sum(-1)


def half_log_det(tril):
    """The logarithm of the determinant of a triangular matrix with positive diagonal."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def tril_of_precision(precision):
    """The Cholesky factor of the inverse, by the one of the matrix turned round."""
    turned = plugrad.linalg.cholesky(plugrad.flip(precision, (-2, -1)))
    inverse = plugrad.transpose(plugrad.flip(turned, (-2, -1)), -2, -1)
    one = plugrad.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return plugrad.linalg.solve_triangular(inverse, one, upper=False)


def _only_matrix(given: dict, error) -> str:
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    if given[names[0]].dim() < 2:
        raise ValueError(f"{names[0]} matrix must be at least two-dimensional, with optional leading batch dimensions")
    return names[0]


def _factor(name, matrix):
    if name == "scale_tril":
        return matrix
    return plugrad.linalg.cholesky(matrix) if name == "covariance_matrix" else tril_of_precision(matrix)


class MultivariateNormal(Parametric):
    """The normal distribution of vectors.

    Args:
        loc: (..., D), the mean.
        covariance_matrix: (..., D, D), positive definite, or
        precision_matrix: its inverse, or
        scale_tril: its lower Cholesky factor, which is the fastest.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {"loc": constraints.real_vector, **MATRICES}
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, **dict.fromkeys(MATRICES, 2), "_unbroadcasted_scale_tril": None}

    @staticmethod
    def samples(make):
        factor = make(2, 3, 3).detach()
        yield make(2, 3), factor @ factor.mT + plugrad.eye(3, dtype=factor.dtype)

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril
        }  # fmt: skip
        name = _only_matrix(given, ValueError)
        matrix = given[name]
        batch = plugrad.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch + (-1, -1)))
        self.loc = loc.expand(batch + (-1,))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _factor(name, matrix)

    def _whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        """The lower Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        return self._whole(plugrad.cholesky_inverse(self._unbroadcasted_scale_tril))

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=Size()):
        noise = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + times_vector(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value):
        self._check(value)
        distance = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self):
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (constant + half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


def capacitance_tril(factor, diagonal):
    """The Cholesky factor of 1 + W^T D^-1 W, for W (..., n, m) and D (..., n)."""
    one = plugrad.eye(factor.size(-1), dtype=factor.dtype, device=factor.device)
    return plugrad.linalg.cholesky((factor.mT / diagonal.unsqueeze(-2)) @ factor + one)


class LowRankMultivariateNormal(Parametric):
    """The normal distribution with a covariance of low rank and a diagonal.

    It is W W^T + D, for W of few columns. By the lemmas of Woodbury and of the matrix determinant no large matrix is
    factorized.

    Args:
        loc: (..., n), the mean.
        cov_factor: (..., n, m), W.
        cov_diag: (..., n), the diagonal of D, positive.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> low = torch.distributions.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2))
    >>> low.covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True
    _parameters = {
        "loc": 1, "cov_diag": 1, "cov_factor": 2, "_unbroadcasted_cov_factor": None, "_unbroadcasted_cov_diag": None,
        "_capacitance_tril": None,
    }  # fmt: skip

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        events = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != events:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {events[0]} x m")
        if cov_diag.shape[-1:] != events:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {events}")
        try:
            batch = plugrad.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc.expand(batch + events), cov_diag.expand(batch + events)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch, events, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    def _whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self):
        spread = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return spread.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        """The lower Cholesky factor of the covariance."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        one = plugrad.eye(self._event_shape[0], dtype=root.dtype, device=root.device)
        return self._whole(root * plugrad.linalg.cholesky(scaled @ scaled.mT + one))

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        return self._whole(factor @ factor.mT + plugrad.diag_embed(self._unbroadcasted_cov_diag))

    def _scaled(self):
        """W^T D^-1 with the capacitance's factor taken out."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        return plugrad.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        scaled = self._scaled()
        return self._whole(plugrad.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - scaled.mT @ scaled)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        options = self.loc.dtype, self.loc.device
        of_factor = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], *options)
        of_diagonal = standard_normal(shape, *options)
        spread = self._unbroadcasted_cov_diag.sqrt() * of_diagonal
        return self.loc + times_vector(self._unbroadcasted_cov_factor, of_factor) + spread

    def log_det(self):
        """The logarithm of the covariance's determinant."""
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def mahalanobis(self, vector):
        """The squared distance of a vector from 0 in units of the covariance."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        within = mahalanobis(self._capacitance_tril, times_vector(scaled, vector))
        return (vector.pow(2) / self._unbroadcasted_cov_diag).sum(-1) - within

    def log_prob(self, value):
        self._check(value)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self.log_det() + self.mahalanobis(value - self.loc))

    def entropy(self):
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (constant + self.log_det())).expand(self._batch_shape)


class Wishart(Parametric, ExponentialFamily):
    """The Wishart distribution of covariances that are estimated from normal vectors.

    Samples by Bartlett's decomposition, drawn again where they are singular: S. Sawyer, "Wishart distributions and
    inverse-Wishart sampling", 2007.

    Args:
        df: degrees of freedom, more than D - 1.
        covariance_matrix: (..., D, D), positive definite, or
        precision_matrix: its inverse, or
        scale_tril: its lower Cholesky factor.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"df": 0, **dict.fromkeys(MATRICES, 2), "_unbroadcasted_scale_tril": 2, "_dist_chi2": 1}

    @staticmethod
    def samples(make):
        yield make(2, low=5, high=9), plugrad.eye(3, dtype=plugrad.float64)

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril
        }  # fmt: skip
        name = _only_matrix(given, AssertionError)
        matrix = given[name]
        n = matrix.shape[-1]
        if isinstance(df, Number):
            batch, self.df = matrix.shape[:-2], plugrad.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch = plugrad.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch)
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        if bool((self.df < n).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        setattr(self, name, matrix.expand(batch + (-1, -1)))
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _factor(name, matrix)
        steps = plugrad.arange(n, dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2((self.df.unsqueeze(-1) - steps).expand(batch + (n,)))

    @property
    def arg_constraints(self):
        return {**MATRICES, "df": constraints.greater_than(self.event_shape[-1] - 1)}

    def _whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        """The lower Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance of the normal vectors."""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        """Its inverse."""
        return self._whole(plugrad.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _per_matrix(self, numbers):
        return numbers.expand(self._batch_shape).reshape(self._batch_shape + (1, 1))

    mean = property(lambda self: self._per_matrix(self.df) * self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self.event_shape[-1] - 1
        return self._per_matrix(plugrad.where(factor <= 0, math.nan, factor)) * self.covariance_matrix

    @property
    def variance(self):
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self._per_matrix(self.df) * (covariance.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett(self, sample_shape):
        n = self._event_shape[-1]
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = diagonal.clamp(min=plugrad.finfo(diagonal.dtype).eps).diag_embed(dim1=-2, dim2=-1)
        rows, columns = plugrad.tril_indices(n, n, offset=-1)
        shape = Size((*sample_shape, *self._batch_shape, n * (n - 1) // 2))
        noise[..., rows, columns] = plugrad.randn(shape, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _singular(self, sample):
        """For each sample of the whole batch whether one of its matrices is singular."""
        singular = ~self.support.check(sample)
        batch = len(self._batch_shape)
        return singular.flatten(singular.dim() - batch).any(-1) if batch else singular

    def rsample(self, sample_shape=Size(), max_try_correction=None):
        """Return samples with gradients.

        `max_try_correction` says how often singular ones are drawn again, 10 times when None.
        """
        sample = self._bartlett(Size(sample_shape))
        singular = self._singular(sample)
        if bool(singular.any()):
            warnings.warn("Singular sample detected.", stacklevel=2)
            for _ in range(10 if max_try_correction is None else max_try_correction):
                again = self._bartlett(Size((int(singular.sum()),)))
                sample = sample.clone()
                sample[singular] = again
                singular[singular.clone()] = self._singular(again)
                if not bool(singular.any()):
                    break
        return sample

    def log_prob(self, value):
        self._check(value)
        nu, n, tril = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        spread = plugrad.cholesky_solve(value, tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -nu * (n * math.log(2) / 2 + half_log_det(tril))
            - plugrad.mvlgamma(nu / 2, p=n)
            + (nu - n - 1) / 2 * plugrad.linalg.slogdet(value).logabsdet
            - spread / 2
        )

    def entropy(self):
        nu, n, tril = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        steps = plugrad.arange(n, dtype=nu.dtype, device=nu.device) / 2
        digammas = plugrad.digamma((nu / 2).unsqueeze(-1) - steps).sum(-1)
        return (
            (n + 1) * (n * math.log(2) / 2 + half_log_det(tril))
            + plugrad.mvlgamma(nu / 2, p=n)
            - (nu - n - 1) / 2 * digammas
            + nu * n / 2
        )

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * (-plugrad.linalg.slogdet(-2 * x).logabsdet + math.log(2) * n) + plugrad.mvlgamma(half, p=n)


class LKJCholesky(Parametric):
    """Lower Cholesky factors of random correlation matrices.

    The density of a matrix is proportional to det ** (concentration - 1). By the onion method: D. Lewandowski,
    D. Kurowicka, H. Joe, "Generating random correlation matrices based on vines and extended onion method", 2009.

    Args:
        dim: how many variables, at least 2.
        concentration: 1 gives all correlation matrices alike; the larger, the nearer to the identity.
        validate_args: whether arguments are checked.

    >>> import plugrad as torch
    >>> torch.distributions.LKJCholesky(3, 0.5).sample().shape
    torch.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameters = {"dim": None, "concentration": 0, "_beta": 1}

    @staticmethod
    def samples(make):
        yield 3, make(2, low=0.5, high=2)

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        steps = plugrad.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        steps = plugrad.cat([steps.new_zeros((1,)), steps])
        left = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * steps
        self._beta = Beta(steps + 0.5, left)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)

    def sample(self, sample_shape=Size()):
        with plugrad.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = plugrad.randn(shape, dtype=y.dtype, device=y.device).tril(-1)
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction[..., 0, :] = 0.0
            w = plugrad.sqrt(y) * direction
            rest = plugrad.clamp(1 - (w**2).sum(-1), min=plugrad.finfo(w.dtype).tiny).sqrt()
            return w + plugrad.diag_embed(rest)

    def log_prob(self, value):
        self._check(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = plugrad.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        normalizer = 0.5 * n * math.log(math.pi) + plugrad.mvlgamma(alpha - 0.5, n) - plugrad.lgamma(alpha) * n
        return (order * diagonal.log()).sum(-1) - normalizer


@hookimpl
def plugrad_distributions():
    return collect(Distribution, globals())
