"""What optimizers written for PyTorch import from `torch.optim.optimizer` and `torch.utils._foreach_utils`.

The names are private there, but dozens of packages use them: each step of such an optimizer begins with them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import plugrad
from plugrad import Tensor, set_grad_enabled
from plugrad.nn import Parameter

ParamsT = Iterable  # what an optimizer is given, in annotations
_foreach_supported_types = [Tensor, Parameter]
# The paragraphs of docstrings that PyTorch's optimizers put into their own.
_params_doc = "params (iterable): tensors, pairs (name, tensor) or parameter groups to optimize"
_foreach_doc = "foreach (bool, optional): accepted; a step handles its tensors together in any case"
_fused_doc = "fused (bool, optional): accepted; a step handles its tensors together in any case"
_capturable_doc = "capturable (bool, optional): count steps on the device, so that a CUDA graph can hold them"
_differentiable_doc = "differentiable (bool, optional): record the step, so that gradients flow through it"
_maximize_doc = "maximize (bool, optional): ascend the objective instead of descending"


def _use_grad_for_differentiable(func):
    """Wrap a `step` so that it is recorded if, and only if, the optimizer's option `differentiable` is set."""

    @functools.wraps(func)
    def step(self, *args, **kwargs):
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return step


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """Return a decorator that leaves a function as it is: steps are not compiled."""
    return lambda func: func


def _get_value(x):
    """The number that a tensor of one element holds, or the number itself."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x):
    """Return the list itself: steps are not compiled."""
    return x


def _to_scalar(x):
    """A tensor of one element without dimensions; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _dispatch_sqrt(x):
    """The square root of a tensor or of a number."""
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def _get_scalar_dtype(is_fused=None):
    """The dtype of a count of steps."""
    double = not is_fused and plugrad.get_default_dtype() is plugrad.float64
    return plugrad.float64 if double else plugrad.float32


def _view_as_real(params, *state_and_grads) -> None:
    """Replace the complex tensors of lists, told by the first one, by views of their parts."""
    for index, parameter in enumerate(params):
        if parameter.is_complex():
            for one in (params, *state_and_grads):
                one[index] = plugrad.view_as_real(one[index])


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The types of devices where PyTorch has kernels for lists of tensors that it takes by default."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The types of devices where PyTorch has fused kernels of optimizers."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The types of devices where `capturable=True` has a meaning in PyTorch."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _default_to_fused_or_foreach(params, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Return `(fused, foreach)` as PyTorch chooses them for such parameters."""

    def all_on(devices, fits):
        given = [p for p in params if p is not None]
        return all(type(p) in _foreach_supported_types and p.device.type in devices and fits(p) for p in given)

    if differentiable:
        return False, False
    fused = use_fused and all_on(_get_fused_kernels_supported_devices(), Tensor.is_floating_point)
    return fused, not fused and all_on(_get_foreach_kernels_supported_devices(), lambda p: True)


def _device_dtype_check_for_fused(p, cuda_unsupported: bool = False) -> None:
    """Raise RuntimeError for a parameter that PyTorch's fused kernels do not take."""
    devices = [one for one in _get_fused_kernels_supported_devices() if not (cuda_unsupported and one == "cuda")]
    if not (p.device.type in devices and p.is_floating_point()):
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of "
            f"supported devices: {devices} but {p.dtype} and {p.device.type}"
        )


def _device_has_foreach_support(device) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors, device) -> bool:
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices: bool = False) -> dict:
    """Return `{(device, dtype): (lists, indices)}`: lists of tensors, by what the first list has at each place.

    The indices are empty unless asked for; an empty list stays empty.

    >>> import plugrad as torch
    >>> from plugrad.utils._foreach_utils import _group_tensors_by_device_and_dtype
    >>> ones, twos = [torch.ones(1), torch.ones(1, dtype=torch.int64)], [2, 3]
    >>> list(_group_tensors_by_device_and_dtype([ones, twos], with_indices=True).values())
    [([[tensor([1.])], [2]], [0]), ([[tensor([1])], [3]], [1])]
    """
    groups: dict = {}
    for place, tensor in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault((tensor.device, tensor.dtype), ([[] for _ in tensorlistlist], []))
        for grouped, given in zip(lists, tensorlistlist):
            if given:
                grouped.append(given[place])
        if with_indices:
            places.append(place)
    return groups
