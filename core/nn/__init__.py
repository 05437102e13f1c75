"""Neural networks: Module and its parameters; plugins bring layers, and containers stand beside the core."""

from __future__ import annotations

import sys

from plugrad import registry
from plugrad.nn import module, parameter
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

modules = sys.modules[__name__]  # PyTorch's longer paths: torch.nn.modules.module.Module

registry.declare_kind("layers", home="nn", base=Module)
registry.declare_kind("losses", home="nn", base=Module)
registry.declare_kind("inits", home="nn.init")

# Rooms beside the core, which are imported at the first use of their names; all other names the registry has.
_ROOMS = {
    "utils": "utils", "containers": "containers", "container": "containers",
    **dict.fromkeys(("ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"), "containers"),
}  # fmt: skip
registry.reserve("nn", _ROOMS)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'plugrad.nn' has no attribute {name!r}")
    if name in _ROOMS:
        import importlib

        room = importlib.import_module(f"plugrad.nn.{_ROOMS[name]}")
        value = getattr(room, name, room)
    else:
        value = registry.resolve(f"nn.{name}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *registry.names_in("nn"), *_ROOMS})
