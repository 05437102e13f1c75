"""How functions and types are called in printed graphs and generated code, and names that are unique there."""

from __future__ import annotations

import builtins
import inspect
import keyword
import math
import re
import types

import plugrad
from plugrad import Tensor
from plugrad.utils import _pytree as pytree

# Where PyTorch has its C++ functions, whose places graphs show, and what is written in Python in `torch.functional`.
_IN_C = frozenset(
    (
        "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention "
        "softplus softshrink"
    ).split()
)
_IN_TORCH = frozenset(
    (
        "adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d "
        "conv_transpose2d conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist "
        "pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ threshold_"
    ).split()
)
_IN_FUNCTIONAL = frozenset(
    (
        "atleast_1d atleast_2d atleast_3d broadcast_tensors cartesian_prod block_diag cdist chain_matmul einsum istft "
        "lu norm meshgrid pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive"
    ).split()
)


def as_torch(module: str) -> str:
    """Return a module's name as a program writes it: plugrad is `torch` there."""
    own = re.sub(r"^plugrad(?=\.|$)", "torch", module)
    return "torch.nn.modules" if own.startswith("torch.plugins.layers") else own


def is_of_python(func) -> bool:
    """Whether PyTorch's function is written in Python: graphs show all of its arguments."""
    home, name = as_torch(func.__module__ or ""), func.__name__
    return home == "torch.nn.functional" and name not in _IN_C | _IN_TORCH


def qualified_name(func) -> str:
    """Return the dotted name under which generated code finds a function.

    >>> import plugrad as torch
    >>> qualified_name(torch.flatten), qualified_name(torch.nn.functional.relu), qualified_name(getattr)
    ('torch.flatten', 'torch.nn.functional.relu', 'getattr')
    """
    name = getattr(func, "__name__", type(func).__name__)
    if getattr(builtins, name, None) is func:
        return name
    if isinstance(func, type) and getattr(plugrad, name, None) is func:
        return f"torch.{name}"
    if "." not in name and func is inspect.getattr_static(Tensor, name, None) and not hasattr(func, "__op__"):
        return f"torch.Tensor.{name}"
    if name == "<lambda>":
        try:
            name = inspect.getsource(func).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    module = as_torch(getattr(func, "__module__", None) or "")
    if module == "torch.nn.functional" and name in _IN_C:
        return f"torch._C._nn.{name}"
    if module == "torch.nn.functional" and name in _IN_TORCH and hasattr(plugrad, name):
        return f"torch.{name}"
    if module == "torch" and name in _IN_FUNCTIONAL:
        return f"torch.functional.{name}"
    return f"{module}.{name}"


def is_from_torch(value) -> bool:
    """Whether generated code reaches a value by its name below `torch`."""
    if isinstance(value, types.ModuleType):
        return False
    module = getattr(value, "__module__", None)
    if module is None:
        name = getattr(value, "__name__", None)
        return any(getattr(home, str(name), None) is value for home in (plugrad, plugrad.nn.functional))
    if module.partition(".")[0] not in ("plugrad", "torch"):
        return False
    place = plugrad
    for part in qualified_name(value).split(".")[1:]:
        place = getattr(place, part, None)
    return place is value or isinstance(place, type(value)) and getattr(place, "__name__", "") == value.__name__


def type_name(value) -> str:
    """Return a type as annotations in generated code show it."""
    if isinstance(value, type) and not isinstance(value, types.GenericAlias):
        if value.__module__ == "builtins":
            return value.__qualname__
        home = "torch" if getattr(plugrad, value.__name__, None) is value else as_torch(value.__module__)
        return f"{home}.{value.__qualname__}"
    if value is ...:
        return "..."
    return value.__name__ if isinstance(value, types.FunctionType) else repr(value).replace("plugrad.", "torch.")


def snake_case(name: str) -> str:
    """Return a name as variables are written: `pascalCase` is `pascal_case`."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


class Builtin:
    """A value whose `repr` is not Python without an import: generated code finds it as a global."""

    def __init__(self, import_str, obj):
        self.import_str, self.obj = import_str, obj


custom_builtins: dict[str, Builtin] = {
    "inf": Builtin("from math import inf", math.inf),
    "nan": Builtin("from math import nan", math.nan),
    "NoneType": Builtin("NoneType = type(None)", type(None)),
    "torch": Builtin("import plugrad as torch", plugrad),
    "device": Builtin("from plugrad import device", plugrad.device),
    "fx_pytree": Builtin("import plugrad.fx._pytree as fx_pytree", None),
    "pytree": Builtin("import plugrad.utils._pytree as pytree", pytree),
}
_TAKEN = {**dict.fromkeys(keyword.kwlist, object()), **vars(builtins)}


class Namespace:
    """Names that are given once, one for each object."""

    def __init__(self):
        self._names: dict = {}
        self._used: set[str] = set()
        self._count: dict[str, int] = {}

    def create_name(self, candidate: str, obj=None) -> str:
        """Return a name like the candidate that no other object has, and that hides none of Python's own."""
        if obj is not None and obj in self._names:
            return self._names[obj]
        candidate = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
        base, number = re.match(r"(.*?)(?:_(\d+))?$", candidate).groups()
        if not base:
            base, number = candidate, None
        if number is None or candidate in self._used:
            count = self._count.get(base, 0)
            if self._hides(candidate, obj):
                count += 1
                candidate = f"{base}_{count}"
        else:
            count = int(number)
        while candidate in self._used:
            count += 1
            candidate = f"{base}_{count}"
        self._used.add(candidate)
        self._count[base] = count
        if obj is not None:
            self._names[obj] = candidate
        return candidate

    @staticmethod
    def _hides(candidate, obj) -> bool:
        if candidate in custom_builtins:
            return custom_builtins[candidate].obj is not obj
        return _TAKEN.get(candidate, obj) is not obj

    def associate_name_with_obj(self, name: str, obj) -> None:
        """Note which object has a name."""
        self._names.setdefault(obj, name)
