"""Modules that are derived: those of losses from their ops, those of layers from functions."""

from __future__ import annotations

import inspect
import sys
import warnings

from plugrad.dispatch import source
from plugrad.dispatch.formulas import of_composites
from plugrad.dispatch.op import Op
from plugrad.nn import functional
from plugrad.nn.module import Module


def legacy_reduction(size_average, reduce, warn: bool = True) -> str:
    """Return the `reduction` that two flags of old mean, and warn."""
    averaged, reduces = size_average is None or size_average, reduce is None or reduce
    reduction = ("mean" if averaged else "sum") if reduces else "none"
    if not warn:
        return reduction
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):  # modes and classes that override put frames in between
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction={reduction!r} instead.",
        stacklevel=level,
    )
    return reduction


def _is_ours(frame) -> bool:
    name = frame.f_globals.get("__name__", "")
    return frame.f_code.co_filename.startswith("<plugrad") or f"{name}.".startswith("plugrad.")


def loss(*, module: str, forward=("input", "target"), buffers=(), check=None):
    """Derive the Module of a loss from its op.

    Written as `@loss(module="MSELoss")` above the op's own decorator. The op takes `reduction` itself.

    Args:
        module: name of the Module, which appears as `plugrad.nn.NAME`.
        forward: names of the op's tensor arguments, which the Module is called with.
        buffers: names of the constructor arguments that are tensors of the state dict, such as weights of classes.
        check: called with the Module's name and a dict of its options when one is made, which it may refuse.

    Every other parameter of the op becomes one of the constructor, in their order and with the op's default. Where
    `size_average` and `reduce` are among them, flags of old, the Module has the `reduction` that they mean.
    """

    def derive(op: Op):
        if not isinstance(op, Op):
            raise TypeError(f'@loss(module="{module}") stands above the decorator of an op, such as @composite')
        for what, names in (("forward", forward), ("buffers", buffers)):
            missing = ", ".join(repr(name) for name in names if name not in op.parameters)
            if missing:
                raise TypeError(
                    f"@loss of op {op.name!r} says {what}={tuple(names)}, and the op has no parameter {missing}; "
                    f"it has {', '.join(op.parameters)}"
                )
        options = {name: op.defaults.get(name) for name in op.parameters if name not in forward}
        op.loss_module = _loss_class(op, module, tuple(forward), tuple(buffers), options, check)
        return op

    return derive


_LEGACY = ("size_average", "reduce")  # flags of old, which the function turns into a reduction


def _loss_class(op, name, forward, buffers, options, check):
    order, legacy = list(options), _LEGACY[0] in options

    def __init__(self, *args, **keywords):
        Module.__init__(self)
        values = options | dict(zip(order, args))
        twice = set(order[: len(args)]) & set(keywords)
        if twice:
            raise TypeError(f"{name}.__init__() got multiple values for argument {min(twice)!r}")
        unknown = set(keywords) - set(options)
        if unknown or len(args) > len(order):
            what = f"keyword argument {min(unknown)!r}" if unknown else f"positional argument {args[len(order)]!r}"
            raise TypeError(f"{name}.__init__() got an unexpected {what}; it takes {', '.join(order)}")
        values.update(keywords)
        if legacy:
            flags = [values.pop(flag) for flag in _LEGACY]
            if flags != [None, None]:
                values["reduction"] = legacy_reduction(*flags)
        for option, value in values.items():
            kind = op.known_kinds.get(option)
            if kind is not None and not kind.fits(value):
                what, number = type(value), kind.words == "float"
                told = f"{option} must be a float or int, got: {what}" if number else ""
                told = told or f"argument '{option}' must be {kind.words}, not {what.__name__}"
                raise TypeError(f"{name}.__init__(): {told}")
            if option in buffers:
                self.register_buffer(option, value)
            else:
                setattr(self, option, value)
        if check is not None:
            check(name, values)

    inputs = ", ".join(forward)
    passed = "".join(f", {option}=self.{option}" for option in options if option not in _LEGACY)
    doc = (op.doc or "").strip().split("\n")[0]
    attributes = {
        "__init__": __init__,
        "forward": _Generated(f"def forward(self, {inputs}):\n    return F.{op.name}({inputs}{passed})\n", op),
        "__signature__": _signature(options),
        "__doc__": _doc(doc, (op.names or (op.name,))[0], ", ".join(order)),
        "op": op,
    }
    if op.module.startswith("plugrad."):
        attributes.update(__module__="plugrad.nn", __qualname__=name)
    else:  # where pickle finds the class: it stands in no module under its own name
        attributes.update(__module__=op.module, __qualname__=f"{op.kernels['*'].__name__}.loss_module")
    return type(name, (_WeightedLoss if buffers == ("weight",) else _Loss,), attributes)


def _doc(first, function, arguments) -> str:
    """Return the docstring of a Module that is derived from a function."""
    described = f"which describes its arguments: {arguments}" if arguments else "without arguments of its own"
    return f"{first}\n\nThe Module of `{function}`, {described}."


def _signature(options):
    """Return the constructor's signature, for `help` and editors."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind, default=options[name]) for name in options])


class _Loss(Module):
    """Base of losses, ours and those of programs: keeps `reduction`, in its older form too."""

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        older = size_average is not None or reduce is not None
        self.reduction = legacy_reduction(size_average, reduce) if older else reduction


class _WeightedLoss(_Loss):
    """Base of losses with weights of classes: a buffer."""

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def loss_modules(namespace: dict) -> list:
    """Return the Modules that `@loss` derived in a plugin module, for its hook."""
    ops = [value for value in namespace.values() if isinstance(value, Op)]
    return [op.loss_module for op in ops if hasattr(op, "loss_module")]


# ---------------------------------------------------------------------------------------------------- layers


class _Generated:
    """Stands in a class for a method, and replaces itself by one generated from source when it is first looked at."""

    __slots__ = ("name", "op", "owner", "source")

    def __init__(self, source: str, op=None):
        self.source, self.op = source, op

    def __set_name__(self, owner, name):
        self.owner, self.name = owner, name

    def __get__(self, instance, owner=None):
        label = f"{self.owner.__name__}.{self.name}"
        F = functional if self.op is None else of_composites[self.op.scope]
        namespace = {"__name__": self.owner.__module__, "Module": Module, "F": F, "function": self.op}
        function = source.compile_function(self.source, self.name, label, namespace)
        function.__qualname__ = label
        setattr(self.owner, self.name, function)
        return function if instance is None else function.__get__(instance, owner)


def layer(name: str, function: str | Op, options: str = "", *, shown: str | None = "", doc: str = ""):
    """Return the Module class of a function.

    Args:
        name: of the class.
        function: the record of an op, or the name of one in nn.functional; the module calls it with the input and the
            options by name. A name is whoever's the program prefers, a record is always that op.
        options: the constructor's parameters as they are written in a signature, such as "alpha=1.0, inplace=False".
            `training`, written alone at the end, is not one: the module's mode is passed.
        shown: what the repr shows, a format of the options; a true `inplace` is added to it, unless this is None.
        doc: the first line of the docstring.

    >>> import plugrad as torch
    >>> from plugrad.extend import layer
    >>> Leaky = layer("Leaky", "leaky_relu", "negative_slope=0.01", shown="slope={negative_slope}")
    >>> Leaky(0.5), Leaky(0.5)(torch.tensor(-2.0))
    (Leaky(slope=0.5), tensor(-1.))
    """
    names = [part.partition("=")[0].strip() for part in options.split(",")] if options else []
    own = [option for option in names if option != "training"]
    parameters = ", ".join(part.strip() for part in options.split(",") if part.strip() != "training")
    store = "".join(f"    self.{option} = {option}\n" for option in own)
    passed = "".join(f", {option}=self.{option}" for option in names)

    def extra_repr(self):
        parts = [shown.format_map(self.__dict__)] if shown else []
        if "inplace" in own and shown is not None and self.inplace:
            parts.append("inplace=True")
        return ", ".join(parts)

    record = function if isinstance(function, Op) else None
    called = f"F.{function}" if record is None else "function"
    shown_as = f"nn.functional.{function}" if record is None else record.name
    extra_repr.__qualname__ = f"{name}.extra_repr"
    signature = f"self, {parameters}" if own else "self"
    attributes = {
        "__init__": _Generated(f"def __init__({signature}):\n    Module.__init__(self)\n{store}"),
        "forward": _Generated(f"def forward(self, input):\n    return {called}(input{passed})\n", record),
        "extra_repr": extra_repr,
        "__doc__": _doc(doc, shown_as, parameters),
        "__module__": sys._getframe(1).f_globals.get("__name__", "__main__"),
        "__qualname__": name,
    }
    return type(name, (Module,), attributes)
