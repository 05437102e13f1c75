"""Nested tensors: a subclass of Tensor whose data is a NestedArray, and how gradients pass in and out of it.

A rule takes the values of a nested tensor (`Values`), computes with dense ops, and builds a nested tensor of the result
(`Build`). Each of the two is the gradient of the other.
"""

from __future__ import annotations

import plugrad
from plugrad import Tensor, autograd
from plugrad.arguments import refuse_wrong
from plugrad.extend import axes, from_raw
from plugrad.nested.arrays import JaggedArray, ListArray, NestedArray
from plugrad.subclasses.held import Held, is_elementwise, name_of, tensor_around, writes_elements
from plugrad.tensor.tensor import tensor_of

jagged = type(plugrad.strided)("jagged")
rules: dict = {"jagged": {}, "strided": {}}  # layout -> {name of an op or method: its function on nested tensors}
forms: dict = {"jagged": {}, "strided": {}}  # the same of functions that get the op's function first


def rule(layout, *names):
    """Return a decorator that makes a function the rule of some ops for nested tensors of a layout."""

    def declare(function):
        rules[layout].update(dict.fromkeys(names, function))
        return function

    return declare


def form(layout, *names):
    """Return a decorator that makes a function carry out some ops, whose functions it gets first."""

    def declare(function):
        forms[layout].update(dict.fromkeys(names, function))
        return function

    return declare


def nested_among(args, kwargs) -> list:
    """Return the nested tensors among arguments, those in lists too."""
    tensors = []
    for value in (*args, *kwargs.values()):
        items = value if isinstance(value, (tuple, list)) else (value,)
        tensors += [item for item in items if isinstance(item, NestedTensor)]
    return tensors


class NestedTensor(Held, Tensor):
    """A batch of tensors of different sizes; see `nested.nested_tensor`."""

    is_nested = True

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, op, kwargs = name_of(func), getattr(func, "__op__", None), kwargs or {}
        layouts = {one._raw.layout for one in nested_among(args, kwargs)}
        if len(layouts) > 1:
            raise RuntimeError(f"{name}: nested tensors of two layouts can't be used together; make all of them jagged")
        if kwargs.get("out") is not None:
            raise NotImplementedError(f"{name}(): nested tensors are not written through out=; use the result")
        (layout,) = layouts or {"jagged"}
        own, carried = rules[layout], forms[layout]
        if name in own:
            return own[name](*args, **kwargs)
        if name in carried:
            return carried[name](func, *args, **kwargs)
        if is_elementwise(name, op):
            return carried["elementwise"](func, *args, **kwargs)
        if writes_elements(name, op):
            return carried["in_place"](func, *args, **kwargs)
        refuse_wrong(op, args, kwargs)
        raise NotImplementedError(
            f"Could not run {name!r} with a nested tensor of layout {layout}: it has no rule for that. Compute with "
            "x.values(), with x.unbind(), or with x.to_padded_tensor(0.0) and a mask"
        )

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def layout(self):
        """`jagged` or `strided`."""
        return jagged if self._raw.layout == "jagged" else plugrad.strided

    def numel(self) -> int:
        """Return the number of elements of all components."""
        return self._raw.size

    nelement = numel

    def size(self, dim=None):
        """Return the shape, or the size of one dimension: a symbol for that which varies."""
        return self.shape if dim is None else self.shape[axes(dim, self.ndim)]

    def values(self):
        """Return all elements as one dense tensor; gradients pass."""
        return values_of(self)

    def offsets(self):
        """Return where the components begin in `values()`, and where the last one ends."""
        return from_raw(self._raw.offsets)

    def lengths(self):
        """Return the lengths of the components if they are less than from one offset to the next, else None."""
        return None if self._raw.lengths is None else from_raw(self._raw.lengths)

    _offsets = property(offsets)
    _lengths = property(lengths)
    _values = property(lambda self: values_of(self))
    _ragged_idx = property(lambda self: self._raw.ragged)
    _max_seqlen = property(lambda self: self._raw.longest)
    _min_seqlen = property(lambda self: int(self._raw.bounds[1].min(initial=self._raw.longest)))

    def _get_max_seqlen(self) -> int:
        return self._max_seqlen

    def _get_min_seqlen(self) -> int:
        return self._min_seqlen

    def stride(self, dim=None):
        """Return the steps between elements; those of the batch are a multiple of a symbol."""
        steps = list(from_raw(self._raw.values).stride())
        steps.insert(0, self._raw.ragged_size * steps[self._raw.ragged - 1])
        return tuple(steps) if dim is None else steps[axes(dim, self.ndim)]

    def is_contiguous(self, memory_format=None) -> bool:
        """Return whether the values lie in memory in row-major order, without gaps."""
        return self._raw.lengths is None and from_raw(self._raw.values).is_contiguous()

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return from_raw(self._raw.values).data_ptr()

    def item(self):
        """Return the only element as a Python number."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return from_raw(self._raw.values).item()

    def _refuse(self, *args, **kwargs):
        raise RuntimeError("not supported for nested tensors: write x.values(), or x.to_padded_tensor(0.0), first")

    tolist = numpy = __array__ = untyped_storage = storage = storage_offset = _refuse

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return iter(self.unbind())

    def __repr__(self, *, tensor_contents=None):
        array, facts = self._raw, ""
        if self.requires_grad:
            facts = f", grad_fn={self.grad_fn}" if self.grad_fn is not None else ", requires_grad=True"
        size = "(" + ", ".join(map(repr, array.shape)) + ")"
        return f"NestedTensor(size={size}, offsets={self.offsets()}{facts}, contiguous={self.is_contiguous()})"

    def __reduce_ex__(self, protocol):
        return rebuild, self.parts()

    def parts(self) -> tuple:
        """Return all that makes up the tensor; see rebuild."""
        values, ragged = from_raw(self._raw.values), self._raw.ragged
        return "jagged", self.requires_grad, values, ragged, self.offsets(), self.lengths()


def _of_both(carried) -> dict:
    """Return the rules that both layouts have alike: operators with the nested tensor on the right, and copies."""

    def rsub(input, other):
        return carried["elementwise"](plugrad.rsub, input, other)

    def rdiv(input, other):
        return carried["elementwise"](plugrad.mul, carried["elementwise"](plugrad.reciprocal, input), other)

    return {"__rsub__": rsub, "__rdiv__": rdiv, "__rtruediv__": rdiv, "detach": NestedTensor.detach}


for _layout, _rules in rules.items():
    _rules.update(_of_both(forms[_layout]))


class ListTensor(NestedTensor):
    """A nested tensor of the strided layout: its components may differ in every dimension."""

    def size(self, dim=None):
        """Return the size of one dimension; RuntimeError for one in which the components differ."""
        if dim is None:
            return self.shape
        dim = axes(dim, self.ndim)
        size = self._raw.shape[dim]
        if not isinstance(size, int):
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size: see x.unbind()")
        return size

    def offsets(self):
        """Raise AttributeError: only nested tensors of the jagged layout have offsets."""
        raise AttributeError("nested tensors of the strided layout have no offsets; make them with layout=torch.jagged")

    lengths = offsets

    def stride(self, dim=None):
        """Raise RuntimeError: the components have strides, each its own."""
        raise RuntimeError("nested tensors of the strided layout have no strides: ask those of x.unbind()")

    def is_contiguous(self, memory_format=None) -> bool:
        """Return True: the components lie one after another."""
        return True

    def __repr__(self, *, tensor_contents=None):
        parts = [part.detach().requires_grad_(self.requires_grad) for part in self.detach().unbind()]
        lines = ",\n".join("  " + repr(part).replace("\n", "\n  ") for part in parts)
        facts = ""
        if self.requires_grad:
            facts = f", grad_fn=<{self.grad_fn.name()}>" if self.grad_fn is not None else ", requires_grad=True"
        return f"nested_tensor([\n{lines}\n]{facts})"

    def parts(self) -> tuple:
        """Return all that makes up the tensor; see rebuild."""
        return "strided", self.requires_grad, from_raw(self._raw.values), tuple(self._raw.shapes)


def rebuild(layout, requires_grad, values, *parts):
    """Return the nested tensor of `NestedTensor.parts`, which may be a file's."""
    if not isinstance(values, Tensor) or values.is_nested or values.layout is not plugrad.strided:
        raise ValueError("its values are no tensor")
    if layout == "jagged":
        ragged, offsets, lengths = parts
        if any(one is not None and (one.dtype is not plugrad.int64 or one.ndim != 1) for one in (offsets, lengths)):
            raise ValueError("its offsets are no vector of integers")
        return plugrad.nested.nested_tensor_from_jagged(values, offsets, lengths, ragged).requires_grad_(requires_grad)
    (shapes,) = parts
    if any(type(n) is not int or n < 0 for shape in shapes for n in shape) or len({*map(len, shapes)}) > 1:
        raise ValueError(f"{shapes} are no shapes of one number of dimensions")
    array = ListArray(values._raw, shapes)
    if values.ndim != 1 or sum(array.counts) != values.numel():
        raise ValueError(f"{values.numel()} elements are not those of components of the sizes {shapes}")
    return wrap(array).requires_grad_(requires_grad)


def wrap(array):
    """Return a tensor around a NestedArray."""
    cls = NestedTensor if array.layout == "jagged" else ListTensor
    return tensor_around(cls, array, from_raw(array.values)._type)


tensor_of[JaggedArray] = tensor_of[ListArray] = wrap


# ---------------------------------------------------------------------------------------------------- in and out


class Values(autograd.Function):
    """The elements of a nested tensor as a dense one."""

    @staticmethod
    def forward(ctx, nested):
        ctx.pattern = nested._raw.pattern()
        return from_raw(nested._raw.values)

    @staticmethod
    def backward(ctx, grad):
        return build(grad, ctx.pattern)


class Build(autograd.Function):
    """A nested tensor of a pattern, from its elements."""

    @staticmethod
    def forward(ctx, values, pattern):
        return wrap(pattern.with_values(values._raw))

    @staticmethod
    def backward(ctx, grad):
        return (values_of(grad) if isinstance(grad, NestedTensor) else grad), None


def values_of(nested):
    """Return the elements of a nested tensor, with its history."""
    return Values.apply(nested) if nested.requires_grad else from_raw(nested._raw.values)


def build(values, pattern: NestedArray):
    """Return a nested tensor of a pattern, with the history of its elements."""
    return Build.apply(values, pattern) if values.requires_grad else wrap(pattern.with_values(values._raw))


def dense(value):
    """Return the elements of a nested tensor; anything else as it is."""
    return values_of(value) if isinstance(value, NestedTensor) else value


def elements_in_place(func, target, *args, **kwargs):
    """Return what a function that writes in place makes of a copy of a nested tensor's elements."""
    copied = values_of(target).clone()
    return build(func(copied, *map(dense, args), **kwargs), target._raw.pattern())
