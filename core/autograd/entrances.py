"""`backward` and `grad`: the two ways to start a walk over the graph."""

from __future__ import annotations

from operator import index

from plugrad.autograd.accumulate import owned_tensor, writable
from plugrad.autograd.roots import walk
from plugrad.graph import rare
from plugrad.graph.modes import LEAF, watched
from plugrad.tensor.tensor import Tensor, core_method


def _flags(create_graph, retain_graph) -> tuple:
    """Return `create_graph` and whether to keep saved values, as bools; TypeError for what is no bool or int."""
    create = create_graph if type(create_graph) is bool else bool(index(create_graph))
    return create, create if retain_graph is None else bool(index(retain_graph))


def _tuple(value) -> tuple:
    if isinstance(value, Tensor):
        return (value,)
    if value.__class__ in (list, tuple) and all([isinstance(one, Tensor) for one in value]):
        return tuple(value)
    return rare.several(value)


def backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None, *, report=None
):
    """Accumulate the gradient of `tensors` in the leaves that they depend on.

    `grad_tensors` are the gradients of a scalar function of `tensors`; None for scalars. With `inputs`, a sequence or
    a dict, only these tensors are filled. With `report`, a Module or a dict of tensors by name, a warning lists those
    that receive no gradient, and where the path to each ends (see `explain_missing`).

    >>> import plugrad as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    tensors = _tuple(tensors)
    if inputs is not None:
        inputs = _tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    gradients = grad_tensors if grad_variables is None else rare.of_older_name(grad_variables, grad_tensors)
    if watched and (told := rare.of_backward(backward, tensors, gradients, retain_graph, create_graph, inputs, report)):
        return told[0]
    gradients = (None,) * len(tensors) if gradients is None else _tuple(gradients)
    if len(gradients) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(gradients)} gradients")
    create_graph, retain = _flags(create_graph, retain_graph)
    if create_graph:
        rare.warn_of_cycle()
    if report is not None:
        rare.warn_missing(tensors, report)
    targets = None
    if inputs is not None:
        given = [(one, isinstance(was, Tensor)) for one, was in zip(_targets(inputs, tensors), inputs)]
        targets = lambda: {_target(tensor, retain=whole): True for tensor, whole in given}  # noqa: E731
    walk(tensors, gradients, retain=retain, create=create_graph, targets=targets)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Return the gradients of outputs with respect to inputs; `.grad` stays as it is.

    With `is_grads_batched` each of `grad_outputs` is a batch, whose first dimension the gradients have, too.
    With `create_graph` the gradients can be differentiated again. An input that the outputs do not depend on is an
    error unless `allow_unused` (None for it) or `materialize_grads` (zeros for it). A dict of inputs gives a dict.

    >>> import plugrad as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (g,) = torch.autograd.grad(x**3, x, create_graph=True)
    >>> g.item(), torch.autograd.grad(g, x)[0].item()
    (27.0, 18.0)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    index(0 if allow_unused is None else allow_unused)  # TypeError for what is no flag
    outputs, given = _tuple(outputs), _tuple(inputs)
    if not given:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if watched or is_grads_batched or not only_inputs or inputs.__class__ is dict:
        options = {"allow_unused": allow_unused, "materialize_grads": materialize_grads, "only_inputs": only_inputs}
        options |= {"retain_graph": retain_graph, "create_graph": create_graph, "is_grads_batched": is_grads_batched}
        if told := rare.of_grad(grad, outputs, inputs, given, grad_outputs, options):
            return told[0]
    inputs = _targets(given, outputs)
    gradients = (None,) * len(outputs) if grad_outputs is None else _tuple(grad_outputs)
    if len(gradients) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} outputs and {len(gradients)} grad_outputs")
    targets = lambda: dict.fromkeys(map(_target, inputs), False)  # noqa: E731
    create_graph, retain = _flags(create_graph, retain_graph)
    captured = walk(outputs, gradients, retain=retain, create=create_graph, targets=targets)
    arrived = [captured.get(_target(tensor)) for tensor in reversed(inputs)]
    del captured
    results = []
    for position, tensor in enumerate(inputs):
        if arrived[-1] is not None:
            on_tensors = isinstance(arrived[-1], Tensor)
            results.append(writable(arrived.pop()) if on_tensors else owned_tensor(arrived, tensor._type.plain))
            continue
        arrived.pop()
        if materialize_grads:
            results.append(rare.zeros_for(given[position], create_graph))
        elif allow_unused:
            results.append(None)
        else:
            raise rare.unused_input(position, tensor)
    return tuple(results)


def _targets(inputs, outputs) -> tuple:
    """Return the tensors to differentiate by; for a GradientEdge a tensor with that history."""
    return tuple([one if isinstance(one, Tensor) else rare.stand_in(one, outputs) for one in inputs])


def _target(tensor, retain=False):
    """Return the edge at which a walk finds the gradient of a tensor, which has it kept if `retain`."""
    edge = tensor._live_edge()
    if edge is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad: call requires_grad_() on it first")
    if retain:
        tensor.retain_grad()
    return tensor if edge is LEAF else edge


@core_method("backward")
def _backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None, *, report=None):
    """Accumulate the gradient of this tensor, times `gradient`, in the leaves.

    `gradient` is needed unless this is a scalar. With `report=model` a warning lists the parameters that receive none,
    and where the path to each ends.
    """
    if watched and (told := rare.of_tensor(_backward, self, gradient, retain_graph, create_graph, inputs, report)):
        return told[0]
    backward(self, gradient, retain_graph, create_graph, inputs=inputs, report=report)
