"""Optimizers and learning-rate schedules.

The base classes live here. Every algorithm, `SGD` and `Adam` included, is a plugin, and its name is resolved
from the registry.
"""

from plugrad import registry
from plugrad.optim import lr_scheduler
from plugrad.optim.optimizer import Optimizer

__all__ = ["Optimizer", "lr_scheduler"]


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'plugrad.optim' has no attribute {name!r}")
    value = globals()[name] = registry.resolve(f"optim.{name}")
    return value


def __dir__():
    return sorted({*globals(), *registry.names_in("optim")})
