"""Modules whose parameters are not initialized."""

from __future__ import annotations

import inspect

from plugrad.nn import Module

__all__ = ["skip_init"]


def skip_init(module_cls, *args, **kwargs):
    """Return a module with undefined parameters, sparing their initialization.

    Args:
        module_cls: a Module class that takes `device`.
        args: what it is constructed with, as are `kwargs`.

    Raises RuntimeError for other classes.

    >>> import plugrad as torch
    >>> torch.nn.utils.skip_init(torch.nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
