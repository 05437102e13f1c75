"""Submodules, parameters and buffers of a module by their dotted names: methods of Module."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.nn import Module, Parameter

__all__ = ["get_buffer", "get_parameter", "get_submodule", "set_submodule"]


def get_submodule(self, target: str) -> Module:
    """Return the module at the dotted path ``target``; the empty path is this module.

    Raises AttributeError that names the first part of the path that is missing or no module.

    >>> import plugrad as torch
    >>> nested = torch.nn.Sequential(torch.nn.ModuleDict({"inner": torch.nn.ModuleList()}))
    >>> nested.get_submodule("0.inner")
    ModuleList()
    """
    module, target = self, _text(target)
    for name in target.split(".") if target else ():
        module = _member(module, name)
        if not isinstance(module, Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
    return module


def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
    """Put ``module`` at the dotted path ``target``.

    Args:
        target: the path; all but its last part must exist.
        module: the new module.
        strict: demand that there is a module to replace.
    """
    if _text(target) == "":
        raise ValueError("Cannot set the submodule without a target name!")
    if not isinstance(module, Module):
        raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
    path, _, name = target.rpartition(".")
    parent = self.get_submodule(path)
    if (strict or hasattr(parent, name)) and not isinstance(_member(parent, name), Module):
        raise AttributeError(f"`{name}` is not an nn.Module")
    setattr(parent, name, module)


def get_parameter(self, target: str) -> Parameter:
    """Return the parameter at the dotted path ``target``, or raise AttributeError."""
    path, _, name = _text(target).rpartition(".")
    parameter = _member(self.get_submodule(path), name)
    if not isinstance(parameter, Parameter):
        raise AttributeError(f"`{name}` is not an nn.Parameter")
    return parameter


def get_buffer(self, target: str) -> Tensor:
    """Return the buffer at the dotted path ``target``, or raise AttributeError."""
    path, _, name = _text(target).rpartition(".")
    module = self.get_submodule(path)
    buffer = _member(module, name)
    if name not in module._buffers:
        raise AttributeError(f"`{name}` is not a buffer")
    return buffer


def _text(target) -> str:
    if not isinstance(target, str):  # PyTorch's type of error
        raise AttributeError(f"a path is a string such as 'layer.0', not {type(target).__name__}")
    return target


def _member(module, name):
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)
