"""Optimizers and learning-rate schedules.

The base classes live here. Every algorithm, `SGD` and `Adam` included, is a plugin, and its name is resolved
from the registry.
"""

from plugrad.optim import lr_scheduler
from plugrad.optim.optimizer import Optimizer
from plugrad.registry.namespaces import lazy_names

__all__ = ["Optimizer", "lr_scheduler"]

__getattr__, __dir__ = lazy_names(globals(), "optim")
