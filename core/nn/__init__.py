"""Neural networks: Module and its parameters; plugins bring layers, and containers stand beside the core."""

from __future__ import annotations

from plugrad import registry
from plugrad.nn import module, parameter
from plugrad.nn.module import Module
from plugrad.nn.parameter import Buffer, Parameter
from plugrad.nn.tables import room
from plugrad.registry.namespaces import lazy_names, namespace_module

functional = namespace_module("nn.functional", "The functional forms of layers and losses.", {
    "overrides": "handle_torch_function has_torch_function",
})  # fmt: skip
_written = functional.__getattr__


def _functional(name):
    try:
        return _written(name)
    except AttributeError:  # no function is written for this layer: one is derived from the class
        form = None if name[:1] == "_" else room("nn.forms").named(name)
        if form is None:
            raise
        return form


functional.__getattr__ = _functional
init = namespace_module("nn.init", "Functions that fill a tensor in place.", {"nn.policies": "policy"})

registry.declare_kind("layers", home="nn", base=Module)
registry.declare_kind("losses", home="nn", base=Module)
registry.declare_kind("inits", home="nn.init")
registry.declare_kind("init_policies", home="nn.policies")

__getattr__, __dir__ = lazy_names(globals(), "nn", {
    "nn.utils": "LinearCrossEntropyOptions factory_kwargs", "nn.parallel": "DataParallel", "nn.grad": "",
    "nn.lazy": "UninitializedBuffer UninitializedParameter",
    "nn.container": "Container ModuleDict ModuleList ParameterDict ParameterList Sequential",
})  # fmt: skip
