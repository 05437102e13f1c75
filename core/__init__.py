"""plugrad: tensors and automatic differentiation in which every op is a plugin.

`import plugrad as torch` runs ordinary PyTorch code. The core below knows no mathematics; ops, losses, layers,
optimizers and backends come from plugins, and their names are looked up in the registry when they are first used.
"""

from __future__ import annotations

if __name__ != "plugrad":
    raise ImportError(f"this package is `plugrad`, it can't be imported as {__name__!r}: use the installed name")

import math as _math
import sys as _sys
import warnings as _warnings

if "Tensor" not in globals():  # what an import that was broken off, as by Ctrl-C, has left is half of another plugrad
    for _name in [_name for _name in _sys.modules if _name.startswith("plugrad.")]:
        del _sys.modules[_name]

from plugrad.interrupts import uncollected as _uncollected

with _uncollected():
    from plugrad import autograd, registry, return_types
from plugrad.devices import dtypes
from plugrad.devices.device import device, get_default_device, set_default_device
from plugrad.devices.dtypes import can_cast, dtype, get_default_dtype, promote_types, set_default_dtype
from plugrad.graph.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from plugrad.tensor.creation import as_tensor, from_numpy, tensor
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
from plugrad.tensor.random import Generator, manual_seed
from plugrad.tensor.tensor import Tensor

__version__ = "0.1.0"

# Kernels compute with infinities and NaNs on purpose, and PyTorch does not report them either. A filter for the modules
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
from plugrad.registry.namespaces import lazy_names as _lazy_names
from plugrad.registry.namespaces import namespace_module as _namespace_module

linalg = _namespace_module("linalg", "Linear algebra.", {"torch_modules.linalg": "LinAlgError"})
special = _namespace_module("special", "Special functions.")
fft = _namespace_module("fft", "Discrete Fourier transforms.")
signal = _namespace_module("signal", "Signal processing.")
signal.windows = _namespace_module("signal.windows", "Window functions.")
_names = "MaskedTensor as_masked_tensor is_masked_tensor masked_tensor"
masked = _namespace_module("masked", "Reductions and normalisations under a mask.", {"masked_tensors": _names})
op_hooks = _namespace_module("op_hooks", "Hooks on ops: timer, memory, nan_finder, call_printer, and third parties'.")
compilers = _namespace_module("compilers", "Compilers, which `compile` takes by name.")
ops = _namespace_module("ops", "Ops of third parties by namespace: plugrad.ops.NAMESPACE.NAME.")
_sys.meta_path.append(_Namespaces)
registry.declare_kind("compilers", home="compilers")

with _uncollected():
    from plugrad import nn, optim

registry.declare_kind("distributions", home="distributions", base="Distribution")
registry.declare_kind("formats", home="formats", base="Format", named_by="name")
registry.declare_kind("trackers", home="trackers", base="Tracker", named_by="name")

# What stands beside the core, imported when it is first used; all other names are the registry's.
_look_up, __dir__ = _lazy_names(globals(), "", {
    "testing": "", "extend": "", "distributions": "", "cpu": "", "library": "", "utils": "", "overrides": "", "_C": "",
    "formats": "", "trackers": "", "fx": "", "array_api": "", "onnx": "", "cuda": "AcceleratorError OutOfMemoryError",
    "amp": "autocast autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache get_autocast_dtype "
    "is_autocast_cache_enabled is_autocast_enabled set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled",
    "serialization": "save load",
    "sparse": "sparse_bsc sparse_bsc_tensor sparse_bsr sparse_bsr_tensor sparse_compressed_tensor sparse_coo "
    "sparse_coo_tensor sparse_csc sparse_csc_tensor sparse_csr sparse_csr_tensor hspmm smm spmm dsmm hsmm saddmm "
    "resize_as_sparse_ sspaddmm",
    "as_torch": "install_as_torch", "compiler": "compile", "jit": "", "export": "",
    "func": "vmap", "pictures": "draw summary", "limits": "finfo iinfo", "nested": "jagged",
    "interchange": "asarray from_dlpack frombuffer",
    "queries": "broadcast_shapes detach detach_ get_device is_complex is_conj is_floating_point is_inference is_neg "
    "is_nonzero is_same_size is_signed is_storage is_tensor numel result_type typename",
    "autograd.rare.anomaly": "is_anomaly_check_nan_enabled is_anomaly_enabled", "printing": "set_printoptions",
    "random": "default_generator get_rng_state initial_seed seed set_rng_state",
    "backends": "are_deterministic_algorithms_enabled get_float32_matmul_precision get_num_threads "
    "is_warn_always_enabled set_float32_matmul_precision set_num_threads set_warn_always use_deterministic_algorithms",
    "legacy": "BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor "
    "LongTensor ShortTensor eig lstsq matrix_rank set_default_tensor_type solve symeig",
    "storage": "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage "
    "DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage Storage TypedStorage UntypedStorage",
})  # fmt: skip


def __getattr__(name):
    # `plugrad.relu_` is the method of that name.
    if name.endswith("_") and not name.startswith("__") and not registry.find(name) and hasattr(Tensor, name):
        return globals().setdefault(name, getattr(Tensor, name))
    return _look_up(name)


# Last of all, since plugins may use what is above while they are imported.
with _uncollected():
    _loader.discover()
    _loader.load_eager()
