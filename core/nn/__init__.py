"""Neural networks: Module, its parameters and containers; plugins bring layers."""

from __future__ import annotations

import sys

from plugrad import registry
from plugrad.nn import containers, module, parameter
from plugrad.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from plugrad.nn.module import Module
from plugrad.nn.parameter import Buffer, Parameter
from plugrad.registry import loader

__all__ = [
    "Buffer",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "Sequential",
    "module",
    "parameter",
]

# PyTorch's longer paths: torch.nn.modules.module.Module, torch.nn.modules.container.Sequential.
modules = sys.modules[__name__]
container = containers

functional = loader.namespace_module("nn.functional", "The functional forms of layers and losses.")
init = loader.namespace_module("nn.init", "Functions that fill a tensor in place.")

# Every other name - layers, losses - is resolved through the registry.


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'plugrad.nn' has no attribute {name!r}")
    if name == "utils":  # imported at first use: a program that trains need not have it
        import importlib

        return importlib.import_module("plugrad.nn.utils")
    found = registry.resolve(f"nn.{name}")
    globals()[name] = found
    return found


def __dir__():
    return sorted({*globals(), *registry.names_in("nn"), "utils"})
