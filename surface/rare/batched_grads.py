"""`autograd.grad` with a batch of gradients for each output."""

from __future__ import annotations

import plugrad
from plugrad import Tensor


def batched_grad(grad, outputs, inputs, grad_outputs, retain_graph, create_graph, **options):
    """Return the gradients for each slice of `grad_outputs`, stacked: as many walks, one after the other.

    `grad` walks once. Raises RuntimeError for a gradient whose slices have not the shape of its output.
    """
    outputs = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if grad_outputs is None or isinstance(grad_outputs, Tensor):
        grad_outputs = (grad_outputs,)
    if len(grad_outputs) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} outputs and {len(grad_outputs)} grad_outputs")
    for number, (output, weights) in enumerate(zip(outputs, grad_outputs)):
        if isinstance(weights, Tensor) and (not weights.ndim or weights.shape[1:] != output.shape):
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{number}] has a shape of {weights.shape} and "
                f"output[{number}] has a shape of {output.shape}."
            )
    sizes = {weights.shape[0] for weights in grad_outputs if isinstance(weights, Tensor)}
    if len(sizes) != 1:
        raise RuntimeError(
            "grad: is_grads_batched=True needs a batch of gradients, of one size for all outputs; the sizes are "
            f"{sorted(sizes)}"
        )
    (size,) = sizes
    keep = create_graph if retain_graph is None else retain_graph
    rows = []
    for number in range(max(size, 1)):
        weights = [
            None if one is None else one[number] if size else one.new_zeros(one.shape[1:]) for one in grad_outputs
        ]
        retain = keep or number + 1 < size
        rows.append(grad(outputs, inputs, weights, retain, create_graph, **options))
    return tuple([_stacked(column, size) for column in zip(*rows)])


def _stacked(grads, size):
    if grads[0] is None:
        return None
    stacked = plugrad.stack(grads)
    return stacked if size else stacked[:0]
