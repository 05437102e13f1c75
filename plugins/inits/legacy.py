"""The old names without an underscore, as in `nn.init.xavier_uniform`: they warn and do the same."""

from __future__ import annotations

import functools
import warnings

from plugrad.extend import hookimpl

from . import constant, random

_OLD = {
    constant: ("constant_", "eye_", "dirac_"),
    random: (
        "uniform_",
        "normal_",
        "xavier_uniform_",
        "xavier_normal_",
        "kaiming_uniform_",
        "kaiming_normal_",
        "orthogonal_",
        "sparse_",
    ),
}


def _deprecated(function):
    new = function.__name__
    old = new.removesuffix("_")

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    wrapper.__name__ = wrapper.__qualname__ = old
    wrapper.__module__ = __name__
    wrapper.__doc__ = f"The old name of `{new}`."
    return wrapper


@hookimpl
def plugrad_inits():
    return [_deprecated(getattr(module, name)) for module, names in _OLD.items() for name in names]
