"""The Tensor: a raw array, its type, and its place in the graph.

`_raw` is the backend's array, `_type` the interned pair of device and dtype. `_edge` is None when no gradient is
required, LEAF for a leaf that requires one, else the node (or output slot) that made the tensor. `_view` is None, or
says of which base the tensor is a view. Methods and operators that are ops are put into the class by
`plugrad.dispatch.methods`, other methods that need what stands above this layer by `core_method`.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict

import numpy

from plugrad import registry
from plugrad.devices.device import type_of
from plugrad.errors import flag
from plugrad.graph import rare
from plugrad.graph.hooks import add_hook, add_tensor_hook, move_retained
from plugrad.graph.modes import LEAF, enable_grad, inference_mode, levels, mode
from plugrad.graph.nodes import Node, OutputSlot
from plugrad.graph.versions import UNTRACKED, touch, version
from plugrad.registry.namespaces import lazy_methods, lazy_names
from plugrad.tensor import inference, shared_memory
from plugrad.tensor.description import Description
from plugrad.tensor.layouts import lay_out
from plugrad.tensor.overriding import disabled, watch_classes
from plugrad.tensor.protocols import Protocols
from plugrad.tensor.views import Base, View, check_memory, copies, follows_base

_new = object.__new__
__getattr__, _ = lazy_names(globals(), None, {"legacy": "from_arguments", "tensor.copies": "_rebuild"})


class Tensor(Description, Protocols):
    """An n-dimensional array that can require a gradient.

    `Tensor(5, 3)` is an uninitialised float tensor of that shape, `Tensor([[1, 2]])` one with these values; write
    `plugrad.tensor(...)`, which keeps the dtype of its data, instead.

    >>> import plugrad as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ("_raw", "_type", "_edge", "_view", "_grad", "_source", "_shares", "__dict__", "__weakref__")

    edges = ()  # a leaf ends every walk backward

    def __new__(cls, *args, dtype=None, device=None, **kwargs):
        return as_class(__getattr__("from_arguments")(args, dtype, device, **kwargs), cls)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        """Carry out a call in which a subclass takes part: its results are of the subclass, too.

        Override it, and call it by `super()`, to change what ops do; see `plugrad.overrides`.
        """
        if not all(issubclass(cls, one) for one in types):
            return NotImplemented
        result = disabled(func, types, args, kwargs)
        is_left = hasattr(cls, "__torch_dispatch__") or func in rare.get_default_nowrap_functions()
        return result if is_left else as_class(result, cls, args)

    # ------------------------------------------------------------------------------------------ history

    def _live_edge(self, used=True):
        """Return the edge, brought up to date when the tensor is a view whose base was written."""
        if self._view is None:
            return self._edge
        self._refresh(used)
        return LEAF if isinstance(self._edge, Tensor) else self._edge  # of a view without history

    def _refresh(self, used=True):
        """Bring the history of a view up to date with in-place writes to its base; `used`: its values are, too."""
        view = self._view
        mark = view.base._view if type(view) is View else view
        if type(mark) is Base:
            if used and mark.handles is not None:
                shared_memory.note_use(self, mark)
            if mark.returns and view is not mark:
                rare.follow_shape(view, mark)
        if copies:
            rare.follow_copy(self)
        generation = mark.generation if type(mark) is Base else 0
        if type(view) is not View or view.generation == generation:
            return
        if (view.generation < 0 or generation and mark.flagged) and rare.follow_flag(self, view, generation, used):
            return
        if view.base._edge is None:  # a flag or history of its own stays
            view.generation = generation
        elif view.refusal() is None:
            with inference_mode(False), enable_grad():
                current = view.base
                for step in view.steps():
                    current = step.step_tensor(current)
            move_retained(self._edge, current._edge)
            self._edge, view.generation = current._edge, generation
        elif mode.grad:
            view.check()

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor. Assign to a leaf to change it."""
        own = self._edge is not None and (type(self._view) is not View or not follows_base(self))
        return own or self._is_view() and self._type.is_differentiable and self._view.base.requires_grad

    @requires_grad.setter
    def requires_grad(self, value=None):
        if type(value) is not bool:
            raise RuntimeError("requires_grad must be a bool: write x.requires_grad = False")
        self.requires_grad_(value)

    requires_grad = requires_grad.deleter(requires_grad.fset)

    def requires_grad_(self, requires_grad=True):
        """Set whether operations on this leaf are recorded; return the tensor."""
        edge = self._live_edge(None)
        if flag("requires_grad", requires_grad):
            if follows_base(self):
                rare.keep_flag(self)
            if edge is None:
                if not (self._type.dtype.is_floating_point or self._type.dtype.is_complex):
                    raise RuntimeError(rare.why_no_flag(self))
                if self._type.rare:
                    inference.check_requires_grad(self)
                self._edge = LEAF
                rare.note_flag(self)
        elif edge is not None:
            self._edge = rare.without_flag(self, edge)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user rather than by a recorded op."""
        return self._live_edge() in (None, LEAF)

    @property
    def grad_fn(self):
        """The node that made this tensor; None for leaves."""
        edge = self._live_edge()
        if edge is None or edge is LEAF:
            return None
        return edge.node if isinstance(edge, OutputSlot) else edge

    creator = grad_fn  # its name in programs of old

    @property
    def output_nr(self) -> int:
        """Which output of its node this tensor is."""
        return self._edge.index if isinstance(self._edge, OutputSlot) else 0

    @property
    def grad(self):
        """The accumulated gradient, None before the first backward."""
        try:
            return self._grad
        except AttributeError:
            if isinstance(self._edge, Node) and not self.retains_grad:
                rare.warn_of_grad()
            return None

    @grad.setter
    def grad(self, value):
        if value is not None:
            fits = isinstance(value, Tensor) and value.shape == self.shape and value._type.plain is self._type.plain
            if value is self or not fits:
                rare.refuse_grad(self, value)
        self._grad = value

    @grad.deleter
    def grad(self):
        self._grad = None

    def _drop_grad(self, set_to_none: bool) -> None:
        """Drop the gradient, or fill it with zeros; one that create_graph recorded leaves that graph before."""
        if set_to_none:
            self.grad = None
        elif (grad := self.grad) is not None:
            (grad.requires_grad_(False) if grad.is_leaf else grad.detach_()).zero_()

    @property
    def retains_grad(self) -> bool:
        """Whether this non-leaf keeps its gradient."""
        edge = self._edge
        return isinstance(edge, Node) and edge.rare is not None and edge.rare.retained is not None

    def retain_grad(self):
        """Keep the gradient of this non-leaf in `.grad`, as leaves do."""
        edge = self._live_edge()
        if edge is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if edge is not LEAF and not self.retains_grad:
            edge._rare().retained = weakref.ref(self)

    def register_hook(self, hook):
        """Call `hook(grad)` with this tensor's gradient; a Tensor it returns replaces it."""
        if self._live_edge() is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return add_tensor_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook):
        """Call `hook(tensor)` after the gradient of this leaf was accumulated."""
        if (edge := self._live_edge()) is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if edge is not LEAF:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return add_hook(self.__dict__.setdefault("_post_accumulate_grad_hooks", OrderedDict()), hook)

    def detach(self):
        """Return a tensor that shares the data and has no history."""
        ttype = lay_out(self)._type if self._type.is_open else self._type
        if self._edge is None:
            self._shares = True  # see `rare.late_flags`
        if ttype.plain is not ttype:
            result = make(self._raw, ttype.plain) if type(self) is Tensor else self._detach_of_subclass()
            marked = inference.marked(self) and isinstance(result, Tensor)
            return inference.mark(result, mode.inference) if marked else result
        result = make(self._raw, ttype)
        result._source = weakref.ref(self)  # NumPy's writes through `result` are writes to this tensor
        if self._view is not None:
            shared_memory.inherit(result, self)
        return result

    def detach_(self):
        """Cut this tensor off from its history."""
        if self._view.__class__ is View:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self._edge = None
        if self._type.rare:
            rare.drop_tangents(self)
        return self

    @property
    def data(self):
        """A tensor of the same data; autograd takes no write to it for one to this."""
        # An array of its own: what ops saw of this tensor's, and whether it was written, says nothing of uses of that.
        array = lay_out(self)._raw
        result = make(array if self._type.symbolic else array[...], self._type.plain)
        result._view, result._source = UNTRACKED, weakref.ref(self)
        return inference.mark(result, mode.inference) if inference.marked(self) else result

    @data.deleter
    def data(self):
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    @data.setter
    def data(self, value):
        if getattr(value, "_type", None) is not self._type:
            rare.check_data(self, value)
        if self._edge is not None and self._raw.shape != value._raw.shape:
            rare.keep_shape(self)
        self._raw = lay_out(value)._raw
        rare.newborn(self, value)
        if self._view is None:
            shared_memory.inherit(self, value)
        self._type = value._type.plain if self._type.plain is self._type else value._type.variant()

    @property
    def _base(self):
        return self._view.base if self._view.__class__ is View else None

    def _is_view(self) -> bool:
        return self._view.__class__ is View

    @property
    def _version(self) -> int:
        if self.__dict__.get("_inference"):
            raise RuntimeError("Inference tensors do not track version counter: clone() it to get a normal tensor")
        return version(self)

    def is_inference(self) -> bool:
        """Whether this tensor was made in `inference_mode`."""
        return inference.marked(self)

    @staticmethod
    def _make_subclass(cls, data, require_grad=False):
        """Return a leaf of a subclass that shares the data of a tensor."""
        return Tensor.requires_grad_(rare.newborn(subclass_of(cls, data), data), require_grad)

    @staticmethod
    def _from_raw(array):
        return from_raw(array)


def subclass_of(cls, tensor):
    """Return the tensor's data as an instance of a subclass of Tensor."""
    if cls is Tensor:
        return tensor
    instance = _new(cls)
    instance._type, instance._raw = lay_out(tensor)._type.plain, tensor._raw
    instance._edge = instance._view = None
    shared_memory.inherit(instance, tensor)
    if inference.marked(tensor):
        inference.mark(instance)
    if cls.__torch_function__ is not disabled or hasattr(cls, "__torch_dispatch__"):
        instance._type = instance._type.variant()
        watch_classes(hasattr(cls, "__torch_dispatch__"))
        rare.ask(cls)
    return instance


def as_class(result, cls, given=()):
    """Return results as instances of a subclass of Tensor, history and all; views of those that were `given`."""
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        if any([result is item for one in given for item in (one if isinstance(one, (tuple, list)) else (one,))]):
            return result.as_subclass(cls)
        instance = subclass_of(cls, result)
        instance._edge, instance._view = result._edge, result._view
        instance.__dict__.update(result.__dict__)
        return instance
    if isinstance(result, (tuple, list)):
        items = [as_class(item, cls, given) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def make(data, ttype, edge=None):
    """Return a Tensor around a raw array of known tensor type."""
    tensor = _new(Tensor)
    tensor._raw, tensor._type, tensor._edge, tensor._view = data, ttype, edge, None
    return tensor


tensor_of: dict = {}  # class of arrays that need a subclass of Tensor, such as sparse ones -> what makes that


def from_raw(array):
    """Return a Tensor around a raw array, or a NumPy scalar, of any backend."""
    if array.__class__ in tensor_of:
        return tensor_of[array.__class__](array)
    if isinstance(array, numpy.generic):
        array = numpy.asarray(array)
    return make(array, type_of(array))


def ensure_tensor(value):
    """Return a Tensor, None, or the Tensor around a raw array, which is what gradients and saved values may be."""
    return value if value is None or isinstance(value, Tensor) else from_raw(value)


def write_out(op, result, out, resized=True, values=()):
    """Put the result of an op into the tensor given as `out=`; return that.

    `resized` warns of a new shape; `values` may not share its memory. For composites with an `out` of their own:
    `return result if out is None else write_out(my_op, result, out)`. Raises TypeError for what is no tensor,
    RuntimeError for another device, a dtype that the result can't be cast to, and where a gradient is recorded.
    """
    if isinstance(out, (tuple, list)) and not isinstance(result, Tensor):
        rare.check_outs(op, result, out)
        written = [write_out(op, r, o, resized, values) for r, o in zip(result, out)]
        return tuple(written) if type(result) is tuple else type(result)(*written)
    if not isinstance(out, Tensor) or not isinstance(result, Tensor):
        wanted = "Tensor" if isinstance(result, Tensor) else "tuple of Tensors"
        raise TypeError(f"{op.name}(): argument 'out' must be {wanted}, not {type(out).__name__}")
    if mode.grad and (out.requires_grad or result.requires_grad):
        what = "functions with out=... arguments don't support automatic differentiation"
        raise RuntimeError(f"{op.name}(): {what}, but one of the arguments requires grad.")
    if out.dtype is not result.dtype:
        rare.check_out_dtype(op, result.dtype, out.dtype, values)
    if out.device is not result.device:
        raise RuntimeError(f"Expected out tensor to be on {result.device}, it is on {out.device}")
    inference.check_writable(out)
    if levels or values:
        rare.check_out(op, values, out)
    if out.shape == result.shape:
        if not out._type.symbolic:
            check_memory(out._raw)
        touch(out)  # before it is written: whoever is interrupted in between has written
        out._raw[...] = result._raw
    else:
        rare.resizing(out, result, resized)
        out._raw = lay_out(result)._raw.astype(out._type.np)
        touch(out)
    return out


# Methods that are no ops and that few programs need, imported at first use; and those that PyTorch alone has.
lazy_methods(Tensor, {
    "tensor_methods": "_typed_storage apply_ as_subclass const_data_ptr dim_order eig hpu ipu is_distributed is_pinned "
    "is_set_to is_shared lstsq map2_ map_ module_load mtia new pin_memory reinforce resize resize_as set_ "
    "__dir__ record_stream share_memory_ solve storage storage_type symeig untyped_storage xpu",
    "absent": "dequantize index int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points "
    "q_scale q_zero_point qscheme slice_inverse to_mkldnn", "nested": "to_padded_tensor",
    "sparse.methods": "_indices _nnz _values ccol_indices coalesce col_indices crow_indices dense_dim hspmm indices "
    "is_coalesced resize_as_sparse_ row_indices smm sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ "
    "sspaddmm to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr values",
    "interchange.ufuncs": "__array_ufunc__", "array_api": "__array_namespace__ to_device",
    "autograd.rare.copied_views": "is_conj is_neg", "interchange.dlpack": "__dlpack__ __dlpack_device__",
    "interchange.interfaces": "__array_interface__ __cuda_array_interface__", "subclasses": "_make_wrapper_subclass",
})  # fmt: skip

# Names that plugins can't take: what the class defines itself, and what `core_method` puts there.
CORE_NAMES = {*Tensor.__dict__, *Description.__dict__, *Protocols.__dict__}


def core_method(name: str):
    """Return a decorator that makes a function of a package above this one a method, which no plugin can replace."""

    def install(function):
        function.__name__, function.__qualname__ = name, f"Tensor.{name}"
        setattr(Tensor, name, function)
        CORE_NAMES.add(name)
        registry.reserve("Tensor", [name])
        return function

    return install
