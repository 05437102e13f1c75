"""Names that PyTorch's modules have because they import them: `torch.math`, `nn.modules.conv._pair`.

Programs take them from there, by hand or because an editor wrote the import.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import numbers
import pathlib
import typing

__all__ = ["find"]

# Python's modules that stand in `torch` itself, and in modules below it.
_TOP = frozenset(
    "builtins ctypes functools glob importlib inspect math os platform sys textwrap threading warnings".split()
)
_MODULES = _TOP | frozenset(
    "abc bisect collections contextlib copy copyreg enum errno io itertools json logging numbers operator pickle queue "
    "random re shutil string struct tempfile types typing uuid weakref zipfile".split()
)
_OF_PYTHON = {
    "Counter": collections.Counter, "Number": numbers.Number, "OrderedDict": collections.OrderedDict,
    "Path": pathlib.Path, "TYPE_CHECKING": False, "chain": itertools.chain, "container_abcs": collections.abc,
    "dataclass": dataclasses.dataclass, "deepcopy": copy.deepcopy, "defaultdict": collections.defaultdict,
    "deque": collections.deque, "islice": itertools.islice, "lru_cache": functools.lru_cache,
    "namedtuple": collections.namedtuple, "partial": functools.partial, "product": itertools.product,
    "repeat": itertools.repeat, "wraps": functools.wraps,
}  # fmt: skip
# PyTorch's own, by where they are here.
_OURS = {
    **{name: f"plugrad.{name}" for name in ("Size", "Tensor", "device", "dtype", "inf", "nan")},
    "F": "plugrad.nn.functional", "torch": "plugrad", "_VF": "plugrad", "np": "numpy",
    "_Reduction": "plugrad.torch_modules.reduction",
    "Function": "plugrad.autograd.Function", "once_differentiable": "plugrad.autograd.function.once_differentiable",
    "Variable": "plugrad.autograd.Variable", "RemovableHandle": "plugrad.graph.hooks.RemovableHandle",
    "PackedSequence": "plugrad.nn.utils.rnn.PackedSequence", "Adam": "plugrad.optim.Adam",
    "ExceptionWrapper": "plugrad.torch_modules.utils.ExceptionWrapper", "Module": "plugrad.nn.Module",
    "Parameter": "plugrad.nn.Parameter", "Dataset": "plugrad.utils.data.Dataset",
    **{name: f"plugrad.nn.init.{name}" for name in ("constant_", "xavier_normal_", "xavier_uniform_")},
    **{name: f"plugrad.overrides.{name}" for name in ("handle_torch_function", "has_torch_function", "is_tensor_like")},
    **{name: f"plugrad.distributions.utils.{name}" for name in (
        "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "euler_constant",
        "tril_matrix_to_vec", "vec_to_tril_matrix", "_standard_normal", "_sum_rightmost",
    )},
    "Distribution": "plugrad.distributions.Distribution",
    "_clipped_sigmoid": "plugrad.distributions.base_transforms.clipped_sigmoid",
    **{name: f"plugrad.torch_modules.types.{name}" for name in ("Device", "_dtype", "_size")},
    **{name: f"plugrad.torch_modules.utils.{name}" for name in (
        "_get_device_index", "_list_with_default", "_ntuple", "_pair", "_quadruple", "_ratio_2_t", "_ratio_3_t",
        "_reverse_repeat_tuple", "_single", "_size_1_t", "_size_2_t", "_size_3_t", "_size_4_t", "_size_6_t",
        "_size_any_t", "_triple",
    )},
}  # fmt: skip


def find(module: str, name: str, at):
    """Return what PyTorch's module borrows under a name, or None; `at` returns what a dotted name means.

    >>> import plugrad as torch
    >>> from plugrad.nn.modules.conv import _pair, Optional
    >>> _pair(3), torch.math.gcd(4, 6)
    ((3, 3), 2)
    """
    if f"{module}.".startswith("plugrad.ops."):  # whose names are namespaces and ops
        return None
    if name in (_TOP if module == "plugrad" else _MODULES):
        return at(name)
    if module == "plugrad":
        return None
    if name in typing.__all__:
        return getattr(typing, name)
    if name in _OURS:
        home, _, _ = _OURS[name].rpartition(".")
        if home == module:  # it is not there where it should be: that is the error to tell
            return None
        return at(_OURS[name])
    return _OF_PYTHON.get(name)
