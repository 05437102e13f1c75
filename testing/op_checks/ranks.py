"""The check of an op with tensors of other ranks than those of its samples: 0 to 5 dimensions."""

from __future__ import annotations

import plugrad
from plugrad.testing.calls import Skip, by_statement, call, described, each, graded, is_random
from plugrad.testing.op_checks.gradients import assert_right
from plugrad.testing.op_checks.variations import against_meta, against_reference_of
from plugrad.testing.tensors import is_float, tensors_in

RANKS = range(6)


def ranks(op, device):
    """With 0 to 5 dimensions value, meta result and gradient are right, too, or the op refuses them."""
    done, seen = 0, set()
    for label, sample in each(op, device):
        first = next((t for t in sample.args if isinstance(t, plugrad.Tensor) and is_float(t)), None)
        kind = first is not None and (first.ndim, len(sample.args))
        if not kind or kind in seen or sample.through is not None or not all(t.numel() for t in sample.tensors()):
            continue
        seen.add(kind)
        for rank in RANKS:
            if rank != first.ndim:
                for which, given in _of_rank(sample, first, rank):
                    done += _judged(op, given, f"{label}, {which} of {rank} dimensions: {given}")
    if not done:
        raise Skip("it refuses tensors of other ranks than those of its samples")


def _of_rank(sample, first, rank):
    """Yield (which, sample): all of its tensors with as many dimensions more or fewer as the first, or that alone."""
    more = rank - first.ndim
    yield "tensors", sample.map(lambda t: _ranked(t, more))
    if sum(1 for _ in sample.tensors()) > 1:
        yield "the first tensor", sample.map(lambda t: _ranked(t, more) if t is first else t)


def _ranked(tensor, more):
    """Return a tensor with dimensions of size 2 in front, its floats not the same along them, or without the first."""
    plain = tensor.detach()
    for _ in range(more):
        plain = plugrad.stack([plain, plain * 0.97 if is_float(plain) else plain])
    for _ in range(min(-more, plain.ndim)):
        plain = plain[0]
    return plain.clone().requires_grad_(tensor.requires_grad)


def _judged(op, sample, label) -> bool:
    """Judge an op at a sample; return whether it takes that at all."""
    try:
        real = tensors_in(call(op, sample.detached()))
        plain = all(map(is_float, sample.tensors())) and not is_random(op, sample)  # an index may select one row twice
        differentiable = op.differentiable and plain and graded(op, sample)
    except Exception:  # however it comes about: no result is handed out
        return False
    try:
        against_meta(op, sample, real, label)
        against_reference_of(op, sample, label)
        if differentiable and all(bool(y.isfinite().all()) for y in real if is_float(y)):
            assert_right(op, sample, label)
    except AssertionError:
        raise
    except Exception as error:
        assert by_statement(error), f"{label}: there is a result, and then it raises {described(error)}"
    return True
