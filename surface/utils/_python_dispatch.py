"""The name under which PyTorch programs import the base of dispatch modes."""

from plugrad.overrides import TorchDispatchMode

__all__ = ["TorchDispatchMode"]
