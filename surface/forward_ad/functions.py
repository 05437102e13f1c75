"""Custom Functions on tensors that carry tangents: the user's `jvp` says what those of the outputs are."""

from __future__ import annotations

import plugrad
from plugrad import Tensor
from plugrad.autograd import Function
from plugrad.autograd.forward_ad.levels import youngest
from plugrad.autograd.forward_ad.rules import Linearized, is_float
from plugrad.autograd.function_node import function_node
from plugrad.graph.modes import mode


class _Forward:
    """Stands for the node in the context that `jvp` gets: what it saved is what was saved for forward."""

    def __init__(self, node, saved):
        self._node, self.saved_tensors = node, saved

    def __getattr__(self, name):
        return getattr(self._node, name)


def function_of_duals(run, node, args, kwargs, inputs):
    """Carry out a call of a Function by `run(node, args, kwargs)`, and give its outputs tangents by the user's jvp.

    Returns None if no input has a tangent.
    """
    level = youngest(inputs)
    if level is None:
        return None
    user = node.user
    with level.hidden(inputs) as hidden:
        node.attributes.setdefault("_for_forward", ())
        result = run(node, args, kwargs)
        saved = node.attributes.pop("_for_forward", ())
        if mode.forward_paused or mode.inference:
            return result
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        arguments = [*args, *kwargs.values()]
        if user.jvp is Function.jvp:
            along = [[hidden.of(value, direction) for value in arguments] for direction in range(level.directions)]
            pushed = _by_pulls(run, node, args, kwargs, along)
        else:
            context = object.__new__(user)
            context._node, context.__dict__ = _Forward(node, saved), node.attributes
            pushed = [
                _by_rule(user.jvp, context, arguments, outputs, hidden, number) for number in range(level.directions)
            ]
    for output, tangents in zip(outputs, zip(*pushed)):
        if isinstance(output, Tensor) and any(tangent is not None for tangent in tangents):
            level.put_on(output, tangents)
    return result


def _by_rule(jvp, context, arguments, outputs, hidden, direction) -> tuple:
    """Return the tangents of the outputs in one direction by the user's jvp, checked."""
    node = context._node._node
    given = [_tangent(value, hidden, direction, node) for value in arguments]
    before = {id(value): (tangent, _version(tangent)) for value, tangent in zip(arguments, given)}
    tangents = jvp(context, *given)
    tangents = tangents if isinstance(tangents, tuple) else (tangents,)
    _check(node, outputs, tangents, arguments, before)
    return tangents


def _by_pulls(run, node, args, kwargs, along) -> list:
    """Return the tangents of the outputs in all directions for a Function without jvp: by its backward, used twice."""

    def call(values):
        again = dict(zip(kwargs, values[len(args) :]))
        return run(function_node(node.user), values[: len(args)], again)

    if "_dirty" in node.attributes:
        Function.jvp(None)
    try:
        linear = Linearized(call, [*args, *kwargs.values()], along, lambda position: True)
        return [linear.push(tangents) for tangents in along]
    except NotImplementedError:
        return Function.jvp(None)  # raises


def _version(tangent):
    return tangent._version if isinstance(tangent, Tensor) else None


def _tangent(value, hidden, direction, node):
    """Return what jvp gets for an argument: its tangent, or zeros where these are asked for."""
    tangent = hidden.of(value, direction)
    if tangent is None and is_float(value) and node.attributes.get("_materialize", True):
        return plugrad.zeros_like(value)
    return tangent


def _check(node, outputs, tangents, arguments, before) -> None:
    """Raise RuntimeError unless a jvp returned a fitting tangent for each output."""
    if len(tangents) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got "
            f"{len(tangents)})"
        )
    fixed = node.attributes.get("_not_differentiable", ())
    for number, (output, tangent) in enumerate(zip(outputs, tangents)):
        if tangent is None:
            continue
        if not isinstance(tangent, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {number}.")
        recorded = any(isinstance(one, Tensor) and one.requires_grad for one in outputs)
        if not is_float(output) or any(output is one for one in fixed) or recorded and not output.requires_grad:
            raise RuntimeError(
                f"Function's jvp returned a gradient at position {number}, but the corresponding forward output is not "
                "a differentiable Tensor. You should return None at that position instead."
            )
        if not is_float(tangent):
            raise RuntimeError(
                f"Function's jvp returned a tangent of {tangent.dtype} at position {number}, for an output of "
                f"{output.dtype}: convert it, or return None where the output does not change."
            )
        if tangent.shape != output.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                f"not supported. Tensor is of size {list(output.shape)} while the given forward gradient is of size "
                f"{list(tangent.shape)}."
            )
        own, version = before.get(id(output), (None, None))
        if own is not None and output._version and any(output is one for one in arguments):
            if tangent is not own or tangent._version == version:
                raise RuntimeError(
                    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                    "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
                )
        elif _shares(output, arguments) and not _shares(tangent, [tangent for tangent, _ in before.values()]):
            raise RuntimeError(
                f"A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a "
                f"view ({node.user.__name__})."
            )


def _shares(tensor, others) -> bool:
    """Whether a tensor lies in the memory of one of some others."""
    storage = lambda one: one._type.backend.storage(one._raw)  # noqa: E731
    return any(isinstance(one, Tensor) and storage(one) is storage(tensor) for one in others)
