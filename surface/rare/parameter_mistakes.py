"""What is wrong with the parameters that an optimizer is given."""

from __future__ import annotations

import warnings

from plugrad import Tensor


def refuse_params(params) -> None:
    """Raise TypeError for something that is no iterable of parameters."""
    raise TypeError(
        "params argument given to the optimizer should be an iterable of Tensors or dicts, "
        f"but got {type(params).__name__}; for one tensor write [tensor], for a module module.parameters()"
    )


def refuse_group(group) -> None:
    """Raise TypeError for a group of parameters that is no dict, KeyError for one without parameters."""
    if not isinstance(group, dict):
        raise TypeError(f"param_group must be a dict, but got {type(group)}")
    raise KeyError(f"a group of parameters is {{'params': [...], ...}}; this one has {sorted(group)}")


def refuse_param(p) -> None:
    """Raise TypeError for a parameter that is no tensor, ValueError for one that an operation made."""
    if not isinstance(p, Tensor):
        raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
    raise ValueError("can't optimize a non-leaf Tensor; use a tensor that no operation made, or x.detach()")


def check_fused(group) -> None:
    """Raise RuntimeError where a group of parameters, or its differentiable steps, can't have fused ones."""
    if group.get("fused") and group.get("differentiable"):
        raise RuntimeError("`fused` does not support `differentiable`; leave one of them out")
    wrong = [p.dtype for p in group["params"] if not p.dtype.is_floating_point] if group.get("fused") else ()
    if wrong:
        need = "`fused=True` requires all the params to be floating point Tensors"
        raise RuntimeError(f"{need}, but one is {wrong[0]}: leave `fused` out")


def refuse_set() -> None:
    """Raise TypeError for a set of parameters."""
    raise TypeError(
        "optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
        "in sets will change between runs. Please use a list instead."
    )


def refuse_names(names) -> None:
    """Raise ValueError for a group of parameters with names among groups without, or the other way round."""
    raise ValueError(
        "all optimizer param groups should be with/without names. cannot add param group "
        f"{'with' if names else 'without'} names to the optimizer"
    )


def refuse_complex(optimizer) -> None:
    """Raise NotImplementedError for a complex parameter of an optimizer that takes none."""
    raise NotImplementedError(
        f"{type(optimizer).__name__} does not support complex parameters; optimize "
        "torch.view_as_real(parameter), made once as a leaf, instead"
    )


def warn_of_duplicates() -> None:
    """Warn of a parameter that is in one group twice."""
    warnings.warn(
        "optimizer contains a parameter group with duplicate parameters; each is updated once a step", stacklevel=4
    )
