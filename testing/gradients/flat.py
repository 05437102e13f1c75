"""A function of tensors seen as a map between flat real vectors: what gradcheck measures and differentiates.

Complex numbers count as pairs of reals. With PyTorch's convention (the gradient of a real L with respect to
z is dL/dRe z + i dL/dIm z) a gradient of a complex tensor is then simply the gradient with respect to those
pairs.
"""

from __future__ import annotations

import copy

import numpy

import plugrad
from plugrad.testing.gradients.higher_orders import Gradient
from plugrad.testing.gradients.unregistered import named_parameters, used, widened
from plugrad.testing.tensors import (
    differentiable,
    gradients_of_sum,
    is_float,
    is_wrapper,
    like,
    map_tensors,
    reals,
    recording,
    tensors_in,
    wide_dtype,
)

NOTHING_TO_CHECK = (
    "gradcheck expects at least one input tensor to require gradient, but none of them have "
    "requires_grad=True; write x.requires_grad_() or torch.randn(..., requires_grad=True)"
)


class Misfit(Exception):
    """Raised for a gradient that cannot belong to its tensor."""

    def __init__(self, message, label):
        super().__init__(message)
        self.label = label


class Leaf:
    """One differentiable tensor of the flat.

    It is rewritten in place through `memory` where it can be, so that closures over it, and Modules, see the change.
    Where it cannot (low precision, overlapping memory, a non-leaf), a new tensor is made for each probe and `memory`
    is None.
    """

    __slots__ = ("tensor", "memory", "span", "label")

    def __init__(self, tensor, span, label):
        self.tensor, self.span, self.label = tensor, span, label
        writable = (
            tensor.is_leaf
            and tensor.dtype is wide_dtype(tensor.dtype)
            and not tensor.is_meta
            and not is_wrapper(tensor)
            and not _may_overlap(tensor)
        )
        # The raw array: what `numpy()` hands out is watched, and writes to it are errors where backward saved it.
        self.memory = tensor.detach()._raw if writable else None

    def name(self, position: int) -> tuple:
        """Return the index within the tensor of a coordinate counted from the start of its span."""
        if self.tensor.dtype.is_complex:
            position //= 2
        return tuple(int(i) for i in numpy.unravel_index(position, tuple(self.tensor.shape)))

    def receive(self, g) -> None:
        """Raise Misfit unless `g` can be the gradient of this tensor."""
        t = self.tensor
        if g is not None and tuple(g.shape) != tuple(t.shape):
            sizes = f"{tuple(g.shape)} for input {self.label} of {tuple(t.shape)}"
            raise Misfit(f"grad is incorrect size: {sizes}", self.label)
        if g is not None and g.dtype.is_complex != t.dtype.is_complex:
            raise Misfit(f"grad is incorrect type: {g.dtype} for input {self.label} of {t.dtype}", self.label)

    def write(self, flat) -> None:
        """Put values into the memory of the tensor."""
        values = flat.view("complex128") if self.tensor.dtype.is_complex else flat
        values = values.reshape(self.memory.shape)
        if isinstance(self.memory, numpy.ndarray):
            numpy.copyto(self.memory, values)
        else:
            self.memory[...] = plugrad.from_numpy(values.copy()).to(self.tensor.device)._raw


def _may_overlap(tensor) -> bool:
    """Whether two elements may share memory, by strides alone."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for stride, size in zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def _refuse_expanded(tensor, label) -> None:
    if any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape)):
        name = f"input {label}" if isinstance(label, int) else f"parameter {label!r}"
        raise RuntimeError(
            f"{name} has a dimension with stride 0: elements that share memory, as `expand` makes them, can't be "
            "changed one by one; give gradcheck a copy of it, by .contiguous() or .clone()"
        )


class FlatFunction:
    """`func` with its inputs, its differentiable leaves, and the point at which it is looked at.

    `low` tells whether anything is in less than double precision; then only `widened()` can be measured.

    Of a Module its parameters are leaves as well, and those it holds in plain lists and dicts: `unknown` are the paths
    of these.

    Raises ValueError when no input and no module parameter requires grad, RuntimeError when elements of an input share
    memory along a whole dimension.
    """

    def __init__(self, func, inputs):
        if isinstance(func, type) and issubclass(func, plugrad.autograd.Function):
            func = func.apply
        self.func = func
        self.inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        self.leaves: list[Leaf] = []
        self.unknown: list[str] = []
        self.outputs = None  # positions of the differentiable outputs
        self._find_leaves()
        if not self.leaves:
            raise ValueError(NOTHING_TO_CHECK)
        self.start = numpy.concatenate([reals(leaf.tensor) for leaf in self.leaves])
        self.epsilon = max(plugrad.finfo(leaf.tensor.dtype).eps for leaf in self.leaves)
        self.low = self.epsilon > plugrad.finfo(plugrad.float64).eps

    def _find_leaves(self):
        seen: set = set()
        named = [(number, t) for number, argument in enumerate(self.inputs) for t in tensors_in(argument)]
        if isinstance(self.func, plugrad.nn.Module):
            more = [(path, t) for path, t in used(self.func, self.inputs) if all(t is not other for _, other in named)]
            named += [*named_parameters(self.func), *more]
            self.unknown = [path for path, _ in more]
        position = 0
        for label, tensor in named:
            if tensor.requires_grad and is_float(tensor) and id(tensor) not in seen:
                seen.add(id(tensor))
                _refuse_expanded(tensor, label)
                size = tensor.numel() * (2 if tensor.dtype.is_complex else 1)
                self.leaves.append(Leaf(tensor, slice(position, position + size), label))
                position += size

    def widened(self) -> FlatFunction:
        """Return the same flat on copies of all its tensors in double precision; of a Module, a copy of it."""
        return self._copied(lambda t: t.detach().to(wide_dtype(t.dtype), copy=True), widened)

    def at(self, point) -> FlatFunction:
        """Return the same flat on copies of its tensors, the leaves with values of a point; of a Module, a copy."""
        moved = self._copied(lambda t: t.detach().clone(), copy.deepcopy)
        with plugrad.no_grad():
            for leaf, there in zip(self.leaves, moved.leaves, strict=True):
                there.tensor.copy_(like(leaf.tensor, point[leaf.span]))
        return moved

    def _copied(self, change, copy_module) -> FlatFunction:
        """A tensor that is used twice stays one tensor."""
        copies: dict = {}

        def new(tensor):
            if not is_float(tensor):
                return tensor
            if id(tensor) not in copies:
                copies[id(tensor)] = change(tensor).requires_grad_(tensor.requires_grad)
            return copies[id(tensor)]

        inputs, func = map_tensors(self.inputs, new), self.func
        if isinstance(func, plugrad.nn.Module):
            func = copy_module(func, dict(copies))  # a Module may keep its input
        return FlatFunction(func, inputs)

    def forward(self) -> list:
        """Call `func` with grad; return its differentiable outputs, all float ones if there are none."""
        with recording():
            result = self.func(*self.inputs)
        tensors = tensors_in(result)
        if not tensors and not (isinstance(result, (tuple, list, dict)) and not result):
            raise TypeError(f"func must return a tensor, or several; it returned {result!r}")
        self.outputs = [i for i, y in enumerate(tensors) if is_float(y) and y.requires_grad]
        if not self.outputs:
            self.outputs = [i for i, y in enumerate(tensors) if is_float(y)]
        return [tensors[i] for i in self.outputs]

    def pull(self, outputs, cotangents, again=True):
        """Return the gradient of ``sum(cotangent * output)`` as a flat real vector, and as it came."""
        wanted = [leaf.tensor for leaf in self.leaves]
        grads = plugrad.autograd.grad(outputs, wanted, cotangents, retain_graph=again, allow_unused=True)
        for g, leaf in zip(grads, self.leaves, strict=True):
            leaf.receive(g)
        flat = [
            numpy.zeros(leaf.span.stop - leaf.span.start) if g is None else reals(g)
            for g, leaf in zip(grads, self.leaves, strict=True)
        ]
        return numpy.concatenate(flat), grads

    def value(self, point, repeated=False) -> tuple:
        """Return the outputs at a point as a flat real vector, and their dtypes.

        `repeated`: a `Gradient` may reuse what it recorded at the point before.
        """
        results = self._results(point, repeated)
        outputs = [results[i] for i in self.outputs]
        return numpy.concatenate([reals(y) for y in outputs] or [numpy.zeros(0)]), [y.dtype for y in outputs]

    def _results(self, point, repeated=False) -> list:
        fresh: dict = {}
        for leaf in self.leaves:
            if leaf.memory is not None:
                leaf.write(point[leaf.span])
            else:
                fresh[id(leaf.tensor)] = like(leaf.tensor, point[leaf.span]).requires_grad_()
        arguments = self.inputs
        if fresh:
            arguments = map_tensors(self.inputs, lambda t: fresh.get(id(t), t))
        if isinstance(self.func, Gradient):  # it records what it needs in whichever mode
            with plugrad.no_grad():
                return tensors_in((self.func.repeated if repeated else self.func)(*arguments))
        with recording():  # the function may ask for gradients itself
            return tensors_in(self.func(*arguments))

    def refuse_other_forms(self, eps) -> None:
        """Raise AssertionError if shapes or dtypes of outputs change where all elements of a leaf move by `eps`."""
        forms = [(tuple(y.shape), y.dtype) for y in self._results(self.start)]
        for leaf in self.leaves:
            for step in (eps, -eps):
                point = self.start.copy()
                point[leaf.span] += step
                try:
                    moved = [(tuple(y.shape), y.dtype) for y in self._results(point)]
                except Exception:  # outside its domain func may raise whatever it likes: such a step says nothing
                    continue
                finally:
                    self.restore()
                for (shape, dtype), (other, kind) in zip(forms, moved):
                    if (shape, dtype) != (other, kind):
                        what, old, new = ("shape", shape, other) if shape != other else ("dtype", dtype, kind)
                        raise AssertionError(
                            f"gradcheck: func must return outputs with the same {what} when inputs are perturbed: "
                            f"moving input {leaf.label} by {step:g} made {new} of {old}"
                        )

    def of_leaves(self) -> tuple:
        """Return ``(function, tensors)``: the function of its leaves alone, which gives a tuple of its outputs."""
        tensors = tuple(leaf.tensor for leaf in self.leaves)

        def function(*values):
            stand_ins = {id(t): value for t, value in zip(tensors, values, strict=True)}
            inputs = map_tensors(self.inputs, lambda t: stand_ins.get(id(t), t))
            if isinstance(self.func, plugrad.nn.Module):
                named = {name: stand_ins.get(id(p), p) for name, p in named_parameters(self.func)}
                results = tensors_in(plugrad.func.functional_call(self.func, named, inputs))
            else:
                results = tensors_in(self.func(*inputs))
            return tuple(results[i] for i in self.outputs)

        return function, tensors

    def move(self, point) -> None:
        """Look at the function at another point from now on; the leaves must have `memory`."""
        self.start = point
        self.restore()

    def restore(self) -> None:
        """Put the inputs back as they were."""
        for leaf in self.leaves:
            if leaf.memory is not None:
                leaf.write(self.start[leaf.span])

    def captured(self, grads, unwritable=True) -> bool:
        """Whether `func` uses the tensors themselves (through a closure) rather than the arguments it is
        given.

        Where such tensors cannot be written in place the flat cannot be measured. `grads` are the gradients
        that the tensors themselves got. `unwritable` asks about tensors alone that cannot be written in place.
        """
        suspects = [
            leaf.tensor
            for leaf, g in zip(self.leaves, grads, strict=True)
            if g is not None and isinstance(leaf.label, int) and (leaf.memory is None or not unwritable)
        ]
        if not suspects:
            return False
        stand_ins = {id(t): t.detach().requires_grad_() for t in suspects}
        with plugrad.enable_grad():
            outputs = differentiable(self.func(*map_tensors(self.inputs, lambda t: stand_ins.get(id(t), t))))
        return not outputs or None in gradients_of_sum(outputs, list(stand_ins.values()))
