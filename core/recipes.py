"""Records derived from others: the Module of a loss, and kernels for ops that somebody else declared."""

from __future__ import annotations

import warnings

from plugrad import registry
from plugrad.nn.module import Module
from plugrad.op import Op


class Kernel:
    """A kernel for an op of another plugin, on one backend."""

    __slots__ = ("op_name", "backend", "function", "module", "override")

    def __init__(self, op_name, backend, function, override=False):
        self.op_name, self.backend, self.function, self.override = op_name, backend, function, override
        self.module = function.__module__

    def apply(self) -> None:
        """Enter the kernel in the op's record; an existing one is replaced only with `override=True`."""
        record = registry.op(self.op_name)
        if self.backend in record.kernels and not self.override:
            raise ValueError(
                f"op {self.op_name!r} already has a kernel for {self.backend!r} (from {record.kernels[self.backend].__module__}); "
                "declare this one with override=True to replace it"
            )
        record.kernels[self.backend] = self.function
        record.changed()


def kernel_for(op_name: str, backend: str, *, override=False):
    """Declare a kernel for an op of another plugin: `@kernel_for("conv2d", "cuda")`."""
    return lambda function: Kernel(op_name, backend, function, override)


def _legacy_reduction(size_average, reduce) -> str:
    warnings.warn("size_average and reduce args will be deprecated, please use reduction instead.", stacklevel=4)
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def loss(*, module: str, forward=("input", "target"), buffers=(), at=None):
    """Derive the Module of a loss from its op: `@loss(module="MSELoss")` above the op's own decorator.

    `forward` names the op's tensor arguments; `buffers` the constructor arguments that are tensors; every other
    parameter of the op becomes a keyword of the constructor, with the op's default.
    """

    def derive(op: Op):
        options = {name: op.defaults.get(name) for name in op.parameters if name not in forward}
        op.loss_module = _loss_class(op, module, tuple(forward), tuple(buffers), options)
        return op

    return derive


def _loss_class(op, name, forward, buffers, options):
    order = [*(n for n in buffers if n in options), *(n for n in options if n not in buffers)]
    legacy = "reduction" in options

    def __init__(self, *args, size_average=None, reduce=None, **keywords):
        Module.__init__(self)
        values = dict(options)
        # PyTorch's positional order: tensors, then (size_average, ...) which nobody passes by position any more.
        for given, value in zip(order, args):
            values[given] = value
        unknown = set(keywords) - set(options)
        if unknown or len(args) > len(order):
            what = f"keyword argument {sorted(unknown)[0]!r}" if unknown else f"positional argument {args[len(order)]!r}"
            raise TypeError(f"{name}.__init__() got an unexpected {what}; it takes {', '.join(order)}")
        values.update(keywords)
        if legacy and (size_average is not None or reduce is not None):
            values["reduction"] = _legacy_reduction(size_average, reduce)
        for option, value in values.items():
            if option in buffers:
                self.register_buffer(option, value)
            else:
                setattr(self, option, value)

    def call(self, *inputs, **named):
        keywords = {option: getattr(self, option) for option in options}
        return op.function(*inputs, **named, **keywords)

    call.__name__ = "forward"
    doc = (op.doc or "").strip().split("\n")[0]
    attributes = {
        "__init__": __init__,
        "forward": call,
        "__doc__": f"{doc}\n\nThe Module of `{op.name}`; arguments: {', '.join(order)}.",
        "__module__": op.module,
        "__qualname__": name,
        "op": op,
    }
    return type(name, (_Loss,), attributes)


class _Loss(Module):
    """Base of the derived losses."""


def loss_modules(namespace: dict) -> list:
    """Return the Modules derived by `@loss` in a plugin module: what its `plugrad_losses` hook returns."""
    return [value.loss_module for value in namespace.values() if isinstance(value, Op) and hasattr(value, "loss_module")]
