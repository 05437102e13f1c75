"""`torch._foreach_NAME`: an op on each tensor of a list, as optimizers of third parties call it.

Each function is derived from the op of that name: lists go along, numbers are for all tensors, lists of numbers one for
each. Those that end in `_` write in place.
"""

from __future__ import annotations

import functools
import itertools
import operator

import plugrad
from plugrad import Tensor
from plugrad.extend import held_back

_UNARY = frozenset(
    "abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal "
    "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero".split()
)
_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "pow": "pow", "maximum": "maximum", "minimum": "minimum",
    "clamp_max": "clamp_max", "clamp_min": "clamp_min", "copy": "copy", "mm": "mm",
}  # fmt: skip
_TERNARY = frozenset({"addcmul", "addcdiv", "lerp"})


def _lists(name, *values):
    """Return sequences of tensors as lists; the error that says what is wrong with them."""
    for value in values:
        if not isinstance(value, (tuple, list)) or not all(isinstance(one, Tensor) for one in value):
            raise TypeError(f"{name}() takes lists of Tensors, not {type(value).__name__}")
    if not values[0]:
        raise RuntimeError(f"{name}(): Tensor list must have at least one tensor.")
    for other in values[1:]:
        if len(other) != len(values[0]):
            raise RuntimeError(
                f"{name}(): Tensor lists must have the same number of tensors, got {len(values[0])} and {len(other)}"
            )
    return [list(value) for value in values]


def _one_for_each(name, tensors, value):
    """Return an iterable with a tensor or number for each tensor: out of one for all, or of a list."""
    if isinstance(value, (tuple, list)):
        if len(value) != len(tensors):
            raise RuntimeError(
                f"{name}(): Tensor list must have same number of elements as scalar list, got {len(tensors)} and "
                f"{len(value)}"
            )
        return value
    return itertools.repeat(value, len(tensors))


def _unary(name, own):
    def function(self):
        (tensors,) = _lists(name, self)
        return [operator.methodcaller(own)(tensor) for tensor in tensors]

    return function


_ONE_TENSOR = frozenset({"add", "mul", "div"})  # take a tensor without dimensions in the place of a number
_WITH_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _operand(name, base, other):
    """Return what stands beside the list: a number, a tensor without dimensions, or a list of one kind."""
    if isinstance(other, (tuple, list)):
        for number, one in enumerate(other):
            if not isinstance(one, Tensor) and (isinstance(other[0], Tensor) or base in ("copy", "mm")):
                kind = type(one).__name__
                raise TypeError(f"{name}(): expected Tensor as element {number} in argument 1, but got {kind}")
            if isinstance(one, Tensor) != isinstance(other[0], Tensor):
                raise TypeError(f"{name}(): expected a number as element {number} in argument 1, but got Tensor")
        return other
    if isinstance(other, Tensor) and base in _ONE_TENSOR:
        if other.ndim:
            raise RuntimeError(
                f"{name}(): scalar tensor expected to be 0 dim but it has {other.ndim} dimensions and {other.numel()} "
                "elements; write a list with a tensor for each"
            )
    elif isinstance(other, Tensor) and not other.ndim and base not in ("copy", "mm"):
        return other.item()
    elif isinstance(other, Tensor) or base in ("copy", "mm"):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (list, {type(other).__name__}): write a list "
            "with a tensor for each" + ("" if base in ("copy", "mm") else ", or a number")
        )
    return other


def _binary(name, own):
    base = own.removesuffix("_")

    def apply(tensor, other, **options):
        if base not in _WITH_NUMBERS:
            return getattr(tensor, own)(other, **options)
        if not isinstance(other, Tensor):
            if tensor.requires_grad and tensor.is_floating_point() and own == base:  # half of it where they are equal
                return getattr(tensor, base)(plugrad.tensor(other, dtype=tensor.dtype, device=tensor.device))
            return getattr(tensor, _WITH_NUMBERS[base] + own[len(base) :])(other)
        result = getattr(tensor, base)(other)
        if own == base:
            return result
        if not plugrad.can_cast(result.dtype, tensor.dtype):
            raise RuntimeError(
                f"{name}(): result type {result.dtype} can't be cast to the desired output type {tensor.dtype}"
            )
        return tensor.copy_(result)

    def function(self, other, non_blocking=False, *, alpha=1):
        options = {} if alpha == 1 else {"alpha": alpha}
        if not isinstance(self, (tuple, list)) and own == "pow":
            (exponents,) = _lists(name, other)
            return [plugrad.pow(self, exponent) for exponent in exponents]
        (tensors,) = _lists(name, self)
        each = _one_for_each(name, tensors, _operand(name, base, other))
        return [apply(t, o, **options) for t, o in zip(tensors, each)]

    return function


def _numbers(name, packed, lerp) -> list:
    """Return the numbers that a tensor has for each tensor of the lists; the error where it can have none."""
    if lerp:
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (list, list, Tensor): write a number, or a "
            "list with one for each"
        )
    if packed.ndim != 1 or not packed.is_contiguous():
        raise RuntimeError(
            f"{name}(): numbers in a tensor are expected to be contiguous and of dimension 1, and these have "
            f"{packed.ndim} dimensions and steps of {packed.stride()}: write value.flatten(), or a number for all"
        )
    return packed.tolist()


def _ternary(name, own):
    def function(self, tensors1, *rest, value=None, scalars=None, weight=None, weights=None):
        lerp = own.startswith("lerp")
        if not rest and (not lerp or weight is weights is None):
            wanted = "two lists of Tensors and weights" if lerp else "three lists of Tensors, and numbers"
            given = f"{type(self).__name__}, {type(tensors1).__name__}"
            raise TypeError(f"{name}() received an invalid combination of arguments - got ({given}): it takes {wanted}")
        if lerp:
            ((last,), others) = (rest or (weight if weights is None else weights,), (tensors1,))
        else:
            others, last = (tensors1, rest[0]), (value if scalars is None else scalars) if len(rest) < 2 else rest[1]
            last = 1 if last is None else last
        if isinstance(last, Tensor) and (last.ndim or not lerp):
            last = _numbers(name, last, lerp)
        tensors, *others = _lists(name, self, *others)
        each = zip(tensors, *others, _one_for_each(name, tensors, last))
        if lerp:
            return [getattr(t, own)(end, by) for t, end, by in each]
        return [getattr(t, own)(a, b, value=by) for t, a, b, by in each]

    return function


def _norm(self, ord=2, dtype=None):
    (tensors,) = _lists("_foreach_norm", self)
    return tuple([plugrad.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in tensors])


def _powsum(self, ord=2, dtype=None):
    (tensors,) = _lists("_foreach_powsum", self)
    return tuple([tensor.abs().pow(ord).sum(dtype=dtype) for tensor in tensors])


def _max(self):
    (tensors,) = _lists("_foreach_max", self)
    return tuple([tensor.max() for tensor in tensors])


@functools.cache
def function(name: str):
    """Return the function `torch.NAME`, None where PyTorch has none.

    >>> import plugrad as torch
    >>> torch._foreach_add([torch.ones(2), torch.ones(1)], [1, 2])
    (tensor([2., 2.]), tensor([3.]))
    """
    own = name.removeprefix("_foreach_")
    base = own.removesuffix("_")
    special = {"_foreach_norm": _norm, "_foreach_powsum": _powsum, "_foreach_max": _max}
    if base in _UNARY and own not in ("zero", "clone_"):
        made_of = _unary(name, own)
    elif base in _BINARY and own not in ("copy", "mm_"):
        made_of = _binary(name, _BINARY[base] + own[len(base) :])
    elif base in _TERNARY:
        made_of = _ternary(name, own)
    elif name in special:
        made_of = special[name]
    else:
        return None

    @functools.wraps(made_of)
    def foreach(self, *args, **kwargs):
        if not name.endswith("_"):
            return tuple(made_of(self, *args, **kwargs))
        with held_back():  # all tensors are written, or none
            made_of(self, *args, **kwargs)
        return self

    foreach.__name__ = foreach.__qualname__ = name
    foreach.__doc__ = f"Call `{own}` for each tensor of a list."
    return foreach
