"""`torch.__future__`: how `Module.to` and `load_state_dict` treat parameters; they write into those that are there."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip


def _refuse(name, value) -> None:
    if value:
        raise NotImplementedError(
            f"torch.__future__.{name}(True) is not available: conversion keeps the Parameter objects and gives them "
            "new data, which is what optimizers and references to them need"
        )


def set_overwrite_module_params_on_conversion(value) -> None:
    """Accept False; True raises NotImplementedError."""
    _refuse("set_overwrite_module_params_on_conversion", value)


def set_swap_module_params_on_conversion(value) -> None:
    """Accept False; True raises NotImplementedError."""
    _refuse("set_swap_module_params_on_conversion", value)


def get_overwrite_module_params_on_conversion() -> bool:
    """Always False."""
    return False


get_swap_module_params_on_conversion = get_overwrite_module_params_on_conversion
