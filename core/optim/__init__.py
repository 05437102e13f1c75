"""Optimizers and learning-rate schedules.

The base classes live here. Every algorithm, `SGD` and `Adam` included, is a plugin, and its name is resolved
from the registry.
"""

from plugrad import registry
from plugrad.optim.optimizer import Optimizer
from plugrad.registry.namespaces import lazy_names

registry.declare_kind("optimizers", home="optim", base=Optimizer)
registry.declare_kind("schedulers", home="optim.lr_scheduler", base="LRScheduler")
__getattr__, __dir__ = lazy_names(globals(), "optim", {
    "optim.batching": "", "optim.differentiable": "", "optim.lr_scheduler": "", "optim.swa_utils": "",
    "optim.swapping": "swap_in_optimizer_params_and_state",
})  # fmt: skip
