"""Hooks of all modules, as PyTorch has them in `torch.nn.modules.module`; they run before a module's own."""

from __future__ import annotations

from plugrad.nn import Module

__all__ = [
    "register_module_backward_hook", "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

_all = Module._all_modules


def register_module_forward_pre_hook(hook):
    """Run ``hook(module, args)`` before every module's forward.

    The hook is that of Module.register_forward_pre_hook without keyword arguments.
    """
    return _all.register_forward_pre_hook(hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Run ``hook(module, args, output)`` after every module's forward.

    The arguments are those of Module.register_forward_hook.

    >>> import plugrad as torch
    >>> seen = []
    >>> with torch.nn.module.register_module_forward_hook(lambda module, args, output: seen.append(module)):
    ...     _ = torch.nn.Sequential()(torch.tensor([1.0]))
    >>> seen
    [Sequential()]
    """
    return _all.register_forward_hook(hook, with_kwargs=with_kwargs, always_call=always_call)


def register_module_full_backward_pre_hook(hook):
    """As Module.register_full_backward_pre_hook, for every module."""
    return _all.register_full_backward_pre_hook(hook)


def register_module_full_backward_hook(hook):
    """As Module.register_full_backward_hook, for every module."""
    return _all.register_full_backward_hook(hook)


def register_module_backward_hook(hook):
    """As Module.register_backward_hook, for every module."""
    return _all.register_backward_hook(hook)


def register_module_parameter_registration_hook(hook):
    """Run ``hook(module, name, param)`` at every registration; what it returns, if not None, is registered instead."""
    return _all.register_registration_hook("parameter", hook)


def register_module_buffer_registration_hook(hook):
    """Run ``hook(module, name, buffer)`` at every registration; what it returns, if not None, is registered instead."""
    return _all.register_registration_hook("buffer", hook)


def register_module_module_registration_hook(hook):
    """Run ``hook(module, name, child)`` at every registration; what it returns, if not None, is registered instead."""
    return _all.register_registration_hook("module", hook)
