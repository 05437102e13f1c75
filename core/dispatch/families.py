"""The families of ops and their decorators: what can be derived once for all ops of a kind.

A family contributes steps to the plans of its ops: how arguments are taken and promoted, what type and shape the
result is, whether an in-place form exists, which errors can be explained. `op` is the family of everything else.
"""

from __future__ import annotations

import numpy

from plugrad.devices import dtypes
from plugrad.dispatch import inplace
from plugrad.dispatch.op import Op
from plugrad.graph import rare
from plugrad.needs import REFLECTED
from plugrad.tensor.shapes import axes, broadcast_shapes
from plugrad.tensor.tensor import Tensor

_REFLECTED = {name: dunder for dunder, name in REFLECTED.items()}
_EITHER_WAY = ("add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor")  # 2 + x is add(x, 2) to whoever takes it over

_FLOATS = (dtypes.float32.numpy, dtypes.float64.numpy)  # what kernels of the fast path take
_OF_OTHER_DTYPE = ("bool", "index", "bits")  # than the operand's, whatever that is
_TENSORS = {"both": 0, "any": 0, "other": 1, "none": 2}  # by `numbers`: how many operands may be no numbers
_SERVES_INTEGERS = dict.fromkeys("bi", ("same", "int64", *_OF_OTHER_DTYPE)) | {"u": ("same", *_OF_OTHER_DTYPE)}
_COMPUTE_IN = {"float16": "float32", "bfloat16": "float32"}  # as PyTorch's kernels on the CPU do


class Elementwise(Op):
    """Broadcasting ops: any number of tensor operands, one result."""

    family = "elementwise"
    broadcasts = True
    default_inplace = True
    has_out = True

    def __init__(
        self, function, *, tensors=None, same=None, promote="same", takes_half=False, meet=None, wraps=True, fits=(),
        exact=(), alike=False, ordered_by=None, **options,
    ):  # fmt: skip
        super().__init__(function, promote=promote, **options)
        self.meet = meet  # called with (dtype, rank) of each operand, it raises the error for those that must not meet
        self.wraps = wraps  # integers' numbers that they can't hold; or those are refused; None: the kernel looks
        self.widens = {} if takes_half else _COMPUTE_IN
        self.keeps_order = promote != "bool"
        self.tensors = tuple(tensors) if tensors else self.parameters[: self.arity or 1]
        self.operands = tuple(self.index[name] for name in self.tensors)
        self.ordered_by = tuple(self.index[name] for name in (self.tensors if ordered_by is None else ordered_by))
        self.promoted = tuple(self.index[name] for name in (same or self.tensors))
        self.fits = tuple(self.index[name] for name in fits)  # numbers that an element must be able to hold
        self.exact, self.alike = exact, alike  # whose numbers halves do not round; operands, all numbers or all tensors

    def role(self, name):
        if self.index[name] not in self.promoted:
            return "input" if name in self.inputs else "value"
        leads, partner = self.index[name] == self.promoted[0], self.kinds.get(name) == "tensor"
        return "lead" if leads else "partner" if partner else "operand"

    @property
    def result_type(self):
        return "bool" if self.promote == "bool" else "kernel"

    def fast_kernel(self, ttype):
        """Return the kernel if the fast path serves tensors of this type; None sends them to the interpreter."""
        kernel = None if ttype.symbolic or self.promote == "int" else self.kernel_for(ttype.backend.name)
        halves = getattr(kernel, "halves", False) and self.operands == (0,) and ttype.is_half
        whole = ttype.np.kind in "iu" and getattr(kernel, "integers", False)
        return kernel if halves or whole or ttype.np in _FLOATS else None

    def prepare(self, values, raw, ttype):
        described = []
        for position in self.promoted:
            value = raw[position]
            if value is None and self.defaults.get(self.parameters[position], 0) is None:
                continue
            if hasattr(value, "dtype") and isinstance(values[position], Tensor):
                described.append((dtypes.from_numpy(value.dtype), "dim" if value.ndim else "zero"))
            else:
                described.append((_scalar_dtype(self, position, value), "scalar"))
        if self.meet is not None:
            self.meet(*described)
        if self.alike:
            rare.refuse_mixture(self, values)
        result = dtypes.result_type(*described)
        if result is dtypes.complex32:
            result = dtypes.complex64  # the narrowest complex type that NumPy has
        if result.is_complex and self.complex is False:  # because of a number
            raise NotImplementedError(f"\"{self.name}\" not implemented for '{result._label}': it is not defined there")
        promote = self.promote
        if promote == "float" and not (result.is_floating_point or result.is_complex):
            result = dtypes.get_default_dtype()
        elif promote == "int" and (result.is_floating_point or result.is_complex):
            raise NotImplementedError(
                f"\"{self.name}\" not implemented for '{result._label}': it is defined for integers and bool"
            )
        compute = result.numpy
        if result.name in _COMPUTE_IN and not getattr(self.kernels.get(ttype.backend.name), "halves", False):
            rare.narrow(self, raw, result)
            if rare.takes_halves(self, ttype, raw, result):
                return compute
            compute = getattr(dtypes, self.widens.get(result.name, result.name)).numpy
        for position in self.promoted:
            value = raw[position]
            if value is not None and hasattr(value, "dtype"):
                raw[position] = value if value.dtype == compute else ttype.backend.cast(value, compute)
            elif value is not None and self.wraps is not None and dtypes.is_integral(compute):
                raw[position] = rare.integer_scalar(value, compute, self.wraps)
        if promote == "bool":
            return dtypes.bool.numpy
        # A complex operand may give a real result (abs, angle): the kernel knows.
        return None if result.is_complex else result.numpy

    def compute(self, ttype, raw):
        return rare.in_halves(self, ttype, raw) if ttype.is_half else self.run_kernel(ttype, raw)

    def explain(self, error, raw):
        if isinstance(error, ValueError):
            try:
                broadcast_shapes(*(raw[i].shape for i in self.operands if hasattr(raw[i], "shape")))
            except RuntimeError as mismatch:
                return mismatch
        return error

    def shape_rule(self, ttype, raw):
        if self.meta_function is not None:
            return super().shape_rule(ttype, raw)
        shape = broadcast_shapes(*(raw[i].shape for i in self.operands if hasattr(raw[i], "shape")))
        arrays = [raw[i] for i in self.promoted if hasattr(raw[i], "dtype")]
        dtype = arrays[0].dtype if arrays else ttype.np
        if self.promote == "bool":
            dtype = dtypes.bool.numpy
        elif dtypes.is_complex(dtype):  # abs of complex numbers is real: the kernel knows
            probe = [ttype.backend.probe(item) if hasattr(item, "dtype") else item for item in raw]
            dtype = self.run_kernel(ttype.backend.host_type(dtype), probe).dtype
        followed = [] if self.any_order == "rows" else [raw[i] for i in self.ordered_by if hasattr(raw[i], "dtype")]
        return ttype.backend.empty(shape, dtype, followed)


def _scalar_dtype(op, position, value):
    cls = value.__class__
    if cls is bool:
        return dtypes.bool
    if cls is int or isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise OverflowError(f"int too big to convert: {op.name}() computes with ints of 64 bits; write a float")
        return dtypes.int64 if value < 1 << 63 else dtypes.uint64
    if cls is float or isinstance(value, float):
        return dtypes.get_default_dtype()
    if cls is complex:
        return dtypes.complex128 if dtypes.get_default_dtype() is dtypes.float64 else dtypes.complex64
    raise TypeError(
        f"{op.name}(): argument '{op.parameters[position]}' (position {position + 1}) must be Tensor or Number, not "
        f"{type(value).__name__}"
    )


class Unary(Elementwise):
    """Elementwise ops of one tensor."""

    family = "unary"
    arity = 1
    returns_several = False

    def __init__(self, function, *, promote="float", **options):
        super().__init__(function, promote=promote, **options)

    @property
    def result_type(self):
        return "bool" if self.promote == "bool" else "lead"

    def run_in_place(self, target, values, inside=False):
        return inplace.run(self, target, values, inside, may_become_real=False)


class Binary(Elementwise):
    """Elementwise ops of two operands, each a tensor or a Python number."""

    family = "binary"
    arity = 2
    returns_several = False
    checks_numbers = True

    @property
    def result_type(self):
        return "bool" if self.promote == "bool" else "lead"

    def role(self, name):
        role = super().role(name)
        return "partner" if role == "operand" and self.numbers == "none" else role

    def __init__(self, function, *, numbers="other", **options):
        super().__init__(function, **options)
        self.numbers = numbers  # may be Python numbers by name: "other", "both" (one of them), "any", "none"

    def check_numbers(self, values) -> None:
        """Raise PyTorch's TypeError for a Python number where only a tensor may stand."""
        for position, value in enumerate(values[: _TENSORS[self.numbers]]):
            if isinstance(value, (int, float, complex, numpy.generic)):
                raise TypeError(
                    f"{self.name}(): argument '{self.parameters[position]}' (position {position + 1}) must be Tensor, "
                    f"not {type(value).__name__}; write torch.tensor({value!r})"
                )

    def reflected_operator(self, values):
        dunder = isinstance(values[0], (int, float, complex)) and _REFLECTED.get(self.name)
        return (self.function if self.name in _EITHER_WAY else getattr(Tensor, dunder)) if dunder else None


class Reduction(Op):
    """Ops that reduce dimensions, with parameters `dim` and `keepdim`."""

    family = "reduction"
    reduces = True
    has_out = True

    def role(self, name):
        if name == self.parameters[0]:
            return "lead"
        if name in self.inputs:
            return "input"
        return {"dim": "dim", "dtype": "absent"}.get(name, "plain")

    def fast_kernel(self, ttype):
        """Return the kernel if the fast path serves tensors of this type; None sends them to the interpreter."""
        # NumPy adds up bool and signed integers as int64 by itself.
        served = ttype.np in _FLOATS or self.promote in _SERVES_INTEGERS.get(ttype.np.kind, ())
        return self.kernel_for(ttype.backend.name) if served and not ttype.symbolic else None

    def __init__(self, function, *, promote="same", any_order="rows", meet=None, keeps_given=False, **options):
        super().__init__(function, promote=promote, any_order=any_order, **options)
        self.keeps_given = keeps_given  # whether keepdim is only taken with a dim, which may be None
        self.meet = meet  # called with the input's dtype and the one asked for, it raises the error for those refused
        self.dim_index, self.keepdim_index = self.index.get("dim"), self.index.get("keepdim")
        self.dtype_index = self.index.get("dtype")

    def prepare(self, values, raw, ttype):
        array, dtype = raw[0], dtypes.from_numpy(raw[0].dtype)
        asked = raw[self.dtype_index] if self.dtype_index is not None else None
        result = None
        if asked is not None:
            result = dtypes.from_numpy(asked)
            if self.meet is not None:
                self.meet(dtype, result)
        elif self.promote == "int64" and not (dtype.is_floating_point or dtype.is_complex):
            result = dtypes.int64
        elif self.promote == "float" and not (dtype.is_floating_point or dtype.is_complex):
            result = dtypes.get_default_dtype()
        target = result or dtype
        whole = result is None and getattr(self.kernels.get(ttype.backend.name), "halves", False)
        compute = target if whole else getattr(dtypes, _COMPUTE_IN.get(target.name, target.name))
        if compute is not dtype:
            raw[0] = array = ttype.backend.cast(array, compute.numpy)
        if asked is not None:
            raw[self.dtype_index] = compute.numpy
        if self.dim_index is not None:
            dim = raw[self.dim_index]
            if dim is not None:
                raw[self.dim_index] = axes(tuple(dim) if isinstance(dim, list) else dim, array.ndim)
        return target.numpy if target.name in _COMPUTE_IN and self.promote not in _OF_OTHER_DTYPE else None

    def compute(self, ttype, raw):
        array = raw[0]
        if array.ndim or self.dim_index is None or raw[self.dim_index] is None:
            return super().compute(ttype, raw)
        # A 0-d input has one dimension as far as `dim` is concerned.
        lifted = [array.reshape(1), *raw[1:]]
        result = super().compute(ttype, lifted)
        return tuple(r.reshape(()) for r in result) if isinstance(result, tuple) else result.reshape(())

    def raw(self, ops):
        kernel, xp = self.kernel_for(ops._name), ops._xp
        if self.dim_index is None:
            return super().raw(ops)
        positional, place = self.positional[1:], self.dim_index - 1

        def call(input, *args, **kwargs):
            if len(args) > place == 0 and input.ndim and not kwargs:  # the common case: `dim` comes first
                dim = args[0]
                return kernel(xp, input, *args) if dim is None else kernel(xp, input, axes(dim, input.ndim), *args[1:])
            values = dict(zip(positional, args))
            values.update(kwargs)
            dim = values.get("dim")
            if dim is not None:
                values["dim"] = axes(dim, input.ndim)
                if not input.ndim:
                    result = kernel(xp, input.reshape(1), **values)
                    return tuple(r.reshape(()) for r in result) if isinstance(result, tuple) else result.reshape(())
            return kernel(xp, input, **values)

        return call

    def shape_rule(self, ttype, raw):
        if self.meta_function is not None:
            return super().shape_rule(ttype, raw)
        shape, dim = raw[0].shape, raw[self.dim_index] if self.dim_index is not None else None
        keep = raw[self.keepdim_index] if self.keepdim_index is not None else False
        reduced = range(len(shape)) if dim is None or dim == () else dim if isinstance(dim, tuple) else (dim,)
        if keep:
            shape = tuple(1 if i in reduced else n for i, n in enumerate(shape))
        else:
            shape = tuple(n for i, n in enumerate(shape) if i not in reduced)
        # The dtype of the result is the kernel's on one element.
        probe = [
            ttype.backend.probe(item) if hasattr(item, "dtype") and hasattr(item, "shape") else item for item in raw
        ]
        if dim is not None:  # a 0-d input has one dimension as far as that is concerned
            probe[self.dim_index], probe[0] = 0, probe[0].reshape(probe[0].shape or 1)
        result = self.run_kernel(ttype.backend.host_type(raw[0].dtype), probe)
        if isinstance(result, tuple):
            return tuple(ttype.backend.empty(shape, item.dtype) for item in result)
        return ttype.backend.empty(shape, result.dtype)


class View(Op):
    """Ops that return a view of their first input where the memory allows."""

    family = "view"
    is_view = True

    def __init__(self, function, *, itself=False, follows=False, **options):
        super().__init__(function, **options)
        self.itself = itself  # whether a tensor whose array the kernel hands back is the result itself
        self.follows = follows  # whether a copy stands for a view

    def role(self, name):
        return "lead" if name == self.parameters[0] else "input" if name in self.inputs else "shape"

    def may_have_out(self):
        return False

    def has_history(self, values):
        return not isinstance(values[-1], dtypes.dtype)  # what is seen as another dtype has no gradient

    def fast_kernel(self, ttype):
        """Return the kernel for every dtype; symbolic arrays take the interpreter."""
        return None if ttype.symbolic else self.kernel_for(ttype.backend.name)

    def shape_rule(self, ttype, raw):
        return ttype.backend.view(self, raw)


class Composite(Op):
    """Functions of other ops: no kernel, no gradient of their own."""

    family = "composite"
    runs_on = "tensors"

    def __init__(self, function, *, fresh=False, **options):
        super().__init__(function, **options)
        self.fresh = fresh  # whether results are no views, though the last op that they come from makes one

    @property
    def differentiable(self) -> bool:
        return not self.undifferentiable

    def raw(self, ops):
        kernel, scope = self.kernels["*"], self.scope

        def call(*args, **kwargs):
            return kernel(ops._within[scope], *args, **kwargs)

        return call


class Factory(Op):
    """Functions that make tensors from no tensor: `dtype`, `device` and `requires_grad` are added."""

    family = "factory"
    runs_on = "nothing"
    has_out = True

    def __init__(self, function, *, promote=None, **options):
        name = options.get("name") or function.__name__.rstrip("_")
        options.setdefault("at", (name,))
        super().__init__(function, promote=promote, **options)

    @property
    def differentiable(self) -> bool:
        return False

    def raw(self, ops):
        kernel, xp = self.kernel_for(ops._name), ops._xp

        def call(*args, dtype=None, device=None, requires_grad=False, **kwargs):
            if "dtype" in self.index:
                kwargs["dtype"] = dtype.numpy if isinstance(dtype, dtypes.dtype) else dtype
            return kernel(xp, *args, **kwargs)

        return call


def _decorator(cls, doc):
    def family(function=None, **options):
        return make(function, options) if function is not None else lambda function: make(function, options)

    def make(function, options):
        if not str(getattr(function, "__module__", "")).startswith("plugrad."):  # ours are right, which tests prove
            rare.check_declaration(cls, function, options)
        return cls(function, **options)

    family.__doc__ = doc
    return family


unary = _decorator(Unary, "Declare an elementwise op of one tensor: `def f(xp, input)`.")
binary = _decorator(Binary, "Declare an elementwise op of two operands: `def f(xp, input, other)`.")
elementwise = _decorator(Elementwise, "Declare a broadcasting op of any number of operands, named by `tensors`.")
reduction = _decorator(Reduction, "Declare a reduction: `def f(xp, input, dim=None, keepdim=False)`.")
view = _decorator(View, "Declare an op that returns a view: `def f(xp, input, ...)`.")
op = _decorator(Op, "Declare an op of any other kind: `def f(xp, input, ...)`.")
composite = _decorator(Composite, "Declare a function of other ops: `def f(F, input, ...)`.")
factory = _decorator(Factory, "Declare a function that makes tensors: `def f(xp, size, *, dtype)`.")
