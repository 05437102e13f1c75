"""`torch.jit`: staged programs, which are read from source or traced, kept as data, saved, and run elsewhere.

See docs/staged.md.
"""

from __future__ import annotations

import typing

from plugrad import absent
from plugrad.jit.decorators import (
    Attribute,
    _overload,
    _overload_method,
    annotate,
    enable_onednn_fusion,
    export,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    isinstance,
    onednn_fusion_enabled,
    optimized_execution,
    script_method,
    set_fusion_strategy,
    strict_fusion,
    unused,
)
from plugrad.jit.errors import Error
from plugrad.jit.files import load
from plugrad.jit.freezing import freeze, optimize_for_inference, run_frozen_optimizations
from plugrad.jit.futures import Future, fork, wait
from plugrad.jit.modules import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
)
from plugrad.jit.scripting import CompilationUnit, script, script_if_tracing
from plugrad.jit.traced import TracerWarning
from plugrad.jit.tracing import trace, trace_module
from plugrad.jit.writing import save

__all__ = [
    "_overload", "_overload_method", "Attribute", "CompilationUnit", "Error", "Final", "Future",
    "RecursiveScriptModule", "ScriptFunction", "ScriptModule",
    "TopLevelTracedModule", "TracerWarning", "annotate", "enable_onednn_fusion", "export", "fork", "freeze",
    "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load", "onednn_fusion_enabled",
    "optimize_for_inference", "optimized_execution", "run_frozen_optimizations", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace", "trace_module",
    "unused", "wait",
]  # fmt: skip

Final = typing.Final
_fork, _wait = fork, wait  # as programs called them before they were public
__getattr__ = absent.attributes("jit")
