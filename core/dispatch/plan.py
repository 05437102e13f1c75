"""How the calls of an op go, as data: derived from its record, and read by whoever carries calls out or explains them.

A plan has two executors. The interpreter (`interpreter.apply`) carries out every call, and gives every error. The
emitter writes the plan down as Python source: the fast path, which serves the plain calls and leaves others to the
interpreter. Operators, in-place forms, composites and factories are variations of a plan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy

from plugrad.devices.dtypes import is_half, is_integral
from plugrad.needs import SIGNS

ROLES = {
    "lead": "a tensor: its type is that of the call",
    "leads": "a list of tensors of one type",
    "operand": "a tensor of that type, or a Python number",
    "partner": "a tensor of that type",
    "input": "a tensor on the same device, or a plain value",
    "value": "a plain value, or a tensor on the same device",
    "plain": "a plain value",
    "shape": "ints, or a sequence of them",
    "dim": "an int or several, counted from the front",
    "absent": "left out",
}


class Argument(NamedTuple):
    """One parameter in a plan: how it is taken, and its bit in the mask of inputs that require grad (0: it can't)."""

    name: str
    role: str
    bit: int

    @property
    def meaning(self) -> str:
        """How the parameter is taken, for readers."""
        return ROLES[self.role]


class _Probe:
    """Stands for an array module, to see whether a kernel is no more than one call of one of its functions."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, args)) or self.calls


class _Operand:
    """Stands for an array, of a dtype if that is known: a kernel may refuse it."""

    def __init__(self, **known):
        vars(self).update(known)


def array_function(op, arity: int, **known) -> str | None:
    """Return NAME if the general kernel, with default options, is just `xp.NAME(*operands)`; None for others."""
    probe, operands = _Probe(), tuple(_Operand(**known) for _ in range(arity))
    options = {name: op.defaults[name] for name in op.parameters[arity:] if name in op.defaults}
    try:
        result = op.kernels["*"](probe, *operands, **options)
    except Exception:  # it looks at its operands, so it is more than one call
        return None
    is_one = result is probe.calls and len(probe.calls) == 1 and probe.calls[0][1] == operands
    return probe.calls[0][0] if is_one and "cpu" not in op.kernels else None


class CallPlan:
    """The steps of a call: bind, unwrap, promote, run, wrap, view, save, fit, history, out, in place.

    Attributes:
        op: the record.
        arguments: an `Argument` for each parameter, in the order in which they are taken: the leading one first.
        level: what the kernel runs on: "arrays", "tensors" (composites) or "nothing" (factories).
        direct: the array function that the kernel is no more than, else None.
        constants: values of parameters that this variation does not take.
        result: the type of the result: "lead", "bool", or "kernel" (look at what it returned).
        several: whether the kernel may return several results.
        view: whether the result shares the memory of the first argument.
        inputs: (bit, name, position) of each input with a gradient formula.
        out: whether the call takes `out=`.
        target: in an in-place form the argument that is written, else None.
        is_operator: whether it is one of Python's operators.
    """

    __slots__ = (
        "op", "name", "arguments", "level", "direct", "constants", "result", "several", "view", "inputs", "out",
        "target", "is_operator",
    )  # fmt: skip

    def __init__(self, op):
        self.op, self.name, self.target, self.is_operator, self.constants = op, op.name, None, False, {}
        inputs = op.inputs if op.result_type != "bool" else ()
        self.inputs = tuple((1 << bit, name, op.index[name]) for bit, name in enumerate(inputs))
        bits = {name: bit for bit, name, _ in self.inputs}
        arguments = [Argument(name, op.role(name), bits.get(name, 0)) for name in op.parameters]
        self.arguments = tuple(sorted(arguments, key=lambda argument: argument.role not in ("lead", "leads")))
        self.level, self.result, self.several, self.view = op.runs_on, op.result_type, op.returns_several, op.is_view
        self.direct = array_function(op, op.arity) if op.arity and len(op.parameters) == op.arity else None
        self.out = op.has_out

    def _variation(self, **changes):
        plan = object.__new__(type(self))
        for name in self.__slots__:
            setattr(plan, name, changes.get(name, getattr(self, name)))
        return plan

    def operator(self, reflected: bool) -> CallPlan:
        """Return the plan of Python's operator: two operands, all options at their defaults.

        The one that Python asks, the left or (`reflected`) the right operand, is certainly a tensor and leads.
        """
        op = self.op
        arguments = list(self.arguments[:2])
        if reflected:
            first, second = arguments
            arguments = [second._replace(role="lead"), first]
        arguments[1] = arguments[1]._replace(role="operand" if op.broadcasts else "input")
        rest = {name: op.defaults[name] for name in op.parameters[2:]}
        name = f"__{'r' if reflected else ''}{SIGNS.get(op.name, op.name)}__"
        return self._variation(
            name=name, arguments=tuple(arguments), constants=rest, out=False,
            direct=array_function(op, 2), is_operator=True,
        )  # fmt: skip

    def in_place(self) -> CallPlan:
        """Return the plan of the in-place form, which writes its first argument."""
        op = self.op
        direct = None
        if op.arity and op.promote in ("same", "float"):
            direct = array_function(op, op.arity)
            if not isinstance(getattr(numpy, direct or "", None), numpy.ufunc):  # it can't be told where to write
                direct = None
        name = "__setitem__" if op.inplace == "items" else f"{op.name}_"
        return self._variation(name=name, out=False, direct=direct, target=op.parameters[0])

    @property
    def lead(self) -> Argument:
        """The argument whose tensor type is that of the call."""
        return self.arguments[0]

    def takes_others(self, ttype) -> bool:
        """Whether the array function does with integers, bool or halves of a type just what the interpreter would."""
        op, dtype = self.op, ttype.np
        if is_half(dtype):
            exact = self.direct != "true_divide" or self.lead.name != "other"  # beside a number its formula rounds once
            return exact and not (self.target or ttype.rare) and self.direct in getattr(ttype.functions, "halves", ())
        if ttype.xp is not numpy or ttype.rare or not is_integral(dtype) or op.promote == "float" or not self.direct:
            return False
        count = sum(argument.role in ("lead", "operand", "partner") for argument in self.arguments)
        try:
            if op.meet is not None:
                op.meet(*[(ttype.dtype, "dim")] * count)
            result = getattr(numpy, self.direct)(*[numpy.ones(1, dtype)] * count).dtype
        except Exception:  # the interpreter says what is wrong
            return False
        return array_function(op, count, dtype=dtype) == self.direct and (op.promote == "bool" or result == dtype)

    @property
    def runs_kernel(self) -> bool:
        """Whether the fast path of this in-place form copies what the kernel returns."""
        kernel = self.level == "arrays" and self.lead.role == "lead" and self.lead.name == self.target
        return kernel and self.op.inplace != "shape" and self.op.write_function is self.direct is None

    @property
    def is_compiled(self) -> bool:
        """Whether plain calls have a fast path; others always take the interpreter."""
        if self.target is not None:
            return self.op.write_function is not None or self.direct is not None or self.runs_kernel
        if self.level != "arrays":
            return True
        if self.lead.role == "leads":
            return self.op.name_node is None and self.op.inputs in ((), (self.lead.name,))
        return self.lead.role == "lead"
