"""Parametrizations of weights: orthogonal matrices, weight normalization and spectral normalization."""

from __future__ import annotations

import plugrad
from plugrad import Tensor, no_grad
from plugrad.extend import held_back
from plugrad.nn import Module
from plugrad.nn import functional as F
from plugrad.nn.utils._norms import as_matrix, output_dim, unit_vectors
from plugrad.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _tensor(module, name) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# ---------------------------------------------------------------- orthogonal matrices


def _is_orthogonal(q) -> bool:
    eye = plugrad.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    return plugrad.allclose(q.mH @ q, eye, atol=10 * q.shape[-2] * plugrad.finfo(q.dtype).eps)


def _orthogonalized(a) -> Tensor:
    """Return Q of the decomposition a = QR in which the diagonal of R is positive; `a` is not wider than high."""
    reflectors, tau = plugrad.geqrf(a)
    return plugrad.linalg.householder_product(reflectors, tau) * _diagonal(reflectors).sgn().unsqueeze(-2)


def _diagonal(a) -> Tensor:
    return a.diagonal(dim1=-2, dim2=-1)


class _Orthogonal(Module):
    """Makes an orthogonal matrix of any: of its lower triangle, by one of three maps.

    With `use_trivialization` the result is multiplied with a fixed orthogonal matrix, `base`: there the optimizer
    starts at the identity, where the maps behave best.
    """

    def __init__(self, weight, orthogonal_map, use_trivialization):
        super().__init__()
        # Reflectors have too few parameters to reach every unitary matrix.
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError(
                'The householder parametrization does not support complex tensors. Write "matrix_exp" or "cayley"'
            )
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x):
        wide = x.shape[-2] < x.shape[-1]
        if wide:
            x = x.mT
        q = self._reflected(x) if self.orthogonal_map == "householder" else self._rotated(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _rotated(self, x):
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:  # k columns of a square matrix
            x = plugrad.cat([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], dim=-1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = plugrad.matrix_exp(skew)
        else:
            eye = plugrad.eye(n, dtype=x.dtype, device=x.device)
            q = plugrad.linalg.solve(eye - 0.5 * skew, eye + 0.5 * skew)
        return q[..., :k]

    @staticmethod
    def _reflected(x):
        reflectors = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (reflectors * reflectors).sum(dim=-2))
        # The diagonal holds signs: they are not learned.
        return plugrad.linalg.householder_product(reflectors, tau) * _diagonal(x).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, q):
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        wide = q.shape[-2] < q.shape[-1]
        tall = q.mT if wide else q
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    'use_trivialization=False. Leave that out, or write orthogonal_map="householder"'
                )
            x, tau = plugrad.geqrf(tall)
            signs = _diagonal(x).sign()
            _diagonal(x).copy_(plugrad.where(tau == 0.0, -signs, signs))  # where tau is 0 nothing was reflected
            return x.mT if wide else x
        n, k = tall.shape[-2:]
        if n != k:
            rest = plugrad.randn(*tall.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
            self.base = _orthogonalized(plugrad.cat([tall, rest], dim=-1))
        else:
            self.base = tall.clone() if _is_orthogonal(tall) else _orthogonalized(tall)
        # -1 on the diagonal is what every map takes to the identity: the householder map reads signs there.
        start = plugrad.zeros_like(q)
        _diagonal(start).fill_(-1.0)
        return start


def orthogonal(module: Module, name: str = "weight", orthogonal_map=None, *, use_trivialization=True) -> Module:
    """Keep a weight orthogonal, or unitary where it is complex.

    Its columns are orthonormal, or its rows where there are more columns than rows; a tensor of more dimensions is a
    batch of matrices. The first value is the weight's own if that is orthogonal, else Q of its QR decomposition.

    Args:
        module: the module, which is returned.
        name: which of its tensors.
        orthogonal_map: "matrix_exp" or "cayley", of a skew-symmetric matrix, or "householder", a product of
            reflections. By default the last for real matrices that aren't square, otherwise the first.
        use_trivialization: multiply with a fixed orthogonal matrix, which helps convergence; see M. Lezcano-Casado,
            arXiv:1909.09501.

    Raises ValueError without such a tensor, for one of less than two dimensions, and for other maps.

    >>> import plugrad as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 5))
    >>> torch.allclose(layer.weight.T @ layer.weight, torch.eye(3), atol=1e-6)
    True
    """
    weight = _tensor(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if not isinstance(orthogonal_map, str) or orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)


# ---------------------------------------------------------------- weight normalization


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return plugrad._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return plugrad.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the length and the direction of a weight apart: w = g * v / |v|.

    `g` is `module.parametrizations.weight.original0` and `v` is `original1`. States saved by the older
    `plugrad.nn.utils.weight_norm` can be loaded. T. Salimans, D. P. Kingma, arXiv:1602.07868.

    Args:
        module: the module, which is returned.
        name: which of its tensors.
        dim: each index of this dimension has a length of its own; None is one length for all.

    >>> import plugrad as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([3, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, *_):
        old = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if all(key in state_dict for key in old):
            for place, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{place}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


# ---------------------------------------------------------------- spectral normalization


class _SpectralNorm(Module):
    """Divides a weight by its largest singular value, which power iterations follow."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            u, v = unit_vectors(matrix, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix, n_power_iterations):
        with held_back():
            for _ in range(n_power_iterations):  # in place: replicas of the module share the vectors
                F.normalize(plugrad.mv(matrix, self._v), dim=0, eps=self.eps, out=self._u)
                F.normalize(plugrad.mv(matrix.mH, self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies: the next forward changes the vectors in place, maybe before this one's backward.
        u, v = self._u.clone(), self._v.clone()
        return weight / plugrad.vdot(u, plugrad.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module: Module, name="weight", n_power_iterations=1, eps=1e-12, dim=None) -> Module:
    """Divide a weight by its largest singular value: it lengthens no vector.

    Each use of the weight in training makes some power iterations. T. Miyato et al., arXiv:1802.05957.

    Args:
        module: the module, which is returned.
        name: which of its tensors.
        n_power_iterations: how many iterations each use makes.
        eps: the least length that a vector is divided by.
        dim: the dimension of the outputs: by default 0, and 1 for transposed convolutions. The others are joined.

    Raises ValueError without such a tensor or iterations, IndexError for a dimension that the weight hasn't.

    >>> import plugrad as torch
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(20, 40))
    >>> 0.9 < torch.linalg.matrix_norm(layer.weight, 2).item() < 1.1
    True
    """
    weight = _tensor(module, name)
    dim = output_dim(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
