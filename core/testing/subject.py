"""A function of tensors seen as a map between flat real vectors: what gradcheck measures and differentiates.

Complex numbers count as pairs of reals. With PyTorch's convention (the gradient of a real L with respect to
z is dL/dRe z + i dL/dIm z) a gradient of a complex tensor is then simply the gradient with respect to those
pairs.
"""

from __future__ import annotations

import copy

import numpy

import plugrad

from .structure import is_float, like, map_tensors, reals, tensors_in, wide_dtype

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
    """One differentiable tensor of the subject.

    `tensor` is differentiated; `probe` stands for it when values are measured, and is rewritten in place
    through `memory` where it can be, so that closures over it see the change. Where it cannot (low
    precision, overlapping memory, a non-leaf, another device), a new tensor is made for each probe and
    `memory` is None.
    """

    __slots__ = ("tensor", "probe", "memory", "span", "label")

    def __init__(self, tensor, probe, span, label):
        self.tensor, self.probe, self.span, self.label = tensor, probe, span, label
        writable = (
            probe.is_leaf
            and probe.dtype is wide_dtype(probe.dtype)
            and probe.device.type == "cpu"
            and not _may_overlap(probe)
        )
        self.memory = probe.detach().numpy() if writable else None

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
        """Put values into the memory of `probe`."""
        values = flat.view("complex128") if self.tensor.dtype.is_complex else flat
        numpy.copyto(self.memory, values.reshape(self.memory.shape))


def _may_overlap(tensor) -> bool:
    """Whether two elements may share memory, by strides alone."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for stride, size in zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


class Subject:
    """`func` with its inputs, its differentiable leaves, and the point at which it is looked at.

    Raises ValueError when no input and no module parameter requires grad.
    """

    def __init__(self, func, inputs):
        if isinstance(func, type) and issubclass(func, plugrad.autograd.Function):
            func = func.apply
        self.func = self.probed = func
        self.inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        self.leaves: list[Leaf] = []
        self.outputs = None  # positions of the differentiable outputs
        self._find_leaves()
        if not self.leaves:
            raise ValueError(NOTHING_TO_CHECK)
        self.start = numpy.concatenate([reals(leaf.tensor) for leaf in self.leaves])
        self.low = any(leaf.tensor.dtype is not leaf.probe.dtype for leaf in self.leaves) or any(
            leaf.tensor.dtype is not wide_dtype(leaf.tensor.dtype) for leaf in self.leaves
        )
        self.epsilon = max(plugrad.finfo(leaf.tensor.dtype).eps for leaf in self.leaves)
        self._mended = {id(leaf.tensor) for leaf in self.leaves if leaf.memory is None}
        self._fixed = (
            {id(t): t.detach().to(wide_dtype(t.dtype)) for t in self._constants()} if self.low else {}
        )

    def _find_leaves(self):
        seen: dict = {}
        position = 0
        for number, argument in enumerate(self.inputs):
            for tensor in tensors_in(argument):
                if tensor.requires_grad and is_float(tensor) and id(tensor) not in seen:
                    seen[id(tensor)] = tensor
                    position = self._add(tensor, tensor, position, number)
        if isinstance(self.func, plugrad.nn.Module):
            self.probed = copy.deepcopy(self.func).double()
            pairs = zip(self.func.named_parameters(), self.probed.parameters(), strict=True)
            for (name, parameter), probe in pairs:
                if parameter.requires_grad and id(parameter) not in seen:
                    position = self._add(parameter, probe, position, name)

    def _add(self, tensor, probe, position, label):
        size = tensor.numel() * (2 if tensor.dtype.is_complex else 1)
        self.leaves.append(Leaf(tensor, probe, slice(position, position + size), label))
        return position + size

    def _constants(self):
        return [t for t in tensors_in(self.inputs) if is_float(t) and id(t) not in self._mended]

    def forward(self) -> list:
        """Call `func` with grad; return its differentiable outputs, all float ones if there are none."""
        with plugrad.enable_grad():
            found = tensors_in(self.func(*self.inputs))
        self.outputs = [i for i, y in enumerate(found) if is_float(y) and y.requires_grad]
        if not self.outputs:
            self.outputs = [i for i, y in enumerate(found) if is_float(y)]
        return [found[i] for i in self.outputs]

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

    def value(self, point) -> tuple:
        """Return the outputs at a point as a flat real vector, and their dtypes; both wide where possible."""
        fresh: dict = {}
        for leaf in self.leaves:
            if leaf.memory is not None:
                leaf.write(point[leaf.span])
            else:
                fresh[id(leaf.tensor)] = like(leaf.tensor, point[leaf.span])
        arguments = self.inputs
        if fresh or self._fixed:
            stand_ins = {**self._fixed, **fresh}
            arguments = map_tensors(self.inputs, lambda t: stand_ins.get(id(t), t))
        with plugrad.no_grad():
            found = tensors_in(self.probed(*arguments))
        outputs = [found[i] for i in self.outputs]
        return numpy.concatenate([reals(y) for y in outputs] or [numpy.zeros(0)]), [y.dtype for y in outputs]

    def restore(self) -> None:
        """Put the inputs back as they were."""
        for leaf in self.leaves:
            if leaf.memory is not None:
                leaf.write(self.start[leaf.span])

    def captured(self, grads) -> bool:
        """Whether `func` uses the tensors themselves (through a closure) rather than the arguments it is
        given.

        Such tensors cannot be replaced by wide copies, so the subject cannot be measured. `grads` are the
        gradients that the tensors themselves got.
        """
        suspects = [
            leaf.tensor
            for leaf, g in zip(self.leaves, grads, strict=True)
            if g is not None and id(leaf.tensor) in self._mended
        ]
        if not suspects:
            return False
        stand_ins = {id(t): t.detach().requires_grad_() for t in suspects}
        with plugrad.enable_grad():
            found = tensors_in(self.func(*map_tensors(self.inputs, lambda t: stand_ins.get(id(t), t))))
        outputs = [y for y in found if is_float(y) and y.requires_grad]
        if not outputs:
            return True
        ones = [plugrad.ones_like(y) for y in outputs]
        return None in plugrad.autograd.grad(outputs, list(stand_ins.values()), ones, allow_unused=True)
