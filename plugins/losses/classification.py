"""Losses of class labels: negative log likelihood and cross entropy."""

from __future__ import annotations

import functools
import math
import pathlib
import warnings

import plugrad
from plugrad.extend import (
    Op,
    collect,
    composite,
    hookimpl,
    is_half,
    is_integral,
    legacy_reduction,
    load_inline,
    loss,
    native,
    op,
    refuse_outside,
)

from ._reduce import check_reduction, reduced_shape, refuse_derived

_LABELS = {
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "bool": "Bool",
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
}


# ---------------------------------------------------------------- rows of classes


def _labels(xp, target, count, ignore_index):
    """Return the flat labels, safe to index `count` classes with, and which of them count (None: all)."""
    flat = target.reshape(-1).astype("int64", copy=False)
    # Seen as unsigned, a negative label is a huge one: one pass finds both kinds of bad labels.
    if xp.__name__ == "numpy" and not 0 <= ignore_index < count:
        if not flat.size or 0 <= flat[flat.view("uint64").argmax()] < count:
            return flat, None
    kept = flat != ignore_index
    safe = xp.where(kept, flat, 0)
    refuse_outside(xp, safe, 0, count, lambda worst: IndexError(f"Target {worst} is out of bounds."))
    return safe, kept


_NODES = {"NllLossBackward0": "input.ndim < 3", "NllLoss2DBackward0": "input.ndim > 2"}


def _rows(xp, input):
    """Return (N, C) rows of an input (C), (N, C) or (N, C, d1, ...)."""
    if input.ndim == 1:
        return input.reshape(1, -1)
    return input if input.ndim == 2 else xp.moveaxis(input, 1, -1).reshape(-1, input.shape[1])


def _unrows(xp, rows, shape):
    """Return rows in the shape of the input they came from."""
    if len(shape) < 3:
        return rows if rows.shape == shape else rows.reshape(shape)
    return xp.moveaxis(rows.reshape(shape[0], *shape[2:], shape[1]), -1, 1)


def _shares(xp, labels, kept, weight, dtype):
    """Return the weight of each row: of its label, zero when ignored; None when all weigh one."""
    if weight is None:
        return None if kept is None else kept.astype(dtype)
    return weight[labels] if kept is None else weight[labels] * kept


def _chosen(xp, rows, labels):
    """Return of each row the element that its label names."""
    if not rows.flags.c_contiguous:
        return rows[xp.arange(labels.size), labels]
    return rows.reshape(-1).take(labels + xp.arange(0, rows.size, rows.shape[1] or 1))


def _per_row(xp, g, reduction, shares, count):
    """Return the gradient of the value of each row, before its weight."""
    if reduction == "none":
        return g.reshape(-1)
    if reduction == "sum":
        return g
    if shares is None:
        return g / (count or 1)
    total = shares.sum()
    return g / xp.where(total == 0, 1, total).astype(g.dtype)


def _per_kept_row(xp, g, reduction, shares, kept, count):
    """Return what `_per_row` does, zeros for ignored rows: times zero, what is no number would stay none."""
    scale = _per_row(xp, g, reduction, shares, count)
    return scale if kept is None else xp.where(kept, scale, scale.dtype.type(0))


def _collect(values, shares, reduction, shape):
    if reduction == "none":
        return values.reshape(shape)
    total = values.sum()
    if reduction == "sum":
        return total
    count = values.size if shares is None else shares.sum()
    mean = total / count if values.size else total * math.nan
    return mean if mean.dtype is values.dtype else mean.astype(values.dtype)


# ---------------------------------------------------------------- negative log likelihood


@op(at=(), node=_NODES)
def nll(xp, input, target, weight, ignore_index, reduction):
    """Negative log likelihood of labels, reduced; linear in `input`."""
    rows = _rows(xp, input)
    labels, kept = _labels(xp, target, rows.shape[1], ignore_index)
    values = -_chosen(xp, rows, labels)
    shares = _shares(xp, labels, kept, weight, rows.dtype)
    if shares is not None:
        values = values * shares if kept is None else xp.where(kept, values * shares, 0)
    return _collect(values, shares, reduction, target.shape)


_HOW = {"none": 0, "mean": 1, "sum": 2}


@nll.kernel("cpu")
@native("nll", otherwise=nll)
def nll_in_c(call, xp, input, target, weight, ignore_index, reduction):
    if weight is not None or reduction not in _HOW:
        return NotImplemented
    result = xp.empty(target.shape if reduction == "none" else (), input.dtype)
    done = call(input, target, result, ignore_index, _HOW[reduction])
    return result if done is None else done


@nll.vjp("input")
def nll_vjp(F, g, input_shape, target, weight, ignore_index, reduction):
    return F.nll_grad(g, target, weight, ignore_index, reduction, input_shape)


@nll.meta
def nll_meta(input, target, weight, ignore_index, reduction):
    return reduced_shape(target.shape, reduction), input.dtype


@nll.samples
def nll_samples(make):
    yield make(3, 4), make.ints(3, low=0, high=4), None, -100, "mean"
    yield make(2, 3, 4), make.ints(2, 4, low=0, high=3), None, 1, "none"


@op(at=())
def nll_grad(xp, g, target, weight, ignore_index, reduction, shape):
    """Gradient of `nll` with respect to its input, of the given shape."""
    classes = shape[1 if len(shape) > 1 else 0]
    labels, kept = _labels(xp, target, classes, ignore_index)
    shares = _shares(xp, labels, kept, weight, g.dtype)
    scale = _per_kept_row(xp, g, reduction, shares, kept, labels.size)
    rows = xp.zeros((labels.size, classes), g.dtype)
    rows[xp.arange(labels.size), labels] = -scale if shares is None else -scale * shares
    return _unrows(xp, rows, shape)


@nll_grad.kernel("cpu")
@native("nll_grad", otherwise=nll_grad)
def nll_grad_in_c(call, xp, g, target, weight, ignore_index, reduction, shape):
    if weight is not None or reduction not in _HOW:
        return NotImplemented
    rows = xp.empty(shape, g.dtype)
    done = call(xp.ascontiguousarray(g), target, rows, ignore_index, _HOW[reduction])
    return rows if done is None else done


@nll_grad.vjp("g")
def nll_grad_vjp(F, h, target, weight, ignore_index, reduction):
    return F.nll(h, target, weight, ignore_index, reduction)


@nll_grad.meta
def nll_grad_meta(g, target, weight, ignore_index, reduction, shape):
    return shape, g.dtype


@nll_grad.samples
def nll_grad_samples(make):
    yield make(3), make.ints(3, low=0, high=4), None, -100, "none", (3, 4)
    yield make(), make.ints(3, low=0, high=4), make(4, low=1, high=2, requires_grad=False), 1, "mean", (3, 4)


def _type_name(dtype):
    name = str(dtype).rpartition(".")[2]
    return _LABELS.get(name, name)


def _check_label_type(target):
    if target.dtype is not plugrad.int64 and target.dtype is not plugrad.uint8:
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {_type_name(target.dtype)}; convert with target.long()"
        )


def _checked_labels(input, target, weight):
    """Return the labels, of one example as a number; raise PyTorch's errors for shapes and dtypes that do not fit."""
    shape, given = input.shape, target.shape
    simple = len(shape) == 2 and len(given) == 1 and given[0] == shape[0]
    if simple and target.dtype is plugrad.int64 and weight is None:
        return target
    refuse_derived("nll_loss_forward", "weight", weight)
    if input.ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if input.ndim > 1 and (target.ndim == 0 or shape[0] != given[0]):
        got = given[0] if target.ndim else 0
        raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({got}).")
    if input.ndim <= 2:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        _check_label_type(target)
        if input.ndim == 1 == target.ndim and given[0] != 1:
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {given[0]}")
    else:
        wanted = (shape[0], *shape[2:])
        if input.ndim == 4:
            if target.ndim != 3:
                raise RuntimeError(
                    "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
                    f"{target.ndim}"
                )
            _check_label_type(target)
        if tuple(given) != wanted:
            which = f"size mismatch (got input: {list(shape)} , target: {list(given)}). " if input.ndim == 4 else ""
            raise RuntimeError(f"{which}Expected target size {list(wanted)}, got {list(given)}")
        _check_label_type(target)
    classes = shape[1 if input.ndim > 1 else 0]
    if weight is not None:
        if tuple(weight.shape) != (classes,):
            raise RuntimeError(
                f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor "
                f"of shape: {list(weight.shape)}"
            )
        if weight.dtype is not input.dtype:
            raise RuntimeError(
                f"expected scalar type {_type_name(input.dtype)} but found {_type_name(weight.dtype)}: weights of "
                f"classes have the input's type; write weight.to({input.dtype})"
            )
    return target.reshape(()) if input.ndim == 1 == target.ndim else target


@loss(module="NLLLoss", buffers=("weight",))
@composite(at=("nn.functional.nll_loss",), autocast="float32")
def nll_loss(F, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Negative log likelihood of class labels, given log probabilities.

    Args:
        input: log probabilities (C), (N, C) or (N, C, d1, ...).
        target: labels (), (N) or (N, d1, ...), int64.
        weight: factor of each class (C); the mean is then weighted, too.
        ignore_index: label that does not count.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.

    Errors: `IndexError` for a label that is not a class; `ValueError` or `RuntimeError` for shapes that don't match.

    >>> import plugrad as torch
    >>> torch.nn.functional.nll_loss(torch.tensor([[-1., -2.]]), torch.tensor([1]))
    tensor(2.)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{input.dtype}': convert it by .float()")
    target = _checked_labels(input, target, weight)
    return F.nll(input, target, weight, ignore_index, reduction)


@nll_loss.samples
def nll_loss_samples(make):
    yield make(3, 4), make.ints(3, low=0, high=4)
    yield make.args(make(2, 4, 3), make.ints(2, 3, low=0, high=4), ignore_index=1)


# ---------------------------------------------------------------- cross entropy with labels


@op(at=(), node=_NODES, kinds={"ignore_index": "int", "reduction": "str", "label_smoothing": "number"})
def cross_entropy_labels(xp, input, target, weight, ignore_index, reduction, label_smoothing):
    """Cross entropy of logits with labels, reduced.

    Nothing of the size of the logits is saved for backward, which costs one more exponential there.
    """
    rows = _rows(xp, input)
    classes = rows.shape[1]
    labels, kept = _labels(xp, target, classes, ignore_index)
    if is_integral(rows.dtype):
        raise NotImplementedError(f'"log_softmax_lastdim_kernel_impl" not implemented for {rows.dtype}')
    shifted = rows - rows.max(1, None, True) if rows.size else rows
    normalizer = xp.log(xp.exp(shifted).sum(1))
    values = normalizer - _chosen(xp, shifted, labels)
    shares = _shares(xp, labels, kept, weight, rows.dtype)
    if shares is not None:
        values = values * shares
    if label_smoothing:
        if weight is None:
            spread = normalizer * classes - shifted.sum(axis=1)
        else:
            spread = normalizer * weight.sum() - (shifted * weight).sum(axis=1)
        values = (values * (1 - label_smoothing) + spread * (label_smoothing / classes)).astype(input.dtype, copy=False)
    if kept is not None:
        values = xp.where(kept, values, 0)
    return _collect(values, shares, reduction, target.shape)


@cross_entropy_labels.kernel("cpu")
@native("cross_entropy", otherwise=cross_entropy_labels)
def cross_entropy_in_c(call, xp, input, target, weight, ignore_index, reduction, label_smoothing):
    if weight is not None or label_smoothing or reduction not in _HOW:
        return NotImplemented
    result = xp.empty(target.shape if reduction == "none" else (), input.dtype)
    done = call(input, target, result, ignore_index, _HOW[reduction])
    return result if done is None else done


_on_cuda = functools.partial(load_inline, cuda=pathlib.Path(__file__).with_suffix(".cu"), per="rows", types="floating")
_over_rows = _on_cuda(name="over_rows", arrays=3, numbers=1, wide=(0, 1))
_count_rows = _on_cuda(name="count_rows", arrays=3, numbers=3, indices=(0,), wide=(2,))


def _rows_in_order(xp, input, target):
    """Return rows of logits and their labels, both in C order."""
    labels = target.reshape(-1)
    labels = labels if labels.dtype.char == "l" else labels.astype("int64", copy=False)
    return xp.ascontiguousarray(_rows(xp, input)), xp.ascontiguousarray(labels)


@cross_entropy_labels.kernel("cuda")
@native(
    _on_cuda(name="cross_entropy", arrays=6, numbers=4, indices=(1, 5), wide=(3, 4)), otherwise=cross_entropy_labels
)  # fmt: skip
def cross_entropy_on_cuda(call, xp, input, target, weight, ignore_index, reduction, label_smoothing):
    if not input.size:
        return NotImplemented
    rows, labels = _rows_in_order(xp, input, target)
    dtype = "float32" if is_half(rows.dtype) else rows.dtype
    values, shares = xp.ndarray(labels.size, dtype), xp.ndarray(labels.size, dtype)
    record, number = xp.watched_fault(lambda worst: IndexError(f"Target {worst} is out of bounds."))
    arrays = rows, labels, rows if weight is None else weight, values, shares, record
    if call(*arrays, ignore_index, label_smoothing, weight is not None, number) is NotImplemented:
        return NotImplemented
    xp.told_fault()
    if reduction == "none":
        return values.reshape(target.shape).astype(rows.dtype, copy=False)
    result = xp.ndarray((), rows.dtype)
    _over_rows(values, shares, result, reduction == "mean")
    return result


@cross_entropy_labels.vjp("input")
def cross_entropy_labels_vjp(F, g, input, target, weight, ignore_index, reduction, label_smoothing):
    return F.cross_entropy_grad(g, input, target, weight, ignore_index, reduction, label_smoothing)


@cross_entropy_labels.meta
def cross_entropy_labels_meta(input, target, weight, ignore_index, reduction, label_smoothing):
    return reduced_shape(target.shape, reduction), input.dtype


@cross_entropy_labels.samples
def cross_entropy_labels_samples(make):
    yield make(3, 4), make.ints(3, low=0, high=4), None, -100, "mean", 0.0
    yield make(2, 3, 4), make.ints(2, 4, low=0, high=3), None, 1, "none", 0.2


def _masses(xp, shares, kept, weight, classes, label_smoothing, scale):
    """Return, for each row, `scale` times the sum of its target distribution."""
    if not label_smoothing:
        return scale if shares is None else scale * shares
    spread = 1.0 if weight is None else weight.sum() / classes
    sharp = 1 if shares is None else shares
    total = sharp * (1 - label_smoothing) + spread * label_smoothing
    return scale * (total if kept is None else total * kept)


@op(at=(), like="input")
def cross_entropy_grad(xp, g, input, target, weight, ignore_index, reduction, label_smoothing):
    """Gradient of `cross_entropy_labels`.

    Softmax times the mass of the target distribution, less that distribution.
    """
    rows = _rows(xp, input)
    classes = rows.shape[1]
    labels, kept = _labels(xp, target, classes, ignore_index)
    shares = _shares(xp, labels, kept, weight, rows.dtype)
    scale = _per_kept_row(xp, g, reduction, shares, kept, labels.size)
    mass = _masses(xp, shares, kept, weight, classes, label_smoothing, scale)
    result = rows - rows.max(1, None, True) if rows.size else rows.copy()
    xp.exp(result, result)
    result *= (mass / result.sum(1))[:, None]
    sharp = scale if shares is None else scale * shares
    if label_smoothing:
        even = label_smoothing / classes if weight is None else weight * (label_smoothing / classes)
        rest = scale if kept is None else scale * kept
        result -= (rest[:, None] if rest.ndim else rest) * even
        sharp = sharp * (1 - label_smoothing)
    result[xp.arange(labels.size), labels] -= sharp
    return _unrows(xp, result, input.shape)


@cross_entropy_grad.kernel("cpu")
@native("cross_entropy_grad", otherwise=cross_entropy_grad)
def cross_entropy_grad_in_c(call, xp, g, input, target, weight, ignore_index, reduction, label_smoothing):
    if weight is not None or label_smoothing or reduction not in _HOW:
        return NotImplemented
    result = xp.empty_like(input)
    done = call(xp.ascontiguousarray(g), input, target, result, ignore_index, _HOW[reduction])
    return result if done is None else done


@cross_entropy_grad.kernel("cuda")
@native(_on_cuda(name="cross_entropy_grad", arrays=6, numbers=5, indices=(1,), wide=(4,)), otherwise=cross_entropy_grad)
def cross_entropy_grad_on_cuda(call, xp, g, input, target, weight, ignore_index, reduction, label_smoothing):
    if not input.size or g.dtype != input.dtype:
        return NotImplemented
    rows, labels = _rows_in_order(xp, input, target)
    weights, mean = rows if weight is None else weight, reduction == "mean"
    total = xp.ndarray(1, "float32" if is_half(rows.dtype) else rows.dtype)
    if mean:
        numbers = ignore_index, weight is not None, rows.shape[1]
        if _count_rows(labels, weights, total, *numbers) is NotImplemented:
            return NotImplemented
    result = xp.ndarray(rows.shape if input.ndim > 2 else input.shape, rows.dtype)
    arrays = rows, labels, weights, xp.ascontiguousarray(g), total, result
    done = call(*arrays, ignore_index, label_smoothing, weight is not None, reduction == "none", mean)
    return _unrows(xp, result, input.shape) if done is None else done


@cross_entropy_grad.vjp("g")
def cross_entropy_grad_vjp_g(F, h, g, input, target, weight, ignore_index, reduction, label_smoothing):
    unit = F.cross_entropy_grad(F.ones_like(g), input, target, weight, ignore_index, reduction, label_smoothing)
    return F.sum(h * unit) if reduction != "none" else F.sum(h * unit, 1 if input.ndim > 1 else 0)


@cross_entropy_grad.vjp("input")
def cross_entropy_grad_vjp_input(F, h, g, input, target, weight, ignore_index, reduction, label_smoothing):
    dim = 1 if input.ndim > 1 else 0
    probability = F.softmax(input, dim)
    mass = F.cross_entropy_mass(g, target, weight, ignore_index, reduction, label_smoothing, input.shape)
    return mass * probability * (h - F.sum(h * probability, dim, True))


@cross_entropy_grad.samples
def cross_entropy_grad_samples(make):
    yield make(), make(3, 4), make.ints(3, low=0, high=4), None, -100, "mean", 0.0
    yield make(), make(3, 4), make.ints(3, low=0, high=4), None, -100, "mean", 0.1
    yield make(3), make(3, 4), make.ints(3, low=0, high=4), make(4, low=1, high=2, requires_grad=False), 1, "none", 0.0


@op(at=())
def cross_entropy_mass(xp, g, target, weight, ignore_index, reduction, label_smoothing, shape):
    """What `cross_entropy_grad` multiplies softmax with; linear in `g`.

    With 1 for the classes in `shape`.
    """
    classes = shape[1 if len(shape) > 1 else 0]
    labels, kept = _labels(xp, target, classes, ignore_index)
    shares = _shares(xp, labels, kept, weight, g.dtype)
    scale = _per_kept_row(xp, g, reduction, shares, kept, labels.size)
    mass = _masses(xp, shares, kept, weight, classes, label_smoothing, scale)
    mass = xp.broadcast_to(mass, (labels.size,)).astype(g.dtype)
    return mass.reshape(1) if len(shape) == 1 else mass.reshape(shape[0], 1, *shape[2:])


@cross_entropy_mass.vjp("g")
def cross_entropy_mass_vjp(F, h, g, target, weight, ignore_index, reduction, label_smoothing, shape):
    unit = F.cross_entropy_mass(F.ones_like(g), target, weight, ignore_index, reduction, label_smoothing, shape)
    return F.sum(h * unit) if reduction != "none" else F.reshape(h * unit, g.shape)


@cross_entropy_mass.meta
def cross_entropy_mass_meta(g, target, weight, ignore_index, reduction, label_smoothing, shape):
    return ((1,) if len(shape) == 1 else (shape[0], 1, *shape[2:])), g.dtype


@cross_entropy_mass.samples
def cross_entropy_mass_samples(make):
    yield make(), make.ints(3, low=0, high=4), None, -100, "mean", 0.1, (3, 4)


# ---------------------------------------------------------------- cross entropy


@loss(module="CrossEntropyLoss", buffers=("weight",))
@composite(at=("nn.functional.cross_entropy",), autocast="float32")
def cross_entropy(
    F, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
    label_smoothing=0.0,
):  # fmt: skip
    """Cross entropy of logits with class labels or class probabilities.

    Args:
        input: logits (C), (N, C) or (N, C, d1, ...).
        target: labels (), (N) or (N, d1, ...), int64; or probabilities with the shape of `input`.
        weight: factor of each class (C); the mean over labels is then weighted, too.
        ignore_index: label that does not count.
        reduction: "none", "mean" or "sum".
        size_average, reduce: what this was before; deprecated.
        label_smoothing: share of the target that is spread evenly over the classes (arXiv:1512.00567).

    Errors: `IndexError` for a label that is not a class; `ValueError` or `RuntimeError` for shapes that don't match.

    >>> import plugrad as torch
    >>> torch.nn.functional.cross_entropy(torch.tensor([[0., 0.]]), torch.tensor([1]))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    if target.ndim == input.ndim and target.shape == input.shape:
        return _with_probabilities(F, input, target, weight, ignore_index, reduction, label_smoothing)
    target = _checked_labels(input, target, weight)
    return F.cross_entropy_labels(input, target, weight, ignore_index, reduction, label_smoothing)


@cross_entropy.samples
def cross_entropy_samples(make):
    yield make(3, 4), make.ints(3, low=0, high=4)
    weight = make(4, low=1, high=2, requires_grad=False)
    yield make.args(make(2, 4, 3), make.ints(2, 3, low=0, high=4), weight, label_smoothing=0.1)
    yield make(3, 4), make(3, 4, low=0, high=1)


def _with_probabilities(F, input, target, weight, ignore_index, reduction, label_smoothing):
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {target.dtype}; class labels have "
            "one dimension less than the logits"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    dim = 1 if input.ndim > 1 else 0
    classes = input.shape[dim]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    if weight is not None:
        if tuple(weight.shape) != (classes,):
            raise RuntimeError(
                f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but "
                f"got weight tensor of shape: {list(weight.shape)}"
            )
        target = target * F.reshape(weight, (-1,) + (1,) * (input.ndim - 1 - dim))
    products = F.log_softmax(input, dim) * target
    if reduction == "none":
        return -F.sum(products, dim)
    total = -F.sum(products)
    if reduction == "sum":
        return total
    count = math.prod(input.shape) // classes if classes else 0  # of samples, not of classes, whatever the weights
    return total / count if count else total * math.nan


class NLLLoss2d(nll_loss.loss_module):
    """NLLLoss by a deprecated name.

    >>> import plugrad as torch
    >>> issubclass(torch.nn.NLLLoss2d, torch.nn.NLLLoss)
    True
    """

    def __init__(self, *args, **options):
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **options)

    @staticmethod
    def samples(make):
        """Yield what NLLLoss is called with: nothing to construct, scores and classes."""
        yield (), make.args(make(2, 3), make.ints(2, high=3))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())


@hookimpl
def plugrad_losses():
    return [NLLLoss2d]
