"""The error of linear algebra, which programs name before anything of it is loaded."""

from __future__ import annotations

__all__ = ["LinAlgError"]


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive definite, or an iteration did not converge.

    >>> import plugrad as torch
    >>> try:
    ...     torch.linalg.inv(torch.zeros(2, 2))
    ... except torch.linalg.LinAlgError:
    ...     print("singular")
    singular
    """


LinAlgError.__module__ = "plugrad.linalg"
