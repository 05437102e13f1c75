"""plugrad: tensors and automatic differentiation in which every op is a plugin.

`import plugrad as torch` runs ordinary PyTorch code. The core below knows no mathematics; ops, losses, layers,
optimizers and backends come from plugins, and their names are looked up in the registry when they are first used.
"""

from __future__ import annotations

if __name__ != "plugrad":
    raise ImportError(f"this package is `plugrad`, it can't be imported as {__name__!r}: use the installed name")

import gc as _gc
import math as _math
import sys as _sys
import warnings as _warnings

from plugrad import registry
from plugrad.devices import dtypes
from plugrad.devices.device import device, get_default_device, set_default_device
from plugrad.devices.dtypes import (
    can_cast,
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    promote_types,
    set_default_dtype,
)
from plugrad.graph.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from plugrad.tensor import printing
from plugrad.tensor.description import Size
from plugrad.tensor.layouts import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from plugrad.tensor.printing import set_printoptions
from plugrad.tensor.tensor import Tensor

from plugrad.tensor.creation import (  # isort: skip
    LEGACY_NAMES as _LEGACY_NAMES,
    as_tensor,
    asarray,
    frombuffer,
    from_dlpack,
    from_numpy,
    tensor,
    typed_tensor as _typed_tensor,
)
from plugrad import autograd, return_types
from plugrad.tensor.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from plugrad.tensor.shapes import broadcast_shapes as _broadcast_shapes

__version__ = "0.1.0"

# Kernels compute with infinities and NaNs on purpose, and PyTorch says nothing of them either. A filter for the modules
# that hold kernels costs nothing per call and leaves NumPy's own error state, the user's, alone.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"plugrad\.")

inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None

for _name, _dtype in dtypes.ALL.items():
    if _name not in ("bool", "int", "float"):
        globals()[_name] = _dtype
globals().update(bool=dtypes.bool_, int=dtypes.int32, float=dtypes.float32)
del _name, _dtype

from plugrad.dispatch import kinds as _kinds
from plugrad.dispatch import methods as _methods
from plugrad.registry import loader as _loader
from plugrad.registry.namespaces import Namespaces as _Namespaces
from plugrad.registry.namespaces import namespace_module as _namespace_module

linalg = _namespace_module("linalg", "Linear algebra.")
special = _namespace_module("special", "Special functions.")
fft = _namespace_module("fft", "Discrete Fourier transforms.")
signal = _namespace_module("signal", "Signal processing.")
signal.windows = _namespace_module("signal.windows", "Window functions.")
masked = _namespace_module("masked", "Reductions and normalisations under a mask.")
op_hooks = _namespace_module("op_hooks", "Hooks on ops: timer, memory, nan_finder, call_printer, and third parties'.")
compilers = _namespace_module("compilers", "Compilers, which `compile` takes by name.")
ops = _namespace_module("ops", "Ops of third parties by namespace: plugrad.ops.NAMESPACE.NAME.")
ops.__path__ = []  # so that namespaces can be imported
_sys.meta_path.append(_Namespaces)
registry.declare_kind("compilers", home="compilers")

from plugrad import nn, optim


def is_tensor(obj):
    """Whether an object is a Tensor.

    >>> import plugrad as torch
    >>> torch.is_tensor(torch.ones(2)), torch.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def result_type(tensor1, tensor2):
    """Return the dtype that an operation on the two operands (tensors or numbers) would have.

    >>> import plugrad as torch
    >>> torch.result_type(torch.ones(2, dtype=torch.int32), 1.0)
    torch.float32
    """
    described = []
    for operand in (tensor1, tensor2):
        if isinstance(operand, Tensor):
            described.append((operand.dtype, "dim" if operand.ndim else "zero"))
        else:
            described.append((dtypes.SCALAR[type(operand)], "scalar"))
    return dtypes.result_type(*described)


def broadcast_shapes(*shapes):
    """Return the shape that the shapes broadcast to; RuntimeError when they don't fit.

    >>> import plugrad as torch
    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    return Size(_broadcast_shapes(*((s,) if not isinstance(s, (tuple, list)) else tuple(s) for s in shapes)))


def typename(obj):
    """Return the full name of an object's type; for tensors PyTorch's legacy name, such as 'torch.FloatTensor'."""
    if isinstance(obj, Tensor):
        return obj.type()
    return f"{type(obj).__module__}.{type(obj).__qualname__}"


def is_floating_point(input):
    """Whether a tensor has a floating point dtype."""
    return input.is_floating_point()


def is_complex(input):
    """Whether a tensor has a complex dtype."""
    return input.is_complex()


def numel(input):
    """Return the number of elements of a tensor."""
    return input.numel()


def is_storage(obj):
    """Always False: storages are not objects here."""
    return False


def set_num_threads(n):
    """Set how many threads the BLAS behind NumPy uses; needs threadpoolctl, else does nothing but warn."""
    try:
        import threadpoolctl
    except ImportError:
        import warnings

        warnings.warn("set_num_threads needs `pip install threadpoolctl`; nothing was changed", stacklevel=2)
        return
    threadpoolctl.threadpool_limits(n)


def get_num_threads():
    """Return the number of processors that the BLAS behind NumPy may use."""
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


_TENSOR_FUNCTIONS = frozenset(
    {"detach", "detach_", "get_device", "is_conj", "is_inference", "is_neg", "is_nonzero", "is_same_size", "is_signed"}
)
_SWITCHES = frozenset(
    {
        "are_deterministic_algorithms_enabled",
        "get_float32_matmul_precision",
        "set_float32_matmul_precision",
        "use_deterministic_algorithms",
    }
)
_SUBMODULES = (
    "testing", "extend", "serialization", "cuda", "utils", "backends", "func", "overrides", "random", "compiler", "_C",
)  # fmt: skip
registry.reserve("", (*_TENSOR_FUNCTIONS, *_SWITCHES, *_SUBMODULES, *_LEGACY_NAMES, "save", "load", "compile", "vmap"))


def __getattr__(name):
    # A name that the core does not have: a plugin's, or a module that is imported at first use.
    if name.startswith("__"):
        raise AttributeError(f"module 'plugrad' has no attribute {name!r}")
    if name in ("save", "load"):
        from plugrad import serialization

        value = getattr(serialization, name)
    elif name in _SUBMODULES:
        import importlib

        return importlib.import_module(f"plugrad.{name}")
    elif name in _TENSOR_FUNCTIONS or (name.endswith("_") and not registry.find(name) and hasattr(Tensor, name)):
        value = getattr(Tensor, name)
    elif name in _SWITCHES:
        from plugrad import backends

        value = getattr(backends, name)
    elif name == "compile":
        from plugrad.compiler import compile as value
    elif name == "vmap":
        from plugrad.func import vmap as value
    elif name in _LEGACY_NAMES:
        value = _typed_tensor(name)
    else:
        value = registry.resolve(name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *registry.names_in(""), *_SUBMODULES, *_LEGACY_NAMES, "save", "load", "compile"})


# Last of all, since plugins may use what is above while they are imported. Thousands of small records are made here
# and all of them stay: looking for garbage among them is work in vain.
_collecting = _gc.isenabled()
_gc.disable()
try:
    _loader.discover()
    _loader.load_eager()
finally:
    if _collecting:
        _gc.enable()
