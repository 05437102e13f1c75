"""How many floating point operations an op takes, by the shapes of its arguments, and formulas for further ops."""

from __future__ import annotations

import functools
import math

from plugrad import Tensor, nest, ops
from plugrad.library import is_packet

flop_registry: dict = {}  # op -> f(*args, out_val=result, **kwargs)


def get_shape(i):
    """Return the shape of a tensor; anything else as it is."""
    return i.shape if isinstance(i, Tensor) else i


def shape_wrapper(f):
    """Return a formula of tensors from one of shapes.

    It gets that of the result as `out_shape`.
    """

    @functools.wraps(f)
    def wrapped(*args, out_val=None, **kwargs):
        args, kwargs, out_shape = nest.change(get_shape, [list(args), kwargs, out_val])
        return f(*args, out_shape=out_shape, **kwargs)

    return wrapped


def register_flop_formula(targets, get_raw=False):
    """Return a decorator that makes a function the formula of some ops.

    For counters made from then on.

    Args:
        targets: an op, such as `torch.ops.aten.exp` or `torch.ops.mylib.foo`, or a list of them.
        get_raw: whether the function gets tensors, and the result as `out_val`; else it gets shapes, and `out_shape`.

    Raises ValueError for what is no such op, RuntimeError for one that has a formula.

    >>> import plugrad as torch
    >>> @torch.utils.flop_counter.register_flop_formula(torch.ops.aten.digamma)
    ... def digamma_flop(shape, out_shape=None):
    ...     return 20 * shape.numel()
    >>> with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
    ...     y = torch.digamma(torch.ones(3))
    >>> counter.get_total_flops()
    60
    """

    def register(formula):
        formula = formula if get_raw else shape_wrapper(formula)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not is_packet(target):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}: give another one as custom_mapping")
            flop_registry[target] = formula
        return formula

    return register


# ---------------------------------------------------------------------------------------------------- products


@register_flop_formula(ops.aten.mm)
def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs) -> int:
    """Return the operations of a product: a multiplication and an addition a pair."""
    (rows, inner), (same, columns) = a_shape, b_shape
    _must_agree("mm", inner == same, a_shape, b_shape)
    return 2 * rows * inner * columns


@register_flop_formula(ops.aten.addmm)
def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs) -> int:
    """Return the operations of `addmm`: those of its product."""
    return mm_flop.__wrapped__(a_shape, b_shape)


@register_flop_formula(ops.aten.bmm)
def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs) -> int:
    """Return the operations of the products of two batches of matrices."""
    _must_agree("bmm", a_shape[0] == b_shape[0], a_shape, b_shape)
    return a_shape[0] * mm_flop.__wrapped__(a_shape[1:], b_shape[1:])


@register_flop_formula(ops.aten.baddbmm)
def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs) -> int:
    """Return the operations of `baddbmm`: those of its products."""
    return bmm_flop.__wrapped__(a_shape, b_shape)


def _must_agree(name, agree, *shapes) -> None:
    if not agree:
        raise AssertionError(f"{name}_flop: shapes do not go together: {[list(shape) for shape in shapes]}")


# ---------------------------------------------------------------------------------------------------- convolutions


def conv_flop_count(x_shape, w_shape, out_shape, transposed=False) -> int:
    """Return the operations of a convolution.

    Each place of the result, or of the input if transposed, by the filter.

    >>> conv_flop_count((2, 3, 8, 8), (4, 3, 3, 3), (2, 4, 6, 6))
    15552
    """
    places = (x_shape if transposed else out_shape)[2:]
    return 2 * x_shape[0] * math.prod(places) * math.prod(w_shape)


@register_flop_formula(ops.aten.convolution)
def conv_flop(
    x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, *args, out_shape=None, **kwargs
) -> int:  # fmt: skip
    """Return the operations of `convolution`."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


@shape_wrapper
def conv_backward_flop(
    grad_out_shape, x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, _output_padding, _groups,
    output_mask, out_shape, **kwargs,
) -> int:  # fmt: skip
    """Return the operations of a convolution's gradients that are wanted.

    To its input and its filter.

    The former is a convolution of the other kind, the latter one in which batch and channels have changed places.
    """
    flops = 0
    if output_mask[0]:
        flops += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        pair = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        flops += conv_flop_count(*map(_exchanged, (*pair, out_shape[1])))
    return flops


def _exchanged(shape) -> list:
    return [shape[1], shape[0], *shape[2:]]


# ---------------------------------------------------------------------------------------------------- attention


def sdpa_flop_count(query_shape, key_shape, value_shape) -> int:
    """Return the operations of attention: scores, and the sum of values.

    >>> sdpa_flop_count((2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4))
    1600
    """
    batch, heads, places, width = query_shape
    same = batch == key_shape[0] and tuple(key_shape[:3]) == tuple(value_shape[:3]) and width == key_shape[3]
    shares = heads >= key_shape[1] and heads % key_shape[1] == 0  # queries of several heads may share a key's
    _must_agree("sdpa", same and shares, query_shape, key_shape, value_shape)
    return 2 * batch * heads * places * key_shape[2] * (width + value_shape[3])


def sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape) -> int:
    """Return the operations of the gradients of attention.

    The scores are computed again in it.
    """
    forward = sdpa_flop_count(query_shape, key_shape, value_shape)
    expected = (*query_shape[:3], value_shape[3])
    _must_agree("sdpa_backward", tuple(grad_out_shape) == tuple(expected), grad_out_shape, query_shape, value_shape)
    scores = math.prod(query_shape[:3]) * key_shape[2]
    return 2 * forward + 2 * scores * query_shape[3]
