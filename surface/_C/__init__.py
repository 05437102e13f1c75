"""Names that PyTorch has in its C++ part and that classes with overrides use."""

import contextlib
import enum
import types
import weakref

import plugrad
from plugrad import Generator, Tensor, amp, dtype, is_grad_enabled
from plugrad.autograd import Function, forward_ad
from plugrad.autograd.graph import saved
from plugrad.extend import choose_memory, chosen_memory
from plugrad.graph.nodes import AccumulateGrad
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
DispatchKey.__doc__ = "Where PyTorch's dispatcher looks for a kernel; plugrad asks the op's record."


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


def _infer_size(one, other):
    """Return the shape that two shapes broadcast to."""
    return plugrad.broadcast_shapes(one, other)


class _WeakTensorRef:
    """A reference to a tensor that does not keep it."""

    def __init__(self, tensor):
        self._tensor = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._tensor() is None


class _UndefinedGrad(Function):
    """The tensor itself, through which no gradient comes back."""

    @staticmethod
    def forward(ctx, tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, g):
        return None


class _functions:
    """Nodes that PyTorch has in its C++ part."""

    AccumulateGrad = AccumulateGrad

    @staticmethod
    def UndefinedGrad():
        """Return a function that gives its argument back and hands no gradient on."""
        return _UndefinedGrad.apply


_set_fwd_grad_enabled = forward_ad._set_enabled


def _log_api_usage_once(event) -> None:
    """Accepted: nothing counts which of its names a program uses."""


def _are_functorch_transforms_active() -> bool:
    """Return False: functions that are transformed see plain tensors, which have values."""
    return False


class _Functional(type):
    """The type of a class that has the functions of `nn.functional`, too."""

    def __getattr__(cls, name):
        return getattr(plugrad.nn.functional, name)


class _nn(metaclass=_Functional):
    """Functions of modules, and those that graphs show as PyTorch's C++ functions."""

    @staticmethod
    def _parse_to(*args, **kwargs) -> tuple:
        """Return what `to` was given as (device, dtype, non_blocking, memory_format).

        >>> import plugrad as torch
        >>> torch._C._nn._parse_to("cpu", torch.float64)
        (device(type='cpu'), torch.float64, False, None)
        """
        memory_format, like = kwargs.pop("memory_format", None), kwargs.pop("tensor", None)
        args = args if like is None else (like, *args)
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        elif args and isinstance(args[0], dtype):
            args = (kwargs.pop("device", None), *args)
        return _to(memory_format, *args, **kwargs)


def _to(memory_format, /, device=None, dtype=None, non_blocking=False):
    if dtype is not None and not isinstance(dtype, plugrad.dtype):
        raise TypeError(f"to() received an invalid combination of arguments: dtype is {type(dtype).__name__}")
    return None if device is None else plugrad.device(device), dtype, bool(non_blocking), memory_format


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


def __getattr__(name):
    # `torch` has all public names of this module of PyTorch's, and most of its own.
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(plugrad, name)
