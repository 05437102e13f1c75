"""Losses that rank: margins between scores, distances or classes."""

from __future__ import annotations

from plugrad.extend import Op, collect, composite, hookimpl, legacy_reduction, loss, op

from ._reduce import check_reduction, reduce_values, refuse_derived, refuse_far


@loss(module="MarginRankingLoss", forward=("input1", "input2", "target"))
@composite(at=("nn.functional.margin_ranking_loss",), autocast="float32")
def margin_ranking_loss(F, input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """`max(0, -target * (input1 - input2) + margin)`.

    Args:
        input1, input2: scores to be compared.
        target: 1 where the first should rank higher, -1 where the second should.
        margin: by how much.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    >>> import plugrad as torch
    >>> torch.nn.functional.margin_ranking_loss(torch.tensor([1.]), torch.tensor([3.]), torch.tensor([1.]))
    tensor(2.)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return reduce_values(F, F.clamp_min(-target * (input1 - input2) + margin, 0), reduction)


@margin_ranking_loss.samples
def margin_ranking_loss_samples(make):
    yield make.args(make(4), make(4), make.bool(4).double() * 2 - 1, 0.125)


@loss(module="HingeEmbeddingLoss")
@composite(at=("nn.functional.hinge_embedding_loss",), autocast="float32")
def hinge_embedding_loss(F, input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """`input` where the target is 1, `max(0, margin - input)` where it is -1.

    Args:
        input: distances.
        target: 1 (similar) or -1.
        margin: distance from which dissimilar things cost nothing.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    >>> import plugrad as torch
    >>> torch.nn.functional.hinge_embedding_loss(torch.tensor([0.3, 0.3]), torch.tensor([1., -1.]), reduction="none")
    tensor([0.3000, 0.7000])
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    refuse_far(F, margin, input)
    apart = F.where(target != 1, F.clamp_min(margin - input, 0).to(input.dtype), 0)
    together = F.where(target != -1, input, 0)
    return reduce_values(F, apart + together, reduction)


@hinge_embedding_loss.samples
def hinge_embedding_loss_samples(make):
    yield make(4), make.bool(4).double() * 2 - 1


@loss(module="CosineEmbeddingLoss", forward=("input1", "input2", "target"))
@composite(at=("nn.functional.cosine_embedding_loss",), autocast="float32")
def cosine_embedding_loss(F, input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """One less the cosine of vectors that belong together; else the cosine.

    Where the target is 1 it is `1 - cosine`, where it is -1 `max(0, cosine - margin)`.

    Args:
        input1, input2: vectors (D) or rows (N, D).
        target: 1 (similar) or -1, () or (N).
        margin: cosine up to which dissimilar vectors cost nothing.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    Errors: `RuntimeError` for other shapes.

    >>> import plugrad as torch
    >>> a, b = torch.tensor([[1., 0.]]), torch.tensor([[0., 1.]])
    >>> torch.nn.functional.cosine_embedding_loss(a, b, torch.tensor([1.]))
    tensor(1.)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    wanted = target.ndim + 1
    if input1.ndim != wanted or input2.ndim != wanted:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {wanted}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    product = F.sum(input1 * input2, -1)
    # Added to the squares, so that a vector of zeros has a gradient.
    tiny = 1e-12
    cosine = product / F.sqrt((F.sum(input1 * input1, -1) + tiny) * (F.sum(input2 * input2, -1) + tiny))
    values = F.where(target == 1, 1 - cosine, 0) + F.where(target == -1, F.clamp_min(cosine - margin, 0), 0)
    return reduce_values(F, values, reduction)


@cosine_embedding_loss.samples
def cosine_embedding_loss_samples(make):
    yield make(3, 4), make(3, 4), make.bool(3).double() * 2 - 1, 0.125


# ---------------------------------------------------------------- triplets


def _triplet(F, distance, anchor, positive, negative, margin, swap, reduction):
    check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = F.minimum(far, distance(positive, negative))
    return reduce_values(F, F.clamp_min(near - far + margin, 0), reduction)


def _check_margin(module, options) -> None:
    if options["margin"] <= 0:
        raise ValueError(f"{module}: expected margin to be greater than 0, got {options['margin']} instead")


@loss(module="TripletMarginLoss", forward=("anchor", "positive", "negative"), check=_check_margin)
@composite(at=("nn.functional.triplet_margin_loss",), kinds={"p": "float"}, autocast="float32")
def triplet_margin_loss(
    F, anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None,
    reduction="mean",
):  # fmt: skip
    """`max(0, distance(anchor, positive) - distance(anchor, negative) + margin)`.

    Args:
        anchor, positive, negative: vectors (D) or rows (N, D).
        margin: by how much the negative should be farther.
        p: order of the norm.
        eps: added to the differences, so that equal vectors have a gradient.
        swap: whether the positive may stand in for the anchor, if nearer to the negative (Balntas et al., BMVC 2016).
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    >>> import plugrad as torch
    >>> a, n = torch.zeros(1, 2), torch.tensor([[3., 4.]])
    >>> torch.nn.functional.triplet_margin_loss(a, n, a)
    tensor(6.0000)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)

    def distance(one, other):
        return F.norm(one - other + eps, p, -1)

    return _triplet(F, distance, anchor, positive, negative, margin, swap, reduction)


@loss(module="TripletMarginWithDistanceLoss", forward=("anchor", "positive", "negative"), check=_check_margin)
@composite(at=("nn.functional.triplet_margin_with_distance_loss",))
def triplet_margin_with_distance_loss(
    F, anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """`triplet_margin_loss` with a distance of one's own.

    Args:
        anchor, positive, negative: tensors that `distance_function` takes.
        distance_function: maps two tensors to their distances; the Euclidean distance by default.
        margin: by how much the negative should be farther.
        swap: whether the positive may stand in for the anchor.
        reduction: "none", "mean" or "sum".

    >>> import plugrad as torch
    >>> a, n = torch.zeros(1, 2), torch.tensor([[3., 4.]])
    >>> city = lambda x, y: (x - y).abs().sum(-1)
    >>> torch.nn.functional.triplet_margin_with_distance_loss(a, n, a, distance_function=city)
    tensor(8.)
    """

    def distance(one, other):
        return F.norm(one - other + 1e-6, 2.0, -1)

    return _triplet(F, distance_function or distance, anchor, positive, negative, margin, swap, reduction)


@triplet_margin_loss.samples
@triplet_margin_with_distance_loss.samples
def triplet_samples(make):
    yield make(3, 4), make(3, 4), make(3, 4)
    yield make.args(make(3, 4), make(3, 4), make(3, 4), swap=True, reduction="none")


# ---------------------------------------------------------------- margins between classes


@loss(module="MultiMarginLoss", buffers=("weight",))
@composite(at=("nn.functional.multi_margin_loss",), kinds={"p": "number", "margin": "number"}, autocast="float32")
def multi_margin_loss(
    F, input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean",
):  # fmt: skip
    """Hinge loss of many classes.

    The sum of `max(0, margin - input[target] + input[i]) ** p`.

    The sum runs over the other classes, and is divided by the number of classes.

    Args:
        input: scores (C) or (N, C).
        target: labels () or (N), int64.
        p: 1 or 2.
        margin: by how much the right class should lead.
        weight: factor of each class (C).
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    Errors: `ValueError` for another `p`, `RuntimeError` for shapes that don't match or labels that are not classes.

    >>> import plugrad as torch
    >>> torch.nn.functional.multi_margin_loss(torch.tensor([0.1, 0.2, 0.4]), torch.tensor(2))
    tensor(0.5000)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if target.dtype.is_floating_point:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype}")
    rows = F.reshape(input, (1, -1)) if input.ndim < 2 else input
    if input.ndim > 2 or not rows.shape[-1]:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    count, classes = rows.shape
    if target.ndim > 1 or max(target.numel(), 1 if not target.ndim else 0) != count:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{count}], but got {list(target.shape)}. Input has shape {list(input.shape)}."
        )
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    refuse_derived("multi_margin_loss", "weight", weight)
    labels = F.reshape(target, (count, 1))
    if count and not labels.is_meta and bool(F.any((labels < 0) | (labels >= classes))):
        raise RuntimeError("target out of range")
    refuse_far(F, margin, input)
    terms = F.relu(margin - F.gather(rows, 1, labels) + rows)  # flat where a margin is met
    if p == 2:
        terms = terms * terms
    if weight is not None:
        terms = terms * F.index_select(weight, 0, F.reshape(labels, (count,))).reshape(count, 1)
    others = F.arange(classes, device=input.device) != labels
    values = F.sum(F.where(others, terms, 0), 1) / classes
    return reduce_values(F, values if target.ndim or input.ndim > 1 else F.reshape(values, ()), reduction)


@multi_margin_loss.samples
def multi_margin_loss_samples(make):
    yield make(3, 4), make.ints(3, low=0, high=4)
    yield make.args(make(3, 4), make.ints(3, low=0, high=4), p=2, weight=make(4, requires_grad=False))


@op(at=(), vjp=None)
def label_counts(xp, target, dtype):
    """How often each class is named in rows of labels.

    A row ends at its first negative label.
    """
    rows, classes = target.shape
    if target.size and int(target.max()) >= classes:
        raise RuntimeError("argument #2 'target' is out of range")
    named = xp.cumsum(target < 0, axis=1) == 0
    dtype = xp.dtype(dtype)
    counts = xp.zeros((rows, classes), "float32" if dtype.itemsize == 2 else dtype)  # CuPy does not add bfloat16 so
    where = xp.broadcast_to(xp.arange(rows)[:, None], target.shape)
    xp.add.at(counts, (where[named], target[named]), 1)
    return counts.astype(dtype, copy=False)


@label_counts.meta
def label_counts_meta(target, dtype):
    return target.shape, dtype


@label_counts.samples
def label_counts_samples(make):
    yield make.ints(2, 4, low=-1, high=4), "float64"


@loss(module="MultiLabelMarginLoss")
@composite(at=("nn.functional.multilabel_margin_loss",), autocast="float32")
def multilabel_margin_loss(F, input, target, size_average=None, reduce=None, reduction="mean"):
    """Hinge loss between the classes that are right and those that are not.

    The sum of `max(0, 1 - input[right] + input[wrong])` over all pairs, divided by the number of classes.

    Args:
        input: scores (C) or (N, C).
        target: the right classes of each sample, then -1; the same shape, int64.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    Errors: `RuntimeError` for different shapes or labels that are not classes.

    >>> import plugrad as torch
    >>> scores, right = torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([[3, 0, -1, 1]])
    >>> torch.nn.functional.multilabel_margin_loss(scores, right)
    tensor(0.8500)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if str(target.dtype) != "torch.int64":
        raise RuntimeError(f"expected scalar type Long but found {target.dtype}; convert the target with .long()")
    if input.ndim > 2 or not (input.shape[-1] if input.ndim else 1):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    if input.shape != target.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    rows = F.reshape(input, (-1, input.shape[-1] if input.ndim else 1))
    if not target.is_meta and target.numel() and not -1 <= int(target.min()) <= int(target.max()) < rows.shape[1]:
        raise RuntimeError(
            f"argument #2 'target' is out of range: classes are 0 to {rows.shape[1] - 1}, and -1 ends them"
        )
    counts = F.label_counts(F.reshape(target, rows.shape), input.dtype)
    gaps = F.relu(1 - F.unsqueeze(rows, 2) + F.unsqueeze(rows, 1))  # flat where a margin is met
    pairs = F.unsqueeze(counts, 2) * F.unsqueeze((counts == 0).to(input.dtype), 1)
    values = F.sum(gaps * pairs, (1, 2)) / rows.shape[1]
    return reduce_values(F, values if input.ndim > 1 else F.reshape(values, ()), reduction)


@multilabel_margin_loss.samples
def multilabel_margin_loss_samples(make):
    yield make(2, 4), make.ints(2, 4, low=-1, high=4)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
