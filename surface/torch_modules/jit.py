"""`torch.jit`: programs run as they are written, so what compiles gives the function or module back unchanged."""

from __future__ import annotations

import contextlib
import copy
import typing
import warnings
from collections import namedtuple

import plugrad
from plugrad import absent, nn
from plugrad.nest import leaves

__all__ = [
    "Attribute", "Error", "Future", "ScriptModule", "annotate",
    "enable_onednn_fusion", "export", "fork", "freeze", "ignore", "interface", "isinstance",
    "is_scripting", "is_tracing",
    "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "run_frozen_optimizations",
    "script", "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion",
    "trace", "trace_module", "unused", "wait", "TracerWarning", "Final",
]  # fmt: skip

_isinstance = isinstance
Final = typing.Final
Attribute = namedtuple("Attribute", ["value", "type"])
Attribute.__doc__ = "A value of a module and its type, for classes that are scripted."

__path__ = []  # `jit.annotations` is below it
__getattr__ = absent.attributes("jit")


class Error(RuntimeError):
    """What TorchScript raises; nothing here does."""


class TracerWarning(Warning):
    """A traced function does not do the same each time that it is called."""

    @classmethod
    def ignore_lib_warnings(cls) -> None:
        """Ignore such warnings where they come from libraries."""
        warnings.filterwarnings("ignore", category=cls, module="torch.(?!jit)")


class ScriptModule(nn.Module):
    """A Module whose methods would be compiled; here an ordinary one."""


def script_method(fn):
    """Return the method: it runs as it is written."""
    return fn


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Return the function, class or module itself: it runs as it is written.

    >>> import plugrad as torch
    >>> @torch.jit.script
    ... def double(x):
    ...     return 2 * x
    >>> double(torch.ones(1)), torch.jit.is_scripting()
    (tensor([2.]), False)
    """
    return obj


def trace(
    func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
    _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True,
):  # fmt: skip
    """Run a function or module on examples, twice to see whether it does the same, and return it unchanged.

    Args:
        func: a function or Module of tensors.
        example_inputs: a tensor, or a tuple of arguments.
        check_trace: whether to run it again; a TracerWarning says where the results differ.
        check_tolerance: the relative difference that does not count.
        example_kwarg_inputs: a dict of arguments by name, instead of `example_inputs`.

    Other arguments have no meaning without a compiler.
    """
    args, kwargs = _arguments(example_inputs), dict(example_kwarg_inputs or {})
    state = copy.deepcopy(func.state_dict()) if _isinstance(func, nn.Module) else None
    with plugrad.random.fork_rng(devices=[]), plugrad.no_grad():
        first = func(*args, **kwargs)
        if check_trace and not _same(first, func(*args, **kwargs), check_tolerance):
            warnings.warn(
                "the function that is traced gives other results when it is called again: it is random, as dropout in "
                "training is, or has a state. It runs as it is written",
                TracerWarning,
                stacklevel=2,
            )
    if state is not None:  # as statistics of batches: PyTorch's tracing leaves a trace of its runs there
        func.load_state_dict(state)
    return func


def _arguments(inputs) -> tuple:
    if inputs is None:
        return ()
    return tuple(inputs) if _isinstance(inputs, (tuple, list)) else (inputs,)


def _same(first, second, tolerance) -> bool:
    ones, others = ([x for x in leaves(value) if _isinstance(x, plugrad.Tensor)] for value in (first, second))
    return len(ones) == len(others) and all(
        one.shape == other.shape and plugrad.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
        for one, other in zip(ones, others)
    )


def trace_module(mod, inputs, *args, **kwargs):
    """Run the named methods of a Module on examples, as `trace` does, and return it unchanged.

    Args:
        mod: the Module.
        inputs: {name of a method: its example inputs}.
    """
    for name, examples in inputs.items():
        trace(mod if name == "forward" else getattr(mod, name), examples, *args, **kwargs)
    return mod


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """Return the Module, which must be in eval mode, unchanged."""
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode; call .eval() first")
    return mod


def optimize_for_inference(mod, other_methods=None):
    """Return the Module itself, in eval mode."""
    return mod.eval()


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None) -> None:
    """Accepted: there is nothing to optimize."""


def ignore(drop=False, **kwargs):
    """Return the function: every function runs as it is written. With or without arguments, as a decorator."""
    return drop if callable(drop) else _unchanged


def _unchanged(value):
    return value


unused = export = interface = script_if_tracing = _overload = _overload_method = _unchanged


def is_scripting() -> bool:
    """Always False."""
    return False


def is_tracing() -> bool:
    """Always False: while `trace` runs a function nothing is recorded of it."""
    return False


def annotate(the_type, the_value):
    """Return the value."""
    return the_value


def isinstance(obj, target_type) -> bool:
    """Whether an object is of a type, which may be one of `typing`'s for lists, dicts, tuples and optional values."""
    origin, arguments = typing.get_origin(target_type), typing.get_args(target_type)
    if _isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    if target_type is None:
        return obj is None
    if origin is None:
        return _isinstance(obj, target_type)
    if not _isinstance(origin, type) or origin.__name__ == "UnionType":  # Optional and Union
        return any(isinstance(obj, one) for one in arguments)
    if not _isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(k, arguments[0]) and isinstance(v, arguments[1]) for k, v in obj.items())
    if origin is tuple and Ellipsis not in arguments:
        return len(obj) == len(arguments) and all(map(isinstance, obj, arguments))
    return all(isinstance(item, arguments[0]) for item in obj)


class Future:
    """The result of a call that `fork` has carried out."""

    def __init__(self, value):
        self._value = value

    def wait(self):
        """Return the result."""
        return self._value

    value = wait

    def done(self) -> bool:
        """Always True."""
        return True


def fork(func, *args, **kwargs) -> Future:
    """Call the function now, and return its result as a `Future`."""
    return Future(func(*args, **kwargs))


def wait(future):
    """Return the result of a `Future`."""
    return future.wait()


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """A context without effect: nothing is optimized."""
    yield


class strict_fusion(contextlib.nullcontext):
    """A context without effect: no ops are fused."""


def set_fusion_strategy(strategy) -> list:
    """Accepted: no ops are fused. Returns the strategy before, an empty list."""
    return []


def enable_onednn_fusion(enabled) -> None:
    """Accepted: no ops are fused."""


def onednn_fusion_enabled() -> bool:
    """Always False."""
    return False
