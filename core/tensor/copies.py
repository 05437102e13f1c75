"""Copies of tensors: on another device, shallow and deep ones, and pickles."""

from __future__ import annotations

from copy import deepcopy

import numpy

from plugrad.devices.device import backends_room
from plugrad.devices.device import device as _device
from plugrad.graph import rare
from plugrad.graph.modes import LEAF, mode, tick
from plugrad.graph.nodes import Node
from plugrad.tensor import inference, shared_memory
from plugrad.tensor.layouts import lay_out
from plugrad.tensor.tensor import Tensor, core_method, from_raw, make, subclass_of


class TransferNode(Node):
    """A copy between devices: its gradient is copied back."""

    __slots__ = ()
    name = lambda self: "ToCopyBackward0"  # noqa: E731

    def tensors(self):
        return self.saved

    def pull(self, F, g, saved, retain):
        if isinstance(g, Tensor):
            return (g.to(saved[0]),)
        return (from_raw(g)._transfer(saved[0])._raw,)


@core_method("_transfer")
def _transfer(self, place):
    """Return a copy on another device; the gradient travels back."""
    host = lay_out(self)._type.backend.to_numpy(self._raw)  # raises where there is no data
    ttype = place.tensor_type(self._type.np)
    result = make(ttype.device.put(host), ttype)
    if ttype.device.type == self._type.device.type == "cpu" and result._raw is self._raw:
        result._raw = result._raw.copy()
    edge = self._live_edge() and self._edge
    if edge is not None and mode.grad:
        node = TransferNode()
        node.edges, node.saved, node.fit, node.rare = (self if edge is LEAF else edge,), (self.device,), None, None
        node.seq = tick()
        result._edge = node
    return result


_OWN = ("_hooks", "_post_accumulate_grad_hooks", "_accumulate", "_inference", "_tangents")  # not of copies


def attributes_of(tensor) -> dict:
    """Return what users set on a tensor, and the marks that make it a Buffer."""
    return {name: value for name, value in tensor.__dict__.items() if name not in _OWN}


def _shallow(tensor, data):
    copied = object.__new__(type(tensor))
    copied._raw, copied._view = data, None
    copied._type = tensor._type if type(tensor) is not Tensor else tensor._type.plain
    copied._edge = LEAF if tensor._live_edge(None) is not None else None
    return copied


@core_method("__copy__")
def _copy(self):
    copied = _shallow(self, lay_out(self)._raw)
    copied._shares = self._shares = True
    shared_memory.inherit(copied, self)
    copied.__dict__.update(attributes_of(self))
    return copied


def _copied_data(tensor, memo):
    """Return a copy of the data; what shares memory on the CPU and is copied together shares it again."""
    array = lay_out(tensor)._raw
    root = tensor._type.backend.storage(array)
    if tensor._type.symbolic or type(root) is not numpy.ndarray or root.base is not None or not root.flags.forc:
        return backends_room().following.copied(tensor, array)
    key = "storage", id(root)
    if key not in memo:
        memo[key] = root.copy(order="K")
    start = array.ctypes.data - root.ctypes.data
    return memo[key] if root is array else numpy.ndarray(array.shape, array.dtype, memo[key], start, array.strides)


@core_method("__deepcopy__")
def _deepcopy(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        text = "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment"
        raise RuntimeError(f"{text}: detach() it, or clone() it inside the graph")
    copied = memo[id(self)] = _shallow(self, _copied_data(self, memo))
    if mode.inference:
        inference.mark(copied)
    if self.grad is not None:
        copied._grad = self.grad.__deepcopy__(memo)
    copied.__dict__.update(deepcopy(attributes_of(self), memo))
    if type(self) is not Tensor:
        rare.copy_slots(self, copied, memo)
    return copied


def _rebuild(cls, array, place, requires_grad, extra):
    home = _device(place)
    data = home.backend.xp.empty(*array) if isinstance(array, tuple) else home.put(array)
    tensor = subclass_of(cls or Tensor, make(data, home.tensor_type(data.dtype)))
    tensor._edge = LEAF if requires_grad else None
    tensor.__dict__.update(extra)
    return tensor


@core_method("__reduce_ex__")
def _reduce(self, protocol):
    if self._type.symbolic:
        host = tuple(self.shape), self._type.np
    elif self._type.array_type is numpy.ndarray:  # a pickle may hand out its memory
        host = shared_memory.export(self)
    else:
        host = self._type.backend.to_numpy(self._raw)
    cls = None if self.__class__ is Tensor else self.__class__  # whose name differs under `import torch`
    return _rebuild, (cls, host, str(self.device), self.requires_grad, attributes_of(self))
