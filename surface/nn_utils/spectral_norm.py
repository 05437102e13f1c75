"""Spectral normalization by a hook before forward: the older form of `parametrizations.spectral_norm`."""

from __future__ import annotations

import plugrad
from plugrad import no_grad
from plugrad.extend import held_back
from plugrad.nn import Module, Parameter
from plugrad.nn import functional as F
from plugrad.nn.utils._norms import as_matrix, hook_of, output_dim, refuse_uninitialized, unit_vectors

__all__ = [
    "SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook", "remove_spectral_norm",
    "spectral_norm",
]  # fmt: skip


class SpectralNorm:
    """The hook: before each forward it divides the parameter `name_orig` by its largest singular value.

    The vectors of that value, which power iterations follow in training, are the buffers `name_u` and `name_v`.
    """

    _version = 1  # 0 saved the weight itself, and no v

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def reshape_weight_to_matrix(self, weight):
        """Return the weight as a matrix whose rows stand for the outputs."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool):
        """Return the weight, after power iterations if they are asked for."""
        weight, u, v = [getattr(module, self.name + suffix) for suffix in ("_orig", "_u", "_v")]
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                with held_back():
                    for _ in range(self.n_power_iterations):  # in place: replicas of the module share the vectors
                        F.normalize(plugrad.mv(matrix.t(), u), dim=0, eps=self.eps, out=v)
                        F.normalize(plugrad.mv(matrix, v), dim=0, eps=self.eps, out=u)
                u, v = u.clone(), v.clone()  # the next forward changes them, maybe before this one's backward
        return weight / plugrad.dot(u, plugrad.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Make the weight, as it is now, a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        with held_back():
            for suffix in ("", "_u", "_v", "_orig"):
                delattr(module, self.name + suffix)
            module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v(self, matrix, u, sigma):
        """Return the v for which `u` is `normalize(matrix @ v)`, and `u @ matrix @ v` is `sigma`."""
        v = plugrad.mv((matrix.t() @ matrix).pinverse(), plugrad.mv(matrix.t(), u))
        return v * (sigma / plugrad.dot(u, plugrad.mv(matrix, v)))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Put the hook before a module's forward; return it."""
        if hook_of(module._forward_pre_hooks, SpectralNorm, name) is not None:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        refuse_uninitialized(weight, "SpectralNorm", "spectral normalization")
        u, v = unit_vectors(hook.reshape_weight_to_matrix(weight), eps)
        with held_back():
            delattr(module, name)
            module.register_parameter(name + "_orig", weight)
            setattr(module, name, weight.data)  # a plain attribute, for those who look at it before the first forward
            module.register_buffer(name + "_u", u)
            module.register_buffer(name + "_v", v)
            module.register_forward_pre_hook(hook)
            module._register_state_dict_hook(SpectralNormStateDictHook(hook))
            module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


class SpectralNormLoadStateDictPreHook:
    """Turns states of version 0, which held the weight and no v, into today's."""

    def __init__(self, fn: SpectralNorm):
        self.fn = fn

    def __call__(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        fn, key = self.fn, prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version")
        if version is not None and version >= 1:
            return
        today = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v")) and key not in state_dict
        if version is None and today:  # only the metadata is missing
            return
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else ())
            return
        with no_grad():
            original = state_dict[key + "_orig"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix = fn.reshape_weight_to_matrix(original)
            state_dict[key + "_v"] = fn._solve_v(matrix, state_dict[key + "_u"], sigma)


class SpectralNormStateDictHook:
    """Notes the version in the metadata of a state."""

    def __init__(self, fn: SpectralNorm):
        self.fn = fn

    def __call__(self, module, state_dict, prefix, local_metadata):
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(module: Module, name="weight", n_power_iterations=1, eps=1e-12, dim=None) -> Module:
    """Divide a weight by its largest singular value before each forward.

    `plugrad.nn.utils.parametrizations.spectral_norm` is the newer form.

    Args:
        module: the module, which is returned.
        name: which of its parameters.
        n_power_iterations: how many power iterations each forward makes in training.
        eps: the least length that a vector is divided by.
        dim: the dimension of the outputs: by default 0, and 1 for transposed convolutions. The others are joined.

    >>> import plugrad as torch
    >>> sorted(torch.nn.utils.spectral_norm(torch.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm`, keeping the weight as it is; ValueError if there is none."""
    key = hook_of(module._forward_pre_hooks, SpectralNorm, name)
    if key is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    with held_back():
        module._forward_pre_hooks.pop(key).remove(module)
        for hooks, kind in (
            (module._state_dict_hooks, SpectralNormStateDictHook),
            (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
        ):
            for key in [key for key, hook in hooks.items() if isinstance(hook, kind) and hook.fn.name == name]:
                del hooks[key]
    return module
