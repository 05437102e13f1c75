"""`torch.__future__`: other ways in which `Module.to` and `load_state_dict` may treat parameters than new data."""

from __future__ import annotations

from plugrad import Tensor, no_grad
from plugrad.nn import Parameter
from plugrad.nn.conversion import ways
from plugrad.utils.swapping import exchange

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip


def set_overwrite_module_params_on_conversion(value) -> None:
    """Whether conversions of modules put new Parameters into the places of the old ones.

    By default the Parameters are kept and given new data, which is what optimizers and other references to them need.

    >>> import plugrad as torch
    >>> net = torch.nn.Linear(2, 2)
    >>> weight = net.weight
    >>> torch.__future__.set_overwrite_module_params_on_conversion(True)
    >>> net.double().weight is weight, weight.dtype
    (False, torch.float32)
    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    (ways.add if value else ways.discard)("overwrite")


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions of modules put new Parameters into the places of the old ones."""
    return "overwrite" in ways


def set_swap_module_params_on_conversion(value) -> None:
    """Whether conversions and load_state_dict exchange Parameters with new ones by `utils.swap_tensors`.

    Every reference to a Parameter then leads to the new one, of whatever class it is; `Tensor.module_load` says
    what is loaded. It goes before `set_overwrite_module_params_on_conversion`.
    """
    (ways.add if value else ways.discard)("swap")


def get_swap_module_params_on_conversion() -> bool:
    """Whether conversions of modules and load_state_dict exchange Parameters by `utils.swap_tensors`."""
    return "swap" in ways


def convert(module, key: str, parameter: Tensor, fn) -> None:
    """Convert one Parameter of a module and its gradient in the way that was asked for."""
    grad, place = parameter.grad, f"{module._get_name()}.{key}"
    with no_grad():
        converted = fn(parameter)
        new_grad = None if grad is None else fn(grad).requires_grad_(grad.requires_grad)
    new = Parameter(converted, requires_grad=parameter.requires_grad)
    if "swap" not in ways:
        module._parameters[key] = new
        new.grad = new_grad
        return
    try:
        parameter.grad = None
        _swap(parameter, new, place)
    except RuntimeError:
        parameter.grad = grad
        raise
    if grad is not None:
        _swap(grad, new_grad, f"{place}.grad")
        parameter.grad = grad


def _swap(old, new, place) -> None:
    try:
        exchange(old, new)
    except RuntimeError as error:
        raise RuntimeError(f"_apply(): Couldn't swap {place}") from error


def load(current: Tensor, value: Tensor, assign: bool) -> None:
    """Exchange a parameter or buffer with what its `module_load` makes of a loaded value."""
    new = current.module_load(value, assign=assign)
    if new is current or new is value:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs "
            "in module_load"
        )
    if isinstance(current, Parameter):
        if isinstance(new, Parameter):
            new.requires_grad_(current.requires_grad)
        else:
            new = Parameter(new, requires_grad=current.requires_grad)
    exchange(current, new)
