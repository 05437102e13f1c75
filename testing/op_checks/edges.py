"""Checks of an op at inputs that authors forget: without elements, and with a NaN among them."""

from __future__ import annotations

import re

import numpy

import plugrad
from plugrad.testing.calls import Skip, argument_of, by_statement, call, cotangents_of, described, each, graded, leaves
from plugrad.testing.checks.documents import text_of
from plugrad.testing.op_checks.variations import against_meta
from plugrad.testing.tensors import differentiable, gradients_of_sum, is_float, like, reals, tensors_in

NO_ELEMENTS = ("zero-size", "empty")  # how NumPy and Python begin to complain where nobody thought of it


def _refusal(error) -> bool:
    """Whether an exception refuses an input: raised by a statement, or because sizes do not fit each other."""
    if isinstance(error, (RuntimeError, Warning)) or by_statement(error):
        return True
    return isinstance(error, ValueError) and not any(word in str(error) for word in NO_ELEMENTS)


def empty(op, device):
    """Without elements it works, backward and on the meta device as well, or refuses in words."""
    if not op.names:
        raise Skip("it has no public name, and serves ops that look at their inputs")
    done = 0
    for label, sample in each(op, device):
        for size, given in _emptied(sample):
            where = f"{label} with nothing along the dimensions of size {size}"
            try:
                results = tensors_in(call(op, given))
            except Exception as error:
                indexed = isinstance(error, IndexError) and _has_indices(given)  # they mean elements that are gone
                assert indexed or _refusal(error), (
                    f"{where}: raises {described(error)}; return what there is, or raise an error that says so"
                )
                continue
            _backward(given, results, where)
            against_meta(op, given, results, where)
            done += 1
    if not done:
        raise Skip("it refuses inputs without elements")


def _emptied(sample):
    """Yield (size, sample) for the sizes of the first tensor: all dimensions of that size have no elements."""
    first = next((t for t in sample.tensors() if t.ndim), None)
    for size in dict.fromkeys(() if first is None or sample.through is not None else first.shape):
        if size:
            yield size, sample.map(lambda t, size=size: _without(t, size))


def _without(tensor, size):
    if size not in tensor.shape:
        return tensor
    kept = tuple(slice(0, 0 if n == size else None) for n in tensor.shape)
    return tensor.detach()[kept].clone().requires_grad_(tensor.requires_grad)


def _has_indices(sample) -> bool:
    return any(not is_float(t) for t in sample.tensors())


def _backward(sample, results, where):
    """Assert that backward gives gradients, which are those of the right shape: the engine demands that."""
    outputs, wanted = differentiable(results), leaves(sample)
    if not outputs or not wanted:
        return
    try:
        gradients_of_sum(outputs, wanted)
    except NotImplementedError:  # it says so
        return
    except Exception as error:
        raise AssertionError(f"{where}: its backward raises {described(error)}") from error


def nan(op, device):
    """A NaN in an element that the results depend on is in the results as well; or the docstring speaks of NaN."""
    if re.search(r"\bnan", text_of(op), re.IGNORECASE):
        raise Skip("its docstring says what becomes of NaN")
    done = 0
    for label, sample in each(op, device):
        pair = graded(op, sample)
        if not pair:
            continue
        outputs, wanted = pair
        grads = plugrad.autograd.grad(outputs, wanted, cotangents_of(op, outputs), allow_unused=True)
        for number, (tensor, g) in enumerate(zip(wanted, grads, strict=True)):
            slopes = numpy.zeros(1) if g is None or not g.numel() else numpy.abs(reals(g))
            place = int(slopes.argmax())
            if not 0 < slopes[place] < numpy.inf:
                continue
            done += 1
            _judge_nan(op, sample, tensor, place, f"{label}, argument {argument_of(op, sample, number)!r}")
    if not done:
        raise Skip("no result is known to depend on an input")


def _judge_nan(op, sample, tensor, place, label):
    """Assert that results are not all finite, or refused, when one number of a tensor is NaN."""
    values = reals(tensor)
    values[place] = numpy.nan
    bad = like(tensor, values).to(tensor.dtype)
    element = tuple(map(int, numpy.unravel_index(place // (1 + tensor.dtype.is_complex), tuple(tensor.shape))))
    try:
        results = tensors_in(call(op, sample.map(lambda t: bad if t is tensor else t.detach())))
    except Exception as error:
        assert _refusal(error), f"{label}: with NaN in element {element} it raises {described(error)}"
        return
    assert not all(numpy.isfinite(reals(y)).all() for y in results if is_float(y)), (
        f"{label}: element {element} is NaN, and no result is, although they depend on it; keep NaN, or say in the "
        "docstring what becomes of it"
    )
