"""Weight normalization by a hook before forward: the older form of `parametrizations.weight_norm`."""

from __future__ import annotations

import warnings

import plugrad
from plugrad.extend import held_back
from plugrad.nn import Module, Parameter
from plugrad.nn.utils._norms import hook_of, refuse_uninitialized

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook: before each forward it computes the weight `name` from its parts `name_g` and `name_v`."""

    def __init__(self, name: str, dim: int | None):
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module):
        """Return the weight."""
        return plugrad._weight_norm(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a parameter by its parts; return the hook that joins them."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        if hook_of(module._forward_pre_hooks, WeightNorm, name) is not None:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        refuse_uninitialized(weight, "WeightNorm", "weight normalization")
        size = plugrad.norm_except_dim(weight, 2, hook.dim)
        with held_back():
            del module._parameters[name]
            module.register_parameter(name + "_g", Parameter(size.data))
            module.register_parameter(name + "_v", Parameter(weight.data))
            setattr(module, name, hook.compute_weight(module))
            module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight, as it is now, a parameter again."""
        weight = self.compute_weight(module)
        with held_back():
            delattr(module, self.name)
            del module._parameters[self.name + "_g"]
            del module._parameters[self.name + "_v"]
            setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the length and the direction of a weight apart: `weight_g` and `weight_v`.

    Deprecated: `plugrad.nn.utils.parametrizations.weight_norm` does the same, and the weight is then never out of date.

    Args:
        module: the module, which is returned.
        name: which of its parameters.
        dim: each index of this dimension has a length of its own; None is one length for all.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`, keeping the weight as it is; ValueError if there is none."""
    key = hook_of(module._forward_pre_hooks, WeightNorm, name)
    if key is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    with held_back():
        module._forward_pre_hooks.pop(key).remove(module)
    return module
