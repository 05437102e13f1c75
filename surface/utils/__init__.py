"""`plugrad.utils`: data loading (`data`) and checkpointing of activations (`checkpoint`)."""

from __future__ import annotations

import importlib

from plugrad.torch_modules import attribute

__all__ = [
    "_pytree", "benchmark", "checkpoint", "collect_env", "data", "deterministic", "flop_counter",
    "module_tracker", "swap_tensors", "weak",
]  # fmt: skip


def __getattr__(name):
    # Imported at first use: a program that only infers needs neither.
    if name == "swap_tensors":
        return importlib.import_module("plugrad.utils.swapping").swap_tensors
    if name in __all__:
        return importlib.import_module(f"plugrad.utils.{name}")
    return attribute("plugrad.utils", name, AttributeError(f"module 'plugrad.utils' has no attribute {name!r}"))
