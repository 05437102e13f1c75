"""What is wrong with the parameters that an optimizer is given."""

from __future__ import annotations

import warnings


def refuse_params(params) -> None:
    """Raise TypeError for something that is no iterable of parameters."""
    raise TypeError(
        "params argument given to the optimizer should be an iterable of Tensors or dicts, "
        f"but got {type(params).__name__}; for one tensor write [tensor], for a module module.parameters()"
    )


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
