"""Orthogonal polynomials by their recurrences (DLMF 18.9)."""

from __future__ import annotations

from plugrad.extend import Op, binary, collect, hookimpl


def _recur(xp, x, n, first, step):
    """Return the polynomials of degrees `n` at `x`; zero for negative degrees.

    `first` is the polynomial of degree 1, `step(k, p, q)` that of degree k + 1 from those of degrees k and k - 1.
    """
    dtype = (x if hasattr(x, "dtype") else n).dtype
    x, n = xp.broadcast_arrays(xp.asarray(x, dtype), xp.trunc(xp.asarray(n, dtype)))
    result = xp.where(n == 0, xp.ones_like(x), xp.where(n == 1, first, 0))
    below, current = xp.ones_like(x), first + xp.zeros_like(x)
    highest = int(xp.max(xp.where((n > 0) & (n < 10000), n, 0))) if n.size else 0
    for k in range(1, highest):
        below, current = current, step(k, current, below)
        result = xp.where(n == k + 1, current, result)
    return result.astype(dtype, copy=False)


def _chebyshev(xp, x, n, first):
    return _recur(xp, x, n, first, lambda k, p, q: 2 * x * p - q)


@binary(promote="float", at=("special.chebyshev_polynomial_t",), inplace=False, complex=False, vjp=None, numbers="both")
def chebyshev_polynomial_t(xp, x, n):
    """Chebyshev polynomial of the first kind of degree `n`.

    >>> import plugrad as torch
    >>> torch.special.chebyshev_polynomial_t(torch.tensor([0.5]), 2)
    tensor([-0.5000])
    """
    return _chebyshev(xp, x, n, x)


@binary(promote="float", at=("special.chebyshev_polynomial_u",), inplace=False, complex=False, vjp=None, numbers="both")
def chebyshev_polynomial_u(xp, x, n):
    """Chebyshev polynomial of the second kind of degree `n`.

    >>> import plugrad as torch
    >>> torch.special.chebyshev_polynomial_u(torch.tensor([0.5]), 2)
    tensor([0.])
    """
    return _chebyshev(xp, x, n, 2 * x)


@binary(promote="float", at=("special.chebyshev_polynomial_v",), inplace=False, complex=False, vjp=None, numbers="both")
def chebyshev_polynomial_v(xp, x, n):
    """Chebyshev polynomial of the third kind of degree `n`.

    >>> import plugrad as torch
    >>> torch.special.chebyshev_polynomial_v(torch.tensor([0.5]), 2)
    tensor([-1.])
    """
    return _chebyshev(xp, x, n, 2 * x - 1)


@binary(promote="float", at=("special.chebyshev_polynomial_w",), inplace=False, complex=False, vjp=None, numbers="both")
def chebyshev_polynomial_w(xp, x, n):
    """Chebyshev polynomial of the fourth kind of degree `n`.

    >>> import plugrad as torch
    >>> torch.special.chebyshev_polynomial_w(torch.tensor([0.5]), 2)
    tensor([1.])
    """
    return _chebyshev(xp, x, n, 2 * x + 1)


@binary(
    promote="float",
    at=("special.shifted_chebyshev_polynomial_t",),
    inplace=False,
    complex=False,
    vjp=None,
    numbers="both",
)
def shifted_chebyshev_polynomial_t(xp, x, n):
    """`chebyshev_polynomial_t` at `2 * x - 1`.

    >>> import plugrad as torch
    >>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.5]), 2)
    tensor([-1.])
    """
    shifted = 2 * x - 1
    return _chebyshev(xp, shifted, n, shifted)


@binary(
    promote="float",
    at=("special.shifted_chebyshev_polynomial_u",),
    inplace=False,
    complex=False,
    vjp=None,
    numbers="both",
)
def shifted_chebyshev_polynomial_u(xp, x, n):
    """`chebyshev_polynomial_u` at `2 * x - 1`.

    >>> import plugrad as torch
    >>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.5]), 2)
    tensor([-1.])
    """
    shifted = 2 * x - 1
    return _chebyshev(xp, shifted, n, 2 * shifted)


@binary(
    promote="float",
    at=("special.shifted_chebyshev_polynomial_v",),
    inplace=False,
    complex=False,
    vjp=None,
    numbers="both",
)
def shifted_chebyshev_polynomial_v(xp, x, n):
    """`chebyshev_polynomial_v` at `2 * x - 1`.

    >>> import plugrad as torch
    >>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.5]), 2)
    tensor([-1.])
    """
    shifted = 2 * x - 1
    return _chebyshev(xp, shifted, n, 2 * shifted - 1)


@binary(
    promote="float",
    at=("special.shifted_chebyshev_polynomial_w",),
    inplace=False,
    complex=False,
    vjp=None,
    numbers="both",
)
def shifted_chebyshev_polynomial_w(xp, x, n):
    """`chebyshev_polynomial_w` at `2 * x - 1`.

    >>> import plugrad as torch
    >>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.5]), 2)
    tensor([-1.])
    """
    shifted = 2 * x - 1
    return _chebyshev(xp, shifted, n, 2 * shifted + 1)


@binary(promote="float", at=("special.hermite_polynomial_h",), inplace=False, complex=False, vjp=None, numbers="both")
def hermite_polynomial_h(xp, x, n):
    """Physicists' Hermite polynomial of degree `n`.

    >>> import plugrad as torch
    >>> torch.special.hermite_polynomial_h(torch.tensor([1.]), 2)
    tensor([2.])
    """
    return _recur(xp, x, n, 2 * x, lambda k, p, q: 2 * (x * p - k * q))


@binary(promote="float", at=("special.hermite_polynomial_he",), inplace=False, complex=False, vjp=None, numbers="both")
def hermite_polynomial_he(xp, x, n):
    """Probabilists' Hermite polynomial of degree `n`.

    >>> import plugrad as torch
    >>> torch.special.hermite_polynomial_he(torch.tensor([2.]), 2)
    tensor([3.])
    """
    return _recur(xp, x, n, x, lambda k, p, q: x * p - k * q)


@binary(promote="float", at=("special.laguerre_polynomial_l",), inplace=False, complex=False, vjp=None, numbers="both")
def laguerre_polynomial_l(xp, x, n):
    """Laguerre polynomial of degree `n`.

    >>> import plugrad as torch
    >>> torch.special.laguerre_polynomial_l(torch.tensor([2.]), 2)
    tensor([-1.])
    """
    return _recur(xp, x, n, 1 - x, lambda k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1))


@binary(promote="float", at=("special.legendre_polynomial_p",), inplace=False, complex=False, vjp=None, numbers="both")
def legendre_polynomial_p(xp, x, n):
    """Legendre polynomial of degree `n`.

    >>> import plugrad as torch
    >>> torch.special.legendre_polynomial_p(torch.tensor([2.]), 2)
    tensor([5.5000])
    """
    return _recur(xp, x, n, x, lambda k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
