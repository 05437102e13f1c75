"""Names that PyTorch has in its C++ part and that classes with overrides use."""

from plugrad import Generator, Tensor
from plugrad.nn import Parameter
from plugrad.overrides import DisableTorchFunctionSubclass

DisableTorchFunction = DisableTorchFunctionSubclass
_disabled_torch_function_impl = Parameter.__torch_function__
TensorBase = _TensorBase = Tensor


def _log_api_usage_once(event) -> None:
    """Accepted: nothing counts which of its names a program uses."""


def _get_tracing_state() -> None:
    """Return None: no tracer records the ops of a program."""


__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "TensorBase", "_disabled_torch_function_impl",
]  # fmt: skip
