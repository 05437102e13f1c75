"""Carry sample inputs from PyTorch to another library through NumPy, strides and aliasing included."""

from __future__ import annotations

import dataclasses

import numpy as np
import opinfo_binding as binding
import torch


class Unconvertible(Exception):
    """The sample holds what a plain CPU tensor library has no counterpart of: sparse, nested, ..."""


class Converter:
    """Maps tensors and PyTorch objects, nested in tuples, lists and dicts, to those of `target`.

    One converter serves one call: a tensor that occurs twice in a sample stays one tensor. The new tensors
    are leaves with memory of their own, so that neither side sees the other's writes. `leaves` lists those
    that require grad, in order of appearance.
    """

    def __init__(self, target) -> None:
        self.target = target
        self.seen: dict[int, object] = {}
        self.leaves: list = []

    def __call__(self, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in self.seen:
                self.seen[id(value)] = self.tensor(value)
            return self.seen[id(value)]
        if isinstance(value, torch.Size):
            return self.target.Size(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if isinstance(value, list | tuple):
            return type(value)(map(self, value))
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(self(value.start), self(value.stop), self(value.step))
        return self.constant(value)

    def constant(self, value):
        """dtype, device, memory format, layout, generator or options of nn; anything else is Python's and passes."""
        if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
            name = str(value).removeprefix("torch.")
            if isinstance(value, torch.layout) and not hasattr(self.target, name):
                raise Unconvertible(f"{value} layout")
            return getattr(self.target, name)
        if isinstance(value, torch.nn.Module):
            return self.module(value)
        if isinstance(value, torch.device):
            return self.target.device(str(value))
        if isinstance(value, torch.Generator):
            return self.target.Generator().manual_seed(value.initial_seed())
        if dataclasses.is_dataclass(value) and type(value).__module__.startswith("torch.nn."):
            settings = {field.name: self(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return getattr(self.target.nn, type(value).__name__)(**settings)
        return (
            binding.rebind(value, self.target) if callable(value) and not isinstance(value, type) else value
        )

    def module(self, module):
        """A module that is no more than its settings, such as a distance."""
        if next(module.parameters(), None) is not None or next(module.children(), None) is not None:
            raise Unconvertible(f"a {type(module).__name__} with parameters or children")
        copy = getattr(self.target.nn, type(module).__name__)()
        copy.__dict__.update({name: item for name, item in vars(module).items() if not name.startswith("_")})
        return copy

    def tensor(self, tensor):
        check_convertible(tensor)
        copy = make_tensor(self.target, tensor)
        if tensor.requires_grad:
            copy.requires_grad_()
            self.leaves.append(copy)
        return copy


def check_convertible(tensor) -> None:
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise Unconvertible(f"{tensor.layout} tensor")
    if tensor.device.type != "cpu":
        raise Unconvertible(f"tensor on {tensor.device}")
    if tensor.is_quantized:
        raise Unconvertible("quantized tensor")


def make_tensor(target, tensor):
    """A new leaf of `target` with the values, dtype and strides of a PyTorch tensor."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype in WITHOUT_NUMPY:
        wide = make_tensor(target, plain.to(WITHOUT_NUMPY[plain.dtype]))
        return wide.to(getattr(target, str(plain.dtype).removeprefix("torch.")))
    return target.from_numpy(copy_with_strides(plain.numpy()))


WITHOUT_NUMPY = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def copy_with_strides(array: np.ndarray) -> np.ndarray:
    """A writable copy laid out exactly as `array` is, with its gaps, transpositions and expansions."""
    if array.size == 0 or array.flags.c_contiguous:
        return array.copy()
    steps = [stride // array.itemsize for stride in array.strides]
    extent = 1 + sum((size - 1) * step for size, step in zip(array.shape, steps, strict=True))
    memory = np.zeros(extent, array.dtype)
    copy = np.lib.stride_tricks.as_strided(memory, array.shape, array.strides)
    copy[...] = array
    return copy


def to_numpy(tensor) -> np.ndarray:
    """The values of a tensor of any library with PyTorch's API; widened where NumPy lacks the dtype."""
    tensor = tensor.detach()
    name = dtype_name(tensor)
    if name == "bfloat16":
        tensor = tensor.float()
    elif name == "complex32":
        tensor = tensor.cfloat()
    return tensor.numpy(force=True)  # resolves lazy conjugates, negations and zeros


def dtype_name(tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]
