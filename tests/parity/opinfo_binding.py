"""Find, in another library, the callables that an entry of PyTorch's op_db talks about."""

from __future__ import annotations

import functools
import types

import torch

MISSING = object()


def resolve(root, dotted: str, default=None):
    """The object at `root.<dotted>`, or `default` when any part of the path is absent."""
    for part in dotted.split("."):
        root = getattr(root, part, MISSING)
        if root is MISSING:
            return default
    return root


def provides(target, op) -> bool:
    """Whether `target` has the op: as a function, as a Tensor method, in place only, or below `torch.ops.aten`."""
    return _plain_callable(target, op.name) is not None or _elsewhere(target, op) is not None


def bind(op, target):
    """The function of `op` in `target`, taking the arguments that the samples of `op` carry.

    Two kinds of entry exist. `op.op` may be the function of that name itself: then the one of the same name
    in `target` is meant. Or it is a small adapter written in PyTorch's test suite, such as
    `lambda x, n: torch.polygamma(n, x)`: then the adapter runs, with `torch` meaning `target`. None when
    `target` cannot offer it.
    """
    if not provides(target, op):
        return None
    if _is_adapter(op.op):
        return rebind(op.op, target)
    return _plain_callable(target, op.name) or _elsewhere(target, op)


def rebind(value, target):
    """Code of PyTorch's test suite, with every reference to PyTorch's modules replaced by `target`."""
    return _Rebinder(target)(value)


def _plain_callable(target, name):
    """`target.<name>`; else the Tensor method of that name, its in-place form last."""
    function = resolve(target, name)
    if callable(function):
        return function
    if "." in name:
        return None
    for method in (name, name + "_"):
        if hasattr(target.Tensor, method):
            return _method_caller(target.Tensor, method)
    return None


def _elsewhere(target, op):
    """What the entry calls where that has another name than the entry: `torch.segment_reduce`, an overload of aten."""
    if isinstance(op.op, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return _below(target, op.op)
    if isinstance(op.op, types.BuiltinFunctionType | types.BuiltinMethodType):
        return resolve(target, op.op.__name__)
    if _is_adapter(op.op) and op.name.endswith("_backward"):
        return resolve(target, f"ops.aten.{op.name}")
    return None


def _below(target, op):
    """The target's `torch.ops.NAMESPACE.NAME.OVERLOAD`."""
    home, _, name = str(op).partition(".")
    try:
        return resolve(target, f"ops.{home}.{name}")
    except AttributeError:
        return None


def _method_caller(tensor_type, name):
    attribute = getattr(tensor_type, name)
    if callable(attribute):
        return lambda input, *args, **kwargs: getattr(input, name)(*args, **kwargs)
    return lambda input: getattr(input, name)


def _is_adapter(function) -> bool:
    return isinstance(function, types.FunctionType) and function.__module__.startswith("torch.testing.")


def _unseeded(function, *args, **kwargs):
    """Stands in for PyTorch's `wrapper_set_seed`: the caller of an op decides about seeds here."""
    return function(*args, **kwargs)


class _Rebinder:
    """Copies functions of torch.testing, and what they refer to, with `torch` exchanged for the target."""

    def __init__(self, target) -> None:
        self.target = target
        self.done: dict[int, object] = {}

    def __call__(self, value):
        if isinstance(value, types.ModuleType):
            return self.module(value)
        if isinstance(value, functools.partial):
            keywords = {key: self(item) for key, item in value.keywords.items()}
            return functools.partial(self(value.func), *map(self, value.args), **keywords)
        if isinstance(value, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return _below(self.target, value)
        if isinstance(value, types.MethodDescriptorType | types.WrapperDescriptorType):
            return self.descriptor(value)
        if not _is_adapter(value):
            return self.library_function(value) if callable(value) else value
        if value.__name__ == "wrapper_set_seed":
            return _unseeded
        if id(value) not in self.done:
            self.done[id(value)] = value  # a function that refers to itself keeps the original
            self.done[id(value)] = self.function(value)
        return self.done[id(value)]

    def module(self, module):
        if module is torch:
            return self.target
        if module.__name__.startswith("torch.") and not module.__name__.startswith("torch.testing"):
            return resolve(self.target, module.__name__.removeprefix("torch."), module)
        return module

    def descriptor(self, descriptor):
        if descriptor.__objclass__ in torch.Tensor.__mro__:
            return _late_method(descriptor.__name__)
        return descriptor

    def library_function(self, function):
        """A function of torch that is held directly (a default, a cell): the target's of the same path."""
        module, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
        if module is None or name is None or not module.startswith("torch"):
            return function
        path = f"{module}.{name}".removeprefix("torch.")
        return resolve(self.target, path, function)

    def function(self, function):
        code, scope = function.__code__, function.__globals__
        scope = {name: self(scope[name]) for name in _global_names(code) if name in scope}
        cells = tuple(types.CellType(self(cell.cell_contents)) for cell in function.__closure__ or ())
        defaults = tuple(map(self, function.__defaults__)) if function.__defaults__ else None
        copy = types.FunctionType(code, scope, function.__name__, defaults, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        return copy


def _late_method(name):
    return lambda input, *args, **kwargs: getattr(input, name)(*args, **kwargs)


def _global_names(code):
    """Names that `code`, or a function defined inside it, may look up as globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
