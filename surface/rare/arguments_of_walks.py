"""What `grad` and `backward` do before they walk, where their arguments are not plain tensors and default options.

Modes and the classes of tensors are asked, as ops ask them, inputs may be a dict, and some options are old.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from plugrad import Tensor
from plugrad.autograd.graph import GradientEdge
from plugrad.autograd.rare.batched_grads import batched_grad
from plugrad.autograd.rare.gradients_of_roots import filled
from plugrad.overrides import (
    _get_current_function_mode,
    handle_torch_function,
    has_torch_function,
    is_tensor_like,
    not_ours,
    watch_classes,
)
from plugrad.tensor.tensor import make


def several(value) -> tuple:
    """Return tensors or edges as a tuple, be it one, the values of a dict, or some; TypeError for what is neither.

    What is no Tensor, and of a class with a `__torch_function__`, is one.
    """
    if type(value) is dict:
        value = value.values()
    elif isinstance(value, Mapping):
        raise TypeError(f"tensors by name must be in a dict, not {type(value).__name__}: write dict(...)")
    one = isinstance(value, GradientEdge) or is_tensor_like(value)
    if not one and not hasattr(value, "__iter__"):
        raise TypeError(f"expected Tensors or GradientEdges, got {type(value).__name__}")
    tensors = (value,) if one else tuple(value)
    if any([is_tensor_like(tensor) and not isinstance(tensor, Tensor) for tensor in tensors]):
        watch_classes()
    return tensors


def of_older_name(grad_variables, grad_tensors):
    """Return the gradients that `backward` got by the name that they had before; RuntimeError if by both names."""
    warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=3)
    if grad_tensors is not None:
        raise RuntimeError(
            "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use "
            "`grad_tensors`."
        )
    return grad_variables


def _asked(function, relevant, *args, **kwargs) -> tuple:
    """Return (what modes and classes make of a call,), () where there is none to ask.

    plugrad's own kinds of tensors are not asked: walks know them. Nor are modes that are to see the ops of a walk.
    """
    last = _get_current_function_mode()
    if last is not None and not last.sees_walks:
        return ()
    relevant = not_ours(*relevant)
    return (handle_torch_function(function, relevant, *args, **kwargs),) if has_torch_function(relevant) else ()


def of_backward(backward, tensors, gradients, retain_graph, create_graph, inputs, report) -> tuple:
    """Return (what modes and classes make of `autograd.backward`,), () where there is none to ask."""
    options = {"retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
    options |= {} if report is None else {"report": report}
    return _asked(backward, (*tensors, *(inputs or ())), tensors, grad_tensors=gradients, **options)


def of_tensor(method, tensor, gradient, retain_graph, create_graph, inputs, report) -> tuple:
    """Return (what modes and a tensor's class make of its method `backward`,), () where there is none to ask."""
    options = {"gradient": gradient, "retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
    options |= {} if report is None else {"report": report}
    return _asked(method, (tensor,), tensor, **options)


def of_grad(grad, outputs, inputs, given, grad_outputs, options) -> tuple:
    """Return (what a call of `autograd.grad` that is not plain gives,), () if it is.

    Args:
        grad: the function itself, which may be called again.
        inputs: `given` as they came, be it in a dict.
        options: the further arguments by name.
    """
    result = _asked(grad, (*outputs, *given), outputs, given, grad_outputs=grad_outputs, **options)
    if not result and not options["only_inputs"]:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=3,
        )
    options = {**options, "only_inputs": True}
    if not result and options.pop("is_grads_batched"):
        result = (batched_grad(grad, outputs, given, grad_outputs, **options),)
    elif not result and type(inputs) is dict:
        result = (grad(outputs, given, grad_outputs, **options),)
    return (dict(zip(inputs, result[0], strict=True)),) if result and type(inputs) is dict else result


def zeros_for(given, create_graph):
    """Return the zeros that stand for the gradient of an input; RuntimeError for an edge, which has no shape."""
    if not isinstance(given, Tensor):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    return make(filled("zeros", given), given._type.plain).requires_grad_(create_graph)


def unused_input(position: int, tensor) -> RuntimeError:
    """Return the error of `grad` for an input that the outputs do not depend on."""
    return RuntimeError(
        f"The differentiated Tensor at index {position} appears to not have been used in the graph. Set "
        f"allow_unused=True if this is the desired behavior. (Its shape is {list(tensor.shape)}.)"
    )
