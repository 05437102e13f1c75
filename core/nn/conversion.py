"""The part of Module that moves and casts its tensors."""

from __future__ import annotations

from plugrad.devices import dtypes
from plugrad.errors import flag
from plugrad.graph.modes import no_grad
from plugrad.interrupts import held_back
from plugrad.nn.tables import room
from plugrad.tensor.tensor import Tensor

__all__ = ["Conversion"]

ways: set = set()  # in which torch.__future__ was asked to replace parameters, other than by new data


class Conversion:
    """Moving between devices and dtypes, in place."""

    def _apply(self, fn, recurse: bool = True):
        """Replace all data by ``fn(tensor)``; parameters and gradients keep identity."""
        with held_back():
            for module in self.children() if recurse else ():
                module._apply(fn)
            with no_grad():
                convert = room("torch_modules.future").convert if ways else _convert
                for name, parameter in self._parameters.items():
                    if parameter is not None:
                        convert(self, name, parameter, fn)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Move and cast all parameters and buffers in place; return the module.

        Called as ``to(device=None, dtype=None, non_blocking=False)``, ``to(dtype)``, ``to(tensor)`` or
        ``to(memory_format=...)``. The dtype concerns floating point and complex tensors only.

        Raises TypeError for an integer dtype.

        >>> import plugrad as torch
        >>> torch.nn.ParameterList([torch.zeros(2)]).to(torch.float64)[0].dtype
        torch.float64
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(t):
            options = {}
            if memory_format is not None and t.dim() in (4, 5):
                options["memory_format"] = memory_format
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            try:
                return t.to(device, wanted, non_blocking, **options)
            except NotImplementedError as error:
                if not t._type.symbolic:
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when"
                    " moving module from meta to a different device."
                ) from None

        return self._apply(convert)

    def cpu(self):
        """Move all parameters and buffers to the CPU; return the module."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        """Move all parameters and buffers to a GPU; return the module."""
        return self._apply(lambda t: t.cuda(device))

    def type(self, dst_type):
        """Cast all parameters and buffers to ``dst_type``; return the module."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        """Cast floating point parameters and buffers to float32; return the module."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        """Cast floating point parameters and buffers to float64; return the module."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        """Cast floating point parameters and buffers to float16; return the module."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        """Cast floating point parameters and buffers to bfloat16; return the module."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self):
        """Move all parameters and buffers to shared memory; see Tensor.share_memory_."""
        return self._apply(lambda t: t.share_memory_())


def _convert(module, name, parameter, fn) -> None:
    for tensor in (parameter, parameter.grad):
        if tensor is not None and (data := fn(tensor)) is not tensor:
            tensor.data = data


def _parse_to(*args, tensor=None, memory_format=None, **kwargs):
    """Return what Module.to was given: device, dtype, non_blocking, memory_format."""

    def to(device=None, dtype=None, non_blocking=False):
        if dtype is not None and not isinstance(dtype, dtypes.dtype):
            raise TypeError(f"to(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
        return device, dtype, flag("non_blocking", non_blocking), memory_format

    first = args[0] if args else tensor
    if isinstance(first, Tensor):
        return to(first.device, first.dtype, *args[1:], **kwargs)
    if isinstance(first, dtypes.dtype) or isinstance(first, type) and first in dtypes.SCALAR:
        args = (dtypes.from_numpy(first) if isinstance(first, type) else first, *args[1:])
        return to(kwargs.pop("device", None), *args, **kwargs)
    return to(*args, **kwargs)
