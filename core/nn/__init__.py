"""Neural networks: Module, its parameters and containers; plugins bring layers."""

from __future__ import annotations

import sys

from plugrad import registry
from plugrad.nn import containers, module, parameter
from plugrad.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from plugrad.nn.module import Module
from plugrad.nn.namespaces import functional, init
from plugrad.nn.parameter import Buffer, Parameter

__all__ = [
    "Buffer",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "Sequential",
    "functional",
    "init",
    "module",
    "parameter",
]

# PyTorch's longer paths: torch.nn.modules.module.Module, torch.nn.modules.container.Sequential.
modules = sys.modules[__name__]
container = containers

registry.declare_kind("layers", home="nn", base=Module)
registry.declare_kind("losses", home="nn", base=Module)
registry.declare_kind("inits", home="nn.init")

# Every other name - layers, losses - is resolved through the registry.


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'plugrad.nn' has no attribute {name!r}")
    if name == "utils":  # imported at first use: a program that trains need not have it
        import importlib

        return importlib.import_module("plugrad.nn.utils")
    value = globals()[name] = registry.resolve(f"nn.{name}")
    return value


def __dir__():
    return sorted({*globals(), *registry.names_in("nn"), "utils"})
