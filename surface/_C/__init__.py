"""Names that PyTorch has in its C++ part and that classes with overrides use."""

from plugrad.dispatch.interception import disabled as _disabled_torch_function_impl
from plugrad.overrides import DisableTorchFunctionSubclass

DisableTorchFunction = DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]
