"""Names that PyTorch has in its C++ part and that classes with overrides use."""

import contextlib
import enum
import types

from plugrad import Generator, Tensor, amp, is_grad_enabled
from plugrad.autograd.graph import saved
from plugrad.extend import choose_memory, chosen_memory
from plugrad.nn import Parameter
from plugrad.overrides import DisableTorchFunctionSubclass

DisableTorchFunction = DisableTorchFunctionSubclass
_disabled_torch_function_impl = Parameter.__torch_function__
TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)


DispatchKey = enum.Enum(
    "DispatchKey",
    "CPU CUDA Meta Autograd AutogradCPU AutogradCUDA AutogradMeta AutogradOther AutocastCPU AutocastCUDA AutocastXPU "
    "AutocastMPS BackendSelect CompositeExplicitAutograd CompositeImplicitAutograd Functionalize Python",
)
DispatchKey.__doc__ = "Where PyTorch's dispatcher looks for a kernel; plugrad asks the record of the op instead."


class DispatchKeySet(frozenset):
    """Some dispatch keys, of one or of others put together by `|`."""

    def __new__(cls, keys):
        return super().__new__(cls, (keys,) if isinstance(keys, DispatchKey) else keys)

    def __or__(self, other):
        return DispatchKeySet({*self, *other})

    def has(self, key) -> bool:
        """Whether a key is among them."""
        return key in self


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys):
    """Leave autocast out in a block, where the keys have it; for the others there is nothing to leave out."""
    with contextlib.ExitStack() as stack:
        for key, device in ((DispatchKey.AutocastCPU, "cpu"), (DispatchKey.AutocastCUDA, "cuda")):
            if key in keys:
                stack.enter_context(amp.autocast(device, enabled=False))
        yield


_autograd = types.SimpleNamespace(
    SavedTensor=saved.SavedTensor, _saved_tensors_hooks_is_enabled=saved._saved_tensors_hooks_is_enabled
)


def _log_api_usage_once(event) -> None:
    """Accepted: nothing counts which of its names a program uses."""


def _get_tracing_state() -> None:
    """Return None: no tracer records the ops of a program."""


def _get_deterministic_fill_uninitialized_memory() -> bool:
    """Return `torch.utils.deterministic.fill_uninitialized_memory`."""
    return chosen_memory("fill")


def _set_deterministic_fill_uninitialized_memory(value) -> None:
    """Set `torch.utils.deterministic.fill_uninitialized_memory`."""
    choose_memory(fill=bool(value))


__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Generator", "TensorBase",
    "_disabled_torch_function_impl", "is_grad_enabled",
]  # fmt: skip
