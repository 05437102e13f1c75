"""What a form of an op is given: a graph to which it adds nodes of ONNX."""

from __future__ import annotations

import numpy

import plugrad
from plugrad import Tensor
from plugrad.onnx import files
from plugrad.onnx.tracing import Size

_LAST = 2**63 - 1


class Node:
    """A node: its bytes once its inputs are known, and the names that it takes and gives."""

    __slots__ = ("kind", "inputs", "outputs", "attributes", "domain", "doc")

    def __init__(self, kind, inputs, outputs, attributes, domain, doc):
        self.kind, self.inputs, self.outputs, self.attributes, self.domain, self.doc = (
            kind, inputs, outputs, attributes, domain, doc,
        )  # fmt: skip


class Output:
    """A value in the graph.

    `shape` has ints and `Size`s, `dtype` is plugrad's; both are known for what the traced program computed, and of
    what a form adds the dtype is that of its first input. `tensor` is the traced tensor, or None.
    Where only the last row can be had, the name is "" and `last` is that row.
    """

    __slots__ = ("name", "dtype", "shape", "tensor", "last")

    def __init__(self, name, dtype=None, shape=None, tensor=None, last=None):
        self.name, self.dtype, self.shape, self.tensor, self.last = name, dtype, shape, tensor, last

    @property
    def rank(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    def __repr__(self):
        return f"<{self.name}: {self.dtype}{list(self.shape or ())}>"


class Graph:
    """The graph that is being written.

    A form gets it as its first argument, adds nodes by `op`, and returns their results.

    Attributes:
        opset: version of ONNX's operators that is written for.
        results: what the call gave when it was traced, with `shape` and `dtype`: what the form's results will be.
    """

    def __init__(self, opset: int):
        self.opset = opset
        self.nodes: list[Node] = []
        self.constants: dict[str, tuple] = {}  # {name: (array, dtype)}
        self.domains: set = set()
        self.sources: dict[str, tuple] = {}  # {name of an axis: (input, axis)}
        self.results: tuple = ()
        self.doc = ""
        self._known: dict = {}
        self._count = 0

    # ------------------------------------------------------------------------------------------ nodes

    def op(self, kind: str, *inputs, outputs: int = 1, domain: str = "", dtype=None, **attributes):
        """Add a node; return its output, or a tuple of several.

        Args:
            kind: ONNX's name of the operator.
            inputs: values, numbers (of the dtype of the first value), lists of ints (int64), NumPy arrays, or None for
                one that is left out.
            outputs: how many it has.
            domain: of the operator, where it is none of ONNX's own.
            dtype: of the outputs; None for that of the first value.
            attributes: ints, floats, text, lists of these; None is left out.
        """
        like = next((one for one in inputs if isinstance(one, Output)), None)
        names = [self._input(one, like) for one in inputs]
        while names and not names[-1]:
            names.pop()
        for key, value in attributes.items():
            if any(isinstance(one, Size) for one in (value if isinstance(value, (list, tuple)) else (value,))):
                raise NotImplementedError(f"the attribute {key!r} of {kind} must be fixed, and it varies: {value!r}")
        given = tuple(Output(self._name(kind), dtype or getattr(like, "dtype", None)) for _ in range(outputs))
        node = Node(kind, names, [one.name for one in given], attributes, domain, self.doc)
        self.nodes.append(node)
        if domain:
            self.domains.add(domain)
        return given[0] if outputs == 1 else given

    def _name(self, kind) -> str:
        self._count += 1
        return f"{kind.lower()}_{self._count}"

    def _input(self, one, like) -> str:
        if one is None:
            return ""
        if isinstance(one, Output):
            if not one.name:
                raise NotImplementedError("of this value only the last row can be exported, x[-1]")
            return one.name
        if isinstance(one, (list, tuple)) or isinstance(one, Size):
            return self.ints(one).name
        dtype = getattr(like, "dtype", None) or plugrad.float32
        return self.constant(one, dtype if not isinstance(one, numpy.ndarray) else None).name

    def constant(self, value, dtype=None, name=None) -> Output:
        """Return a constant of a number, an array or a tensor, in a dtype."""
        if isinstance(value, Tensor):
            array, dtype = _array(value.detach()), value.dtype
        else:
            wanted = None if dtype is None else dtype.numpy
            array = numpy.asarray(value, wanted)
            dtype = dtype or plugrad.as_tensor(array).dtype
        key = (array.tobytes(), array.shape, dtype) if array.size <= 64 else None
        if name is None and key in self._known and key is not None:
            return self._known[key]
        label = name or self._name("constant")
        self.constants[label] = (array, dtype)
        result = Output(label, dtype, tuple(array.shape))
        if key is not None and name is None:
            self._known[key] = result
        return result

    # ------------------------------------------------------------------------------------------ sizes

    def ints(self, sizes) -> Output:
        """Return sizes, of which some may vary, as a 1-d tensor of int64.

        A single one becomes a 0-d tensor.
        """
        if isinstance(sizes, Size):
            return self.op("Squeeze", self._size(sizes), [0], dtype=plugrad.int64)
        if isinstance(sizes, int):
            return self.constant(sizes, plugrad.int64)
        if not any(isinstance(one, Size) for one in sizes):
            return self.constant(numpy.asarray(list(sizes), numpy.int64).reshape(-1))
        parts, fixed = [], []
        for one in (*sizes, None):
            if isinstance(one, int):
                fixed.append(one)
                continue
            if fixed:
                parts.append(self.constant(numpy.asarray(fixed, numpy.int64)))
                fixed = []
            if one is not None:
                parts.append(self._size(one))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def _size(self, size: Size) -> Output:
        """Return a size that varies, as a tensor of one element."""
        key = repr(size)
        if size.factors is None:
            raise NotImplementedError("a size here depends on the inputs' sizes in no linear manner")
        if key not in self._known:
            total = None
            for name, factor in size.factors.items():
                source, axis = self.sources[name]
                part = self.op("Shape", source, start=axis, end=axis + 1, dtype=plugrad.int64)
                part = part if factor == 1 else self.op("Mul", part, [factor])
                total = part if total is None else self.op("Add", total, part)
            self._known[key] = self.op("Add", total, [size.const]) if size.const else total
        return self._known[key]

    def fixed(self, value, what: str):
        """Return a number that must not vary, or a tuple of such.

        NotImplementedError names what it is.
        """
        if isinstance(value, (list, tuple)):
            return tuple([self.fixed(one, what) for one in value])
        if isinstance(value, Size):
            raise NotImplementedError(f"{what} must be fixed, and it varies with the inputs' sizes ({value!r})")
        return value

    # ------------------------------------------------------------------------------------------ what forms share

    def cast(self, value, dtype) -> Output:
        """Return a value in a dtype; a number as a constant."""
        if not isinstance(value, Output):
            return self.constant(value, dtype)
        if value.dtype is dtype:
            return value
        result = self.op("Cast", value, to=files.CODES[dtype], dtype=dtype)
        result.tensor = value.tensor
        return self.shaped(result, value)

    def shaped(self, value, like) -> Output:
        """Return a value that a form made, now known to have another's shape."""
        value.shape = like.shape
        return value

    def reshape(self, value, shape) -> Output:
        """Return a value in another shape, in which sizes may vary."""
        varying = [i for i, one in enumerate(shape) if isinstance(one, Size)]
        zero = any(one == 0 for one in shape if isinstance(one, int))
        if len(varying) == 1 and not zero:
            shape = [-1 if i == varying[0] else one for i, one in enumerate(shape)]
        return self.op("Reshape", value, list(shape), allowzero=1 if zero else None)

    def slice(self, value, axis, start, stop, step=1) -> Output:
        """Return part of a value along one axis; None as stop is the end."""
        stop = (_LAST if step > 0 else -_LAST) if stop is None else stop
        return self.op("Slice", value, [start], [stop], [axis], [step])

    def axes(self, value, dim) -> list:
        """Return dimensions as axes that are not negative: all for None or ()."""
        dims = range(value.rank) if dim is None or dim == () else [dim] if isinstance(dim, int) else dim
        return [one % value.rank for one in dims] if value.rank else []

    def permute(self, value, order) -> Output:
        """Return a value with its axes in another order."""
        return self.op("Transpose", value, perm=list(order))


def _array(tensor) -> numpy.ndarray:
    """Return a tensor's elements, of whichever dtype."""
    tensor = tensor.cpu().contiguous()
    return tensor.numpy(force=True) if tensor.dtype.numpy.kind in "?biufc" else numpy.asarray(tensor._raw)
