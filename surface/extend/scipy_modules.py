"""SciPy in kernels, for whichever array module they compute with."""

from __future__ import annotations

from plugrad.devices.device import backend_of
from plugrad.registry import events

_scipy: dict = {}  # (array module, name) -> module


def scipy_of(xp, name: str):
    """Return SciPy's module `name` for a kernel's array module `xp`.

    That is `scipy.special` for NumPy and "special", `cupyx.scipy.special` for CuPy, and what the backend's `scipy`
    says for others: NotImplementedError where it has none. Imported at first use.

    >>> import numpy
    >>> from plugrad.extend import scipy_of
    >>> float(scipy_of(numpy, "special").erf(0.0))
    0.0
    """
    module = _scipy.get((xp, name))
    if module is None:
        module = _scipy[xp, name] = backend_of(xp).scipy(name)
    return module


def has_scipy_module(xp, module) -> bool:
    """Whether `scipy_of` gave a module to kernels on the array module `xp`."""
    return any(xp is owner and module is given for (owner, _), given in list(_scipy.items()))


def _forget(dotted) -> None:
    """Ask backends again, after one was replaced or taken back."""
    if dotted.startswith("backends."):
        _scipy.clear()


events.on_forget.append(_forget)
