"""Checks of an op's derivatives: three orders, both modes of the formulas, forward, batched, and what nodes keep."""

from __future__ import annotations

import gc
import weakref

import numpy

import plugrad
from plugrad.testing.calls import (
    Skip,
    agree,
    argument_of,
    call,
    cotangents_of,
    described,
    each,
    each_differentiable,
    function_of,
    graded,
    gradients,
    named_tensors,
)
from plugrad.testing.gradients.differences import TRUST, measure
from plugrad.testing.gradients.flat import FlatFunction
from plugrad.testing.gradients.of_ops import argument_name, verdict_on
from plugrad.testing.gradients.verdict import FAIL, INCONCLUSIVE
from plugrad.testing.samples import Maker
from plugrad.testing.tensors import like, reals, tensors_in


def gradient(op, device):
    """The gradients agree with measured slopes."""
    _judge(op, device, 1)


def second_gradient(op, device):
    """The gradients of the gradients agree with measured slopes."""
    _judge(op, device, 2)


def third_gradient(op, device):
    """The third derivatives agree with measured slopes, too."""
    _judge(op, device, 3)


def once(op, device):
    """The gradient of an op with once=True can be recorded, and refuses to be differentiated again."""
    for label, sample in each_differentiable(op, device):
        outputs, leaves = graded(op, sample)
        grads = plugrad.autograd.grad(outputs, leaves, cotangents_of(op, outputs), create_graph=True, allow_unused=True)
        recorded = [g for g in grads if g is not None and g.requires_grad]
        try:
            plugrad.autograd.grad(recorded, leaves, [plugrad.ones_like(g) for g in recorded], allow_unused=True)
        except RuntimeError as error:
            assert "once=True" in str(error), f"{label}: {error}"
            continue
        raise AssertionError(f"{label}: it says once=True, and its gradient was differentiated again")


def _judge(op, device, order):
    verdicts = [(label, assert_right(op, sample, label, order)) for label, sample in each_differentiable(op, device)]
    label, first = verdicts[0]
    judged = any(verdict.status != INCONCLUSIVE for _, verdict in verdicts)
    assert judged, f"{label}: {first.message}"


def assert_right(op, sample, label, order=1):
    """Return the verdict on a gradient at a sample; AssertionError, naming argument and element, if that is FAIL."""
    verdict = verdict_on(op, sample, order, fast_mode=True)
    if verdict.status == FAIL:
        name = argument_name(op, sample, verdict.input)
        argument = "" if name is None else f", argument {name!r}"
        element = "" if verdict.element is None else f", element {verdict.element}"
        raise AssertionError(f"{label}{argument}{element}: {verdict.message}")
    return verdict


def formula_modes(op, device):
    """The formulas give the same on raw arrays and on recorded tensors."""
    for label, sample in each_differentiable(op, device):
        plain, recorded = gradients(op, sample), gradients(op, sample, create_graph=True)
        for number, (one, other) in enumerate(zip(plain, recorded, strict=True)):
            where = f"{label}, argument {argument_of(op, sample, number)!r}, create_graph=True against False"
            assert (one is None) == (other is None), f"{where}: one of them is None"
            if one is not None:
                agree(other.detach(), one, where, rtol=1e-9, atol=1e-11)


def single_inputs(op, device):
    """Each input's gradient is the same when none of the others requires one."""
    done = 0
    for label, sample in each_differentiable(op, device):
        given = [t for t in sample.tensors() if t.requires_grad]
        if len(given) < 2 or len({id(t) for t in given}) < len(given) or sample.through is not None:
            continue
        for number, (leaf, together) in enumerate(zip(given, _by_result(op, sample), strict=True)):
            narrowed = sample.map(lambda t, leaf=leaf: t.detach().requires_grad_(t is leaf) if t.requires_grad else t)
            (alone,) = _by_result(op, narrowed)
            where = f"{label}, argument {argument_of(op, sample, number)!r}, which alone requires grad"
            agree(alone, together, where, rtol=1e-9, atol=1e-11)
        done += 1
    if not done:
        raise Skip("no sample has several inputs that require grad")


def _by_result(op, sample) -> list:
    """Return the gradients of a sample's leaves, zeros for None; each result has a grad_output of its own."""
    results, inputs = tensors_in(call(op, sample)), [t for t in sample.tensors() if t.requires_grad]
    pairs = [(y, g) for y, g in zip(results, cotangents_of(op, results), strict=True) if y.requires_grad]
    if not pairs:
        return [plugrad.zeros_like(t) for t in inputs]
    outputs, arriving = map(list, zip(*pairs, strict=True))
    return list(plugrad.autograd.grad(outputs, inputs, arriving, materialize_grads=True))


def _of_leaves(op, sample) -> tuple:
    """Return (function, tensors): the call as a function of the tensors that require grad; see `FlatFunction`."""
    flat = FlatFunction(*function_of(op, sample))
    flat.forward()
    return flat.of_leaves()


def forward_mode(op, device):
    """The derivative along a direction, by `func.jvp`, agrees with the measured slope."""
    for label, sample in each_differentiable(op, device):
        function, leaves = _of_leaves(op, sample)
        make = Maker(op.name + " tangent", device=device)
        tangents = [make(*t.shape, dtype=t.dtype, requires_grad=False) for t in leaves]
        _, forward = plugrad.func.jvp(function, tuple(t.detach() for t in leaves), tuple(tangents))
        told = numpy.concatenate([reals(y) for y in forward])
        slopes, base = _slopes(function, leaves, tangents)
        if not op.once:
            _reverse_twice(function, leaves, tangents, told, label, ~numpy.isnan(base))
        span, size = (float(numpy.nanmax(numpy.abs([0.0, *values]))) for values in (told, base))
        allowed = TRUST * slopes.error + 1e-6 * numpy.abs(slopes.value) + 1e-9 * (span + size)
        vague = ~(TRUST * slopes.error <= 1e-2 * numpy.maximum(numpy.abs(slopes.value), 1e-3 * span)) | slopes.kink
        wrong = ~vague & ~(numpy.abs(told - slopes.value) <= allowed)
        if wrong.any():
            place = int(wrong.argmax())
            raise AssertionError(
                f"{label}, value {place} of the result: func.jvp gives {told[place]:.9g} along a random direction, "
                f"measured is {slopes.value[place]:.9g}"
            )


def _reverse_twice(function, leaves, tangents, told, label, judged) -> None:
    """Assert that the gradient's derivative by what arrives from above is the derivative along a direction, too.

    `judged` says for which values; a gradient that has no history does not depend on what arrives: it must be zero.
    """
    inputs = [t.detach().requires_grad_() for t in leaves]
    outputs = [y for y in tensors_in(function(*inputs)) if y.requires_grad]
    arriving = [plugrad.zeros_like(y, requires_grad=True) for y in outputs]
    grads = plugrad.autograd.grad(outputs, inputs, arriving, create_graph=True, allow_unused=True)
    pairs = [(g, t) for g, t in zip(grads, tangents, strict=True) if g is not None and g.requires_grad]
    along = [plugrad.zeros_like(one) for one in arriving]
    if pairs:
        gradients, directions = [g for g, _ in pairs], [t for _, t in pairs]
        along = plugrad.autograd.grad(gradients, arriving, directions, materialize_grads=True)
    twice = numpy.concatenate([reals(y) for y in along])
    if twice.shape == told.shape and not numpy.allclose(twice[judged], told[judged], 1e-5, 1e-8, equal_nan=True):
        raise AssertionError(f"{label}: func.jvp gives {told}, the gradient's gradient along that direction {twice}")


def _slopes(function, leaves, tangents):
    """Measure the slopes of a function's values along a direction; return them and the values."""
    start, along = [reals(t) for t in leaves], [reals(t) for t in tangents]

    def probe(step):
        moved = [
            like(t, values + step * slope).to(t.dtype) for t, values, slope in zip(leaves, start, along, strict=True)
        ]
        with plugrad.no_grad(), numpy.errstate(all="ignore"):
            return numpy.concatenate([reals(y) for y in function(*moved)])

    base = probe(0.0)
    with numpy.errstate(all="ignore"):
        return measure(probe, base, 4 * 2.0**-52 * numpy.abs(base)), base


def _judge_rule(op, sample, label) -> None:
    """Assert that an op's declared rule for batches gives what its calls on the slices give.

    The batches are the first dimension of all tensors, the last, now one and now the other, and of one tensor alone.
    """
    places = [i for i, t in enumerate(sample.args) if isinstance(t, plugrad.Tensor) and t.is_floating_point()]
    choices = [dict.fromkeys(places, 0), dict.fromkeys(places, -1)]
    if len(places) > 1:
        choices += [{place: -(number % 2) for number, place in enumerate(places)}, *({one: 0} for one in places)]
    for chosen in choices:
        dims = [sample.args[i].ndim if chosen.get(i) == -1 else chosen.get(i) for i in range(len(sample.args))]
        pairs = [
            [value, value] if dim is None else [value.detach(), 0.75 * value.detach()]
            for value, dim in zip(sample.args, dims, strict=True)
        ]
        args = [pair[0] if dim is None else plugrad.stack(pair, dim) for pair, dim in zip(pairs, dims, strict=True)]
        about = f"{label}, the op's own rule for batches along {dims}"
        try:
            together = plugrad.func.vmap(op.function, in_dims=tuple(dims))(*args, **sample.kwargs)
        except (TypeError, ValueError) as error:  # what it returns is no batch
            raise AssertionError(f"{about}: {described(error)}") from error
        alone = [op.function(*[pair[number] for pair in pairs], **sample.kwargs) for number in (0, 1)]
        for one, *rows in zip(*map(tensors_in, (together, *alone)), strict=True):
            agree(one.detach(), plugrad.stack(rows).detach(), about)


def batched(op, device):
    """`func.vmap` over the call and over its backward gives what single calls give."""
    done = 0
    for label, sample in each_differentiable(op, device):
        if sample.through is not None:
            continue
        if op.batched is not None:
            _judge_rule(op, sample, label)
        function, leaves = _of_leaves(op, sample)
        alone = function(*leaves)
        stacked = tuple(plugrad.stack([t.detach(), t.detach()]) for t in leaves)
        together = plugrad.func.vmap(function, randomness="same")(*stacked)
        for one, both in zip(alone, together, strict=True):
            agree(both.detach(), plugrad.stack([one, one]).detach(), f"{label}, func.vmap over the call")
        outputs, leaves = graded(op, sample)
        pulls = [cotangents_of(op, outputs, name) for name in ("one", "other")]

        def backward(*cotangents, outputs=outputs, leaves=leaves):
            grads = plugrad.autograd.grad(outputs, leaves, cotangents, retain_graph=True, allow_unused=True)
            return tuple(g for g in grads if g is not None)

        rows = plugrad.func.vmap(backward)(*[plugrad.stack(pair) for pair in zip(*pulls, strict=True)])
        for number, pull in enumerate(pulls):
            for row, one in zip(rows, backward(*pull), strict=True):
                agree(row[number].detach(), one.detach(), f"{label}, func.vmap over backward", rtol=1e-9, atol=1e-11)
        done += 1
    if not done:
        raise Skip("its samples call it in a way of their own")


def saved_tensors(op, device):
    """After backward nodes hold nothing, and what a call was given dies with its results, without collecting."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        for label, sample in each(op, device):
            given = _used(op, sample, label)
            alive = [name for name, reference in given if reference() is not None]
            assert not alive, (
                f"{label}, {alive[0]}: its memory is still held after the call and its backward, when all results are "
                "gone"
            )
    finally:
        if collecting:
            gc.enable()


def _used(op, sample, label) -> list:
    """Call an op and its backward with copies of a sample; return weak references to all arrays in it, by name."""
    fresh = sample.copied()
    references = [(f"argument {name!r}", weakref.ref(t._raw)) for name, t in named_tensors(op, fresh)]
    pair = graded(op, fresh)
    results = pair[0] if pair else tensors_in(call(op, fresh))
    references += [(f"result {i}", weakref.ref(y._raw)) for i, y in enumerate(results)]
    if not pair:
        return references
    outputs, leaves = pair
    for number, leaf in enumerate(leaves):  # what the formula returns: who asks for a gradient may get a copy of it
        leaf.register_hook(lambda g, name=f"gradient {number}": references.append((name, weakref.ref(g._raw))))
    grads = plugrad.autograd.grad(outputs, leaves, cotangents_of(op, outputs), allow_unused=True)
    references += [(f"gradient {i}", weakref.ref(g._raw)) for i, g in enumerate(grads) if g is not None]
    waiting, seen = [y.grad_fn for y in outputs], set()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen or not hasattr(node, "saved"):
            continue
        seen.add(id(node))
        kept = [value for value in node.saved or () if hasattr(value, "dtype") and hasattr(value, "shape")]
        assert not kept, f"{label}: {node.name()} holds {len(kept)} arrays after backward"
        waiting += [following for following, _ in node.next_functions]
    return references
