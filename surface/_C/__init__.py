"""Names that PyTorch has in its C++ part and that classes with overrides use."""

from plugrad.nn import Parameter
from plugrad.overrides import DisableTorchFunctionSubclass

DisableTorchFunction = DisableTorchFunctionSubclass
_disabled_torch_function_impl = Parameter.__torch_function__

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]
