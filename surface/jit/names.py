"""Names of what staged programs call: ops of the registry, methods of tensors, and a closed list of Python's own.

A program, also one of a file, calls nothing that this module does not give it: a name is looked up in namespaces of
ops, and what is found there must be an op, or stand in a list here.
"""

from __future__ import annotations

import functools
import inspect
import math
import types

import plugrad
from plugrad import Tensor, registry
from plugrad.jit.numbers import MATH
from plugrad.jit.primitives import PRIMITIVES
from plugrad.jit.types import ANY, BOOL, FLOAT, INT, NUMBER, STR, TENSOR, list_of, optional, tuple_of
from plugrad.native import inner_op

__all__ = ["ATTRIBUTES", "draws", "function", "name_of", "result_type", "signature"]

HOMES = {  # where names of ops are looked up, and what Python calls these modules
    f"torch{path}": f"plugrad{path}" for path in ("", ".nn.functional", ".linalg", ".fft", ".special", ".nn.init")
}
_FUNCTIONS = frozenset(
    "as_tensor broadcast_shapes can_cast detach get_default_dtype get_device initial_seed is_complex is_floating_point "
    "is_grad_enabled is_nonzero is_same_size is_signed is_tensor manual_seed numel promote_types result_type seed "
    "tensor is_inference is_conj is_neg".split()
)
_METHODS = frozenset(
    "backward coalesce detach dim element_size get_device is_complex is_contiguous is_conj is_floating_point "
    "is_inference "
    "is_neg is_nonzero is_same_size is_signed item ndimension nelement numel requires_grad_ size storage_offset stride "
    "tolist to_sparse values indices is_coalesced sparse_dim dense_dim dim_order".split()
)
_NO_METHODS = frozenset("apply_ map_ map2_ set_ share_memory_ sparse_resize_ "
                        "sparse_resize_and_clear_ resize_as_sparse_".split())  # fmt: skip
ATTRIBUTES = {
    **dict.fromkeys("T mT H mH data real imag".split(), TENSOR), "grad": optional(TENSOR), "shape": list_of(INT),
    **dict.fromkeys("ndim itemsize nbytes".split(), INT), "dtype": ANY, "device": ANY, "layout": ANY,
    **dict.fromkeys("requires_grad is_cuda is_cpu is_sparse is_leaf is_meta is_quantized is_nested".split(), BOOL),
}  # fmt: skip
DEVICE_ATTRIBUTES = {"type": STR, "index": optional(INT)}

_LIST = "append extend insert pop remove reverse sort clear copy index count".split()
_DICT = "keys values items get pop setdefault update clear copy".split()
_STR = (
    "upper lower split rsplit splitlines strip lstrip rstrip startswith endswith join replace find rfind index count "
    "isdigit isalpha isalnum isupper islower isspace istitle title capitalize swapcase zfill ljust rjust center "
    "partition rpartition expandtabs isdecimal isnumeric isidentifier isprintable casefold"
).split()
OF_PYTHON = {
    **{f"list.{name}": getattr(list, name) for name in _LIST},
    **{f"dict.{name}": getattr(dict, name) for name in _DICT},
    **{f"str.{name}": getattr(str, name) for name in _STR},
    **{
        f"math.{name}": MATH.get(name, getattr(math, name)) for name in dir(math)
        if callable(getattr(math, name)) and not name.startswith("_")
    },
}  # fmt: skip
_STR_TYPES = {
    **dict.fromkeys("split rsplit splitlines".split(), list_of(STR)),
    **dict.fromkeys("find rfind index count".split(), INT),
    **dict.fromkeys("partition rpartition".split(), tuple_of(STR, STR, STR)),
}
_MATH_INT = frozenset("floor ceil gcd factorial isqrt comb perm lcm trunc".split())
_MATH_BOOL = frozenset("isnan isinf isfinite isclose".split())


@functools.lru_cache(maxsize=4096)
def function(name: str):
    """Return the function that a name of a program means; LookupError if programs may not call such a thing."""
    if name in OF_PYTHON:
        return OF_PYTHON[name]
    home, _, own = name.rpartition(".")
    if home == "prim" and own in PRIMITIVES:
        return PRIMITIVES[own]
    if own.startswith("_") and not own.startswith("__") and own.isidentifier() and home in HOMES:
        callee = getattr(plugrad, own, None) if home == "torch" else None  # ops only: `torch._standard_gamma`
        if hasattr(callee, "__op__"):
            return callee
    elif own.isidentifier() and own.isascii() and not own.startswith("_"):
        if home == "Tensor":
            callee = _method(own)
        elif home in HOMES:
            callee = _function(home, own)
        else:
            callee = _of_library(home, own)
        if callee is not None:
            return callee
    raise LookupError(name)


def _method(own):
    callee = getattr(Tensor, own, None)
    if not callable(callee) or own in _NO_METHODS or isinstance(callee, type) or getattr(callee, "_is_absent", False):
        return None
    return callee if hasattr(callee, "__op__") or own in _METHODS or own.endswith("_") else None


def _function(home, own):
    callee = getattr(functools.reduce(getattr, home.split(".")[1:], plugrad), own, None)
    if not callable(callee) or isinstance(callee, type):
        return None
    allowed = hasattr(callee, "__op__") or home == "torch.nn.init" or home == "torch" and own in _FUNCTIONS
    if not allowed and own.endswith("_") and home == "torch" and _method(own) is not None:
        return callee
    return callee if allowed else None


def _of_library(home, own):
    """Return an op that a program or package made by `torch.library`: `torch.ops.NAMESPACE.NAME`."""
    start, _, space = home.rpartition(".")
    if start != "torch.ops" or not space.isidentifier() or space.startswith("_"):
        return None
    namespace = getattr(plugrad.ops, space, None)
    if not isinstance(namespace, types.ModuleType):  # something that the module of the namespaces has itself
        return None
    if space == "aten" and own not in registry.ops and inner_op(own) is None and _method(own) is None:
        return None  # a method of tensors that is no op
    callee = getattr(namespace, own, None)
    return callee if callable(callee) and not isinstance(callee, type) else None


def name_of(value, module=None, attribute=None) -> str | None:
    """Return the name of a function of plugrad's, None for what programs can't call by name.

    `module` and `attribute` are where a program found it, if it said so.
    """
    homes = {path: name for name, path in HOMES.items()}
    if module in homes:
        return _checked(f"{homes[module]}.{attribute}")
    if str(module).startswith("plugrad.ops."):
        return _checked(f"torch.{module.removeprefix('plugrad.')}.{attribute}")
    qualified = getattr(getattr(value, "_opoverload", value), "name", None)  # of an op that a program made itself
    if isinstance(qualified, str) and "::" in qualified:
        return _checked(f"torch.ops.{qualified.replace('::', '.')}")
    op = getattr(value, "__op__", None)
    names = [f"torch.{name}" if not name.startswith("Tensor.") else name for name in getattr(op, "names", ())]
    own = getattr(value, "__name__", "")
    home = getattr(value, "__module__", "") or ""
    if home.partition(".")[0] == "plugrad" or op is not None:
        names += [f"{name}.{own}" for name in HOMES]
    if home == "math":
        names.append(f"math.{own}")
    for name in names:
        callee = _checked(name)
        if callee is not None and (function(callee) is value or home == "math"):
            return callee
    return next((name for name in names if _checked(name)), None) if op is not None else None


def _checked(name):
    try:
        function(name)
    except LookupError:
        return None
    return name


@functools.lru_cache(maxsize=4096)
def signature(name: str) -> inspect.Signature | None:
    """Return the signature of the function of a name; None if it has none that can be read."""
    try:
        return inspect.signature(function(name))
    except (TypeError, ValueError):
        return None


_DRAWING = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout rrelu rrelu_ "
    "gumbel_softmax scaled_dot_product_attention fractional_max_pool2d fractional_max_pool3d".split()
)


def draws(name: str, trees: list, given: dict) -> bool:
    """Return whether a call of this name draws random numbers, as far as its arguments' trees tell."""
    parameters = getattr(signature(name), "parameters", {})
    if name.rpartition(".")[2] not in _DRAWING:
        return "generator" in parameters
    said = {**dict(zip(parameters, trees)), **given}
    training = [said.get(one, ["const", parameters[one].default]) for one in ("training", "train") if one in parameters]
    return ["const", False] not in training


_TYPES = {
    **dict.fromkeys("dim ndimension numel nelement element_size storage_offset get_device sparse_dim dense_dim "
                    "initial_seed".split(), INT),
    **dict.fromkeys("is_contiguous is_floating_point is_complex is_signed equal allclose is_nonzero is_same_size "
                    "is_grad_enabled is_tensor is_conj is_neg is_inference is_coalesced can_cast".split(), BOOL),
    **dict.fromkeys("chunk split split_with_sizes tensor_split unbind hsplit vsplit dsplit meshgrid broadcast_tensors "
                    "unsafe_chunk unsafe_split unsafe_split_with_sizes gradient".split(), list_of(TENSOR)),
    **dict.fromkeys("var_mean std_mean aminmax frexp lu_factor".split(), tuple_of(TENSOR, TENSOR)),
    "broadcast_shapes": list_of(INT), "dim_order": list_of(INT), "item": NUMBER, "tolist": ANY,
    **dict.fromkeys("get_default_dtype promote_types result_type".split(), ANY),
    "multi_head_attention_forward": tuple_of(TENSOR, optional(TENSOR)),
}  # fmt: skip
_WITH_DIM = frozenset("max min median nanmedian".split())
_MAYBE = {"return_inverse": 1, "return_counts": 1, "return_indices": 1}


def result_type(name: str, types: list, given: dict):
    """Return the type of a call's result.

    Args:
        name: of the function.
        types: those of the arguments by position, for methods the tensor's first.
        given: {name: constant value, or None} of the others.
    """
    home, _, own = name.rpartition(".")
    if home == "math":
        return BOOL if own in _MATH_BOOL else INT if own in _MATH_INT else FLOAT
    if home == "str":
        return _STR_TYPES.get(own, BOOL if own.startswith(("is", "starts", "ends")) else STR)
    if own in ("size", "stride"):
        return INT if len(types) > 1 or given else list_of(INT)
    if own == "where" and len(types) + len(given) == 1 or own == "nonzero" and given.get("as_tuple"):
        return list_of(TENSOR)
    if own.startswith("atleast_") and types and types[0].name == "List":
        return list_of(TENSOR)
    if own in _TYPES:
        return _TYPES[own]
    more = sum(count for option, count in _MAYBE.items() if given.get(option))
    if more:
        return tuple_of(*[TENSOR] * (1 + more))
    fields = getattr(getattr(plugrad.return_types, own, None), "_fields", None)
    if fields and not (own in _WITH_DIM and "dim" not in given and (len(types) < 2 or types[1] != INT)):
        return tuple_of(*[TENSOR] * len(fields), fields=fields)
    return TENSOR
