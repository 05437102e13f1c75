"""Connectionist temporal classification (Graves et al., ICML 2006)."""

from __future__ import annotations

import math
from operator import index

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, loss, native, op

from ._reduce import check_reduction


def _paths(xp, log_probs, targets, lengths, blank):
    """Return each sample's labels with blanks around them, their emissions, and where a blank may be skipped.

    Emissions are in double precision: scores add up over time.
    """
    batch, most = targets.shape
    labels = xp.full((batch, 2 * most + 1), blank, dtype="int64")
    labels[:, 1::2] = targets
    states = xp.arange(2 * most + 1)
    inside = states < 2 * lengths[:, None] + 1
    labels = xp.where(inside, labels, blank)
    skip = xp.zeros(labels.shape, dtype=bool)
    skip[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    emissions = xp.where(inside, log_probs[:, xp.arange(batch)[:, None], labels].astype("float64"), -math.inf)
    return labels, emissions, skip


def _shifted(xp, values, by):
    """Move scores to higher states (or lower ones, for negative `by`), with impossible ones moving in."""
    moved = xp.full_like(values, -math.inf)
    if abs(by) < values.shape[1]:
        if by > 0:
            moved[:, by:] = values[:, :-by]
        else:
            moved[:, :by] = values[:, -by:]
    return moved


def _forward(xp, emissions, skip, input_lengths):
    """Return the scores of all beginnings of paths (time, sample, state), constant after a sample's end."""
    alpha = xp.full(emissions.shape, -math.inf, emissions.dtype)
    alpha[0, :, :2] = emissions[0, :, :2]
    for t in range(1, emissions.shape[0]):
        before = alpha[t - 1]
        arriving = xp.logaddexp(before, _shifted(xp, before, 1))
        arriving = xp.logaddexp(arriving, xp.where(skip, _shifted(xp, before, 2), -math.inf))
        alpha[t] = xp.where((t < input_lengths)[:, None], arriving + emissions[t], before)
    return alpha


def _backward(xp, emissions, skip, input_lengths, lengths):
    """Return the scores of all ends of paths, the state's own emission included."""
    beta = xp.full(emissions.shape, -math.inf, emissions.dtype)
    states = xp.arange(emissions.shape[2])
    last = 2 * lengths[:, None]
    final = (states == last) | (states == last - 1)
    later_skip = xp.zeros_like(skip)
    later_skip[:, :-2] = skip[:, 2:]
    after = xp.full(emissions.shape[1:], -math.inf, emissions.dtype)
    for t in range(emissions.shape[0] - 1, -1, -1):
        leaving = xp.logaddexp(after, _shifted(xp, after, -1))
        leaving = xp.logaddexp(leaving, xp.where(later_skip, _shifted(xp, after, -2), -math.inf))
        ends = (t == input_lengths - 1)[:, None]
        current = xp.where(ends, xp.where(final, 0, -math.inf), leaving) + emissions[t]
        after = beta[t] = xp.where((t < input_lengths)[:, None], current, -math.inf)
    return beta


def _likelihood(xp, alpha, lengths):
    last, rows = alpha[-1], xp.arange(alpha.shape[1])
    end = last[rows, 2 * lengths]
    before = xp.where(lengths > 0, last[rows, xp.maximum(2 * lengths - 1, 0)], -math.inf)
    return xp.logaddexp(end, before)


@op(at=(), node="CtcLossBackward0")
def ctc(xp, log_probs, targets, input_lengths, target_lengths, blank):
    """Negative log likelihood of padded targets (N, S), one for each sample."""
    inputs, lengths = xp.asarray(input_lengths), xp.asarray(target_lengths)
    _, emissions, skip = _paths(xp, log_probs, targets, lengths, blank)
    values = -_likelihood(xp, _forward(xp, emissions, skip, inputs), lengths)
    # Of no time at all there is one path, which has no labels.
    values = xp.where(inputs == 0, xp.where(lengths == 0, 0.0, math.inf), values)
    return values.astype(log_probs.dtype, copy=False)


@ctc.kernel("cpu")
@native("ctc", otherwise=ctc)
def ctc_in_c(call, xp, log_probs, targets, input_lengths, target_lengths, blank):
    values = xp.empty(log_probs.shape[1])
    given = _whole(xp, log_probs, targets, input_lengths, target_lengths)
    return values.astype(log_probs.dtype) if call(*given, values, blank) is None else NotImplemented


def _whole(xp, log_probs, targets, *lengths):
    """Return scores, targets and lengths as the kernels in C take them."""
    scores, targets = xp.ascontiguousarray(log_probs, "float64"), xp.ascontiguousarray(targets, "int64")
    return scores, targets, xp.array(lengths, "int64")


@ctc.vjp("log_probs")
def ctc_vjp(F, g, log_probs, targets, input_lengths, target_lengths, blank):
    return F.ctc_grad(g, log_probs, targets, input_lengths, target_lengths, blank)


@ctc.meta
def ctc_meta(log_probs, targets, input_lengths, target_lengths, blank):
    return (log_probs.shape[1],), log_probs.dtype


@ctc.samples
def ctc_samples(make):
    yield make.through(_of_logits, make(5, 2, 3), make.ints(2, 2, low=1, high=3), (5, 4), (2, 1), 0)


@op(at=(), like="log_probs")
def ctc_grad(xp, g, log_probs, targets, input_lengths, target_lengths, blank):
    """Gradient of `ctc`, which takes `log_probs` to be normalised.

    So does PyTorch's: they are what `log_softmax` returned.
    """
    inputs, lengths = xp.asarray(input_lengths), xp.asarray(target_lengths)
    labels, emissions, skip = _paths(xp, log_probs, targets, lengths, blank)
    alpha = _forward(xp, emissions, skip, inputs)
    beta = _backward(xp, emissions, skip, inputs, lengths)
    # A state's emission is in both scores.
    through = xp.where(emissions == -math.inf, -math.inf, alpha + beta - emissions)
    share = xp.exp(through - _likelihood(xp, alpha, lengths)[:, None])
    steps, batch, _ = log_probs.shape
    occupancy = xp.zeros(log_probs.shape, "float32" if log_probs.dtype.itemsize == 2 else log_probs.dtype)
    times, rows = xp.arange(steps)[:, None, None], xp.arange(batch)[:, None]
    xp.add.at(occupancy, (times, rows, labels[None]), share.astype(occupancy.dtype, copy=False))
    # Of what does not count, a path that does not exist is no reason for NaN: `zero_infinity` relies on it.
    running = ((xp.arange(steps)[:, None] < inputs) & (g != 0))[:, :, None]
    return xp.where(running, (xp.exp(log_probs) - occupancy) * g[:, None], 0).astype(log_probs.dtype)


@ctc_grad.kernel("cpu")
@native("ctc_grad", otherwise=ctc_grad)
def ctc_grad_in_c(call, xp, g, log_probs, targets, input_lengths, target_lengths, blank):
    result = xp.empty(log_probs.shape)
    given = *_whole(xp, log_probs, targets, input_lengths, target_lengths), xp.ascontiguousarray(g, "float64")
    return result.astype(log_probs.dtype) if call(*given, result, blank) is None else NotImplemented


@ctc_grad.vjp("g", "log_probs")
def ctc_grad_vjp(F, h):
    raise NotImplementedError("the second derivative of ctc_loss is not implemented, here or in PyTorch")


@ctc_grad.samples
def ctc_grad_samples(make):
    scores, labels = make(5, 2, 3, requires_grad=False).log_softmax(-1), make.ints(2, 2, low=1, high=3)
    yield make(2, requires_grad=False), scores, labels, (5, 4), (2, 1), 0


def _lengths(values, name, count) -> tuple:
    if isinstance(values, plugrad.Tensor):
        if values.is_floating_point() or values.is_complex() or values.dtype is plugrad.bool:
            raise RuntimeError(f"{name} must be integral, but its dtype is {values.dtype}: convert it with .long()")
        values = values.tolist()
    values = values if isinstance(values, (list, tuple)) else [values]
    for value in values:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"ctc_loss(): {name} must be a tensor or tuple of ints, not of {type(value).__name__}")
    values = tuple(map(index, values))
    if len(values) != count:
        raise RuntimeError(f"{name} must be of size batch_size: expected {count} lengths, got {len(values)}")
    return values


def _padded(F, targets, lengths):
    """Return targets as (N, S), also when they were given one after the other."""
    if targets.ndim == 2:
        return F.narrow(targets, 1, 0, max(lengths, default=0))
    if sum(lengths) != targets.numel():
        raise RuntimeError(
            f"Expected tensor to have size {sum(lengths)} at dimension 0 (the sum of target_lengths), but got size "
            f"{targets.numel()} for argument #2 'targets'"
        )
    most = max(lengths, default=0)
    rows, start = [], 0
    for length in lengths:
        row = F.narrow(targets, 0, start, length)
        rows.append(F.cat([row, F.zeros(most - length, dtype=targets.dtype, device=targets.device)]))
        start += length
    return F.stack(rows)


def _check(log_probs, targets, blank) -> None:
    """Raise what PyTorch raises for a dtype, a blank or targets that don't fit (T, N, C) scores."""
    if log_probs.ndim != 3:
        raise RuntimeError(f"Expected 3-dimensional tensor, but got {log_probs.ndim}-dimensional one for 'log_probs'")
    if log_probs.dtype not in (plugrad.float32, plugrad.float64):
        raise NotImplementedError(f'"ctc_loss_cpu" not implemented for {log_probs.dtype}; convert with .float()')
    if not log_probs.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError("blank must be in label range")
    if targets.ndim == 2 and len(targets) != log_probs.shape[1]:
        raise RuntimeError(
            f"Expected tensor to have size {log_probs.shape[1]} at dimension 0, but got size {len(targets)} for "
            "argument #2 'targets'"
        )


@loss(module="CTCLoss", forward=("log_probs", "targets", "input_lengths", "target_lengths"))
@composite(at=("nn.functional.ctc_loss",), autocast={"cpu": "float32"})
def ctc_loss(F, log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Negative log likelihood of label sequences, summed over all alignments.

    Args:
        log_probs: log probabilities (T, N, C) or (T, C), as `log_softmax` returns them.
        targets: labels (N, S), (S) or all sequences one after the other.
        input_lengths: number of time steps of each sample.
        target_lengths: number of labels of each sample.
        blank: the label that stands for "no label".
        reduction: "none", "mean" (each loss is first divided by its target's length) or "sum".
        zero_infinity: whether targets too long for their input count as zero, instead of infinitely much.

    Errors: `RuntimeError` for lengths or labels that don't fit.

    Source: Graves et al., "Connectionist temporal classification", ICML 2006.

    >>> import plugrad as torch
    >>> steps = torch.zeros(2, 1, 2).log_softmax(-1)
    >>> torch.nn.functional.ctc_loss(steps, torch.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """
    check_reduction(reduction)
    number = isinstance(input_lengths, int) or isinstance(target_lengths, int)
    if number or isinstance(input_lengths, plugrad.Tensor) is not isinstance(target_lengths, plugrad.Tensor):
        raise TypeError(
            "ctc_loss() received an invalid combination of arguments: input_lengths and target_lengths must be two "
            "tensors or two tuples of ints"
        )
    single = log_probs.ndim == 2
    if single:
        log_probs = F.unsqueeze(log_probs, 1)
        targets = F.unsqueeze(targets, 0) if targets.ndim == 1 else targets
    _check(log_probs, targets, blank)
    steps, batch, _ = log_probs.shape
    inputs, lengths = (
        _lengths(input_lengths, "input_lengths", batch),
        _lengths(target_lengths, "target_lengths", batch),
    )
    for i, length in enumerate(inputs):
        if not 0 <= length <= steps:
            raise RuntimeError(f"Expected input_lengths to have value at most {steps}, but got value {length} (at {i})")
    for i, length in enumerate(lengths):
        if length < 0 or targets.ndim == 2 and length > targets.shape[1]:
            raise RuntimeError(
                f"Expected tensor to have size at least {length} at dimension 1, got {targets.shape} ({i})"
            )
    values = F.ctc(log_probs, _padded(F, targets, lengths).long(), inputs, lengths, blank)
    if zero_infinity:
        values = F.where(values == math.inf, 0, values)
    if reduction == "mean":
        sizes = plugrad.tensor([float(max(length, 1)) for length in lengths], dtype=values.dtype, device=values.device)
        return F.mean(values / sizes)
    if reduction == "sum":
        return F.sum(values)
    return F.reshape(values, ()) if single else values


@ctc_loss.samples
def ctc_loss_samples(make):
    yield make.through(_of_logits, make(5, 2, 3), make.ints(2, 2, low=1, high=3), (5, 4), (2, 1))


def _of_logits(function, logits, *args):
    """The gradient takes for granted that probabilities add up to one, as PyTorch's does."""
    return function(logits.log_softmax(-1), *args)


def _ctc_module_samples(make):
    scores = make(5, 2, 3).log_softmax(-1).detach()
    yield (), (scores, make.ints(2, 2, low=1, high=3), plugrad.tensor((5, 4)), plugrad.tensor((2, 1)))


ctc_loss.loss_module.samples = staticmethod(_ctc_module_samples)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
