"""`torch._dynamo`, by which programs and libraries talk to PyTorch's compiler: names of `torch.compiler`, and errors.

Functions run as Python runs them until a compiler of a plugin takes them (`torch.compile`), so that marks on functions
and tensors give what they were given back.
"""

from __future__ import annotations

from plugrad import absent, compile
from plugrad.compiler import (
    OptimizedModule,
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    nested_compile_region,
    reset,
    set_stance,
    substitute_in_graph,
)

__all__ = [
    "BackendCompilerFailed", "InternalTorchDynamoError", "OptimizedModule", "RecompileLimitExceeded",
    "TorchDynamoException", "TorchRuntimeError", "Unsupported", "UserError", "allow_in_graph",
    "assume_constant_result", "disable", "disallow_in_graph", "forbid_in_graph", "graph_break",
    "is_compile_supported", "is_compiling", "is_dynamo_supported", "is_inductor_supported", "list_backends",
    "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "nested_compile_region", "optimize",
    "reset", "reset_code_caches", "set_stance", "substitute_in_graph",
]  # fmt: skip

__path__ = []  # below it are `config` and modules that are not there
__getattr__ = absent.attributes("_dynamo")


class TorchDynamoException(RuntimeError):
    """What PyTorch's compiler raises; programs catch it, and nothing here raises it."""


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the compiler itself."""


class Unsupported(TorchDynamoException):
    """Code that the compiler does not take."""


class TorchRuntimeError(TorchDynamoException):
    """An error of an op while the program is read."""


class BackendCompilerFailed(TorchDynamoException):
    """The compiler behind the graph failed."""


class RecompileLimitExceeded(Unsupported):
    """A function was compiled too often."""


class UserError(Unsupported):
    """Code that the user has to change."""


def optimize(backend="inductor", **options):
    """Return a decorator that compiles: `torch.compile`, under its first name."""

    def decorator(function):
        return compile(function, backend=backend, **options)

    return decorator


def disallow_in_graph(fn):
    """Return the function: it runs as it is written, in a graph or not."""
    return fn


forbid_in_graph = disallow_in_graph


def graph_break(msg="") -> None:
    """Accepted: a graph is of one call, and what is between ops runs as Python."""


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None) -> None:
    """Accepted: each signature of sizes is compiled of its own."""


def maybe_mark_dynamic(t, index) -> None:
    """Accepted: each signature of sizes is compiled of its own."""


def mark_static(t, index=None) -> None:
    """Accepted: each signature of sizes is compiled of its own."""


def mark_static_address(t, guard=True) -> None:
    """Accepted: tensors are not moved, and no graph of CUDA's holds their addresses."""


def reset_code_caches() -> None:
    """Accepted: what was compiled belongs to its functions, and goes with them."""


def is_dynamo_supported() -> bool:
    """Return True: `torch.compile` takes every program."""
    return True


def is_compile_supported(device_type) -> bool:
    """Return True: `torch.compile` takes programs on every device."""
    return True


def is_inductor_supported() -> bool:
    """Return False: PyTorch's code generator is not here."""
    return False
