"""The functions of an op, generated from its plan: the public one, operators, the in-place form, the binder."""

from __future__ import annotations

from plugrad.devices import dtypes
from plugrad.devices.device import device
from plugrad.dispatch import factories, inplace, interception, interpreter, source
from plugrad.dispatch.emitter import NodeMakers, Writer
from plugrad.dispatch.formulas import of_composites
from plugrad.dispatch.support import globals_of
from plugrad.graph import modes
from plugrad.needs import OPERATORS


def function(op):
    """Return the public function of an op."""
    return _public(op, *getattr(_Public, op.runs_on)(op))


class _Public:
    """Source and globals of public functions, by what kernels run on."""

    @staticmethod
    def arrays(op):
        return _call(op, op.plan)

    @staticmethod
    def tensors(op):
        return Writer(op.plan).composite(), {"kernel": op.kernels["*"], "F": of_composites[op.scope]}

    @staticmethod
    def nothing(op):
        cpu = device("cpu")
        return Writer(op.plan).factory(), {
            "create": factories.create, "failed": factories.failed, "cpu": cpu, "types": cpu._types, "dtypes": dtypes,
            "kernel": op.kernel_for("cpu"), "xp": cpu.backend.xp, "array_type": cpu.backend.array_type,
        }  # fmt: skip


def _call(op, plan):
    """Return the source of a function that follows a plan on arrays, and the globals that are its own."""
    writer = Writer(plan)
    text, nodes = writer.call(), {f"node{mask}": cls for mask, cls in writer.nodes.items()}
    kernels = op.fast if plan.direct is None else type(op.fast)(op, plan)  # of its own: it may take integers
    return text, {"kernels": kernels, "makers": NodeMakers(plan), **nodes}


def _public(op, text: str, more: dict):
    """Compile a public function and give it the op's documentation, and the name under which it is public."""
    public_function = source.compile_function(text, op.name, f"op {op.qualname}", globals_of(op, **more))
    public_function.__doc__ = op.doc
    public_function.__module__ = op.module
    public = next((name for name in op.names if not name.startswith("Tensor.")), None)
    if op.module.startswith("plugrad.") and public is not None:
        # Where it is public, not where it was declared: so it reads well in help(), and can be pickled.
        public_function.__module__, _, public_function.__name__ = f"plugrad.{public}".rpartition(".")
        public_function.__qualname__ = "Tensor." * (op.called is not op) + public_function.__name__
    else:  # its module holds the record under the kernel's name: so pickle finds the function
        public_function.__qualname__ = f"{op.kernels['*'].__name__}.function"
        dunder = f"__{op.name}__"
        public_function.__name__ = dunder if dunder in OPERATORS else (*op.names, op.name)[0].rpartition(".")[2]
    public_function.__op__ = op.record
    return public_function


def operator(op, reflected: bool):
    """Return the method for one of Python's operators of two operands."""
    plan = op.plan.operator(reflected)
    text, more = _call(op, plan)
    return source.compile_function(text, plan.name, f"operator {plan.name} of {op.qualname}", globals_of(op, **more))


def in_place(op, operator=False):
    """Return the method that is the in-place form of an op, or as an operator, where Python may ask the other side."""
    plan = op.writable.plan = op.plan.in_place()

    def general(target, values):
        if operator and not isinstance(values[1], interpreter.OPERANDS[:-1]):
            return NotImplemented
        if modes.watched and interpreter.met(values):
            return interception.in_place(op.in_place, op, values, lambda: op.run_in_place(target, values, True))
        return op.run_in_place(target, values)

    more = dict(general=general, writable=op.writable, write=op.write_function, in_history=inplace.in_history)
    method = source.compile_function(Writer(plan).write(), plan.name, f"in-place {op.qualname}", globals_of(op, **more))
    method.__qualname__, method.__module__ = f"Tensor.{plan.name}", "plugrad.tensor.tensor"
    note = ": the tensor gets the shape of that view of it" if op.inplace == "shape" else ""
    method.__doc__ = f"In-place version of `{op.name}`{note}."
    return method


def binder(op):
    """Return a function with the op's signature that returns its arguments as one tuple."""
    name = f"bind_{op.name}"
    text = f"def {name}({source.signature_source(op)}):\n{source.settle_source(op)}"
    text += "\n".join([*source.whole_source(op), f"    return {source.values_source(op)}\n"])
    return source.compile_function(text, name, f"arguments of {op.qualname}", globals_of(op))
