"""What a plugin imports: the public surface for authors of ops, kernels, losses, layers, optimizers and backends.

Our own plugins import from here and from `plugrad` alone; whatever they can do, any package can.
"""

from __future__ import annotations

from plugrad.devices.backend import Backend
from plugrad.devices.device import type_of
from plugrad.devices.dtypes import from_numpy as dtype_of
from plugrad.devices.dtypes import (
    get_default_dtype,
    is_differentiable,
    is_floating,
    is_half,
    is_integer,
    is_integral,
    is_single_or_double,
)
from plugrad.dispatch.families import binary, composite, elementwise, factory, op, reduction, unary, view
from plugrad.dispatch.formulas import F
from plugrad.dispatch.interception import OpCall
from plugrad.dispatch.kernels import Kernel, kernel_for
from plugrad.dispatch.op import Op
from plugrad.dispatch.source import MISSING as LEFT_OUT
from plugrad.extend.derived import layer, legacy_reduction, loss, loss_modules
from plugrad.extend.formulas import complement, conj, keep_dims, multilinear
from plugrad.extend.hooks import OpHook
from plugrad.extend.new_memory import choose_memory, chosen_memory, locked_if_shared, new_memory
from plugrad.extend.refusals import refuse_outside, refuse_where
from plugrad.extend.scipy_modules import scipy_of
from plugrad.extend.session import register, unregister
from plugrad.extend.symbolic import SymbolicBackend
from plugrad.extend.watched_random import refusing_random, watching_random
from plugrad.interrupts import held_back, process_lock
from plugrad.kernels import in_single, native, native_function
from plugrad.nn.module import Module
from plugrad.nn.parameter import Parameter
from plugrad.optim.lr_scheduler import LRScheduler
from plugrad.optim.optimizer import Optimizer
from plugrad.registry.hookspecs import PLUGRAD_API, hookimpl
from plugrad.registry.namespaces import lazy_names
from plugrad.tensor.indices import is_basic_index, tidy_index
from plugrad.tensor.layouts import is_channels_last
from plugrad.tensor.random import Generator, generator_of, rng
from plugrad.tensor.shapes import axes, broadcast_shapes
from plugrad.tensor.tensor import from_raw, write_out

__all__ = [
    "Backend", "F", "Generator", "Kernel", "LEFT_OUT", "LRScheduler", "Module", "Op", "OpCall", "OpHook",
    "Optimizer", "PLUGRAD_API", "Parameter", "SymbolicBackend", "axes", "binary", "broadcast_shapes",
    "choose_memory", "chosen_memory", "collect", "complement", "composite", "conj", "dtype_of", "elementwise",
    "factory", "from_raw", "generator_of", "get_default_dtype", "held_back", "hookimpl", "in_single",
    "is_basic_index", "is_channels_last", "is_differentiable", "is_floating", "is_half", "is_integer", "is_integral",
    "is_single_or_double", "keep_dims", "kernel_for", "layer", "legacy_reduction", "locked_if_shared", "loss",
    "loss_modules", "multilinear", "native", "native_function", "new_memory", "op", "overridable", "process_lock",
    "reduction", "refuse_outside", "refuse_where", "refusing_random", "register", "rng", "scipy_of", "tidy_index",
    "type_of", "unary", "unregister", "view", "watching_random", "write_out",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(globals(), None, {
    "kernels.loading": "CompilationError", "kernels.inline": "load_inline", "kernels.building": "load_library",
    "overrides": "overridable",
})  # fmt: skip


def collect(kind, namespace: dict) -> list:
    """Return what a module defines of one kind: Ops, Kernels, or a class's subclasses.

    Only what was defined in that module counts, not what it imports.

    >>> from plugrad.extend import Op, collect, unary
    >>> @unary()
    ... def twice(xp, input):
    ...     return 2 * input
    >>> collect(Op, {"twice": twice, "__name__": twice.module})
    [<Op twice (unary)>]
    """
    home = namespace.get("__name__")
    defined = []
    for value in namespace.values():
        if isinstance(value, type):
            if issubclass(value, kind) and value is not kind and value.__module__ == home and value.__name__[0] != "_":
                defined.append(value)
        elif isinstance(value, kind) and getattr(value, "module", home) == home and value not in defined:
            defined.append(value)
    return defined
