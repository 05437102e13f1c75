"""PyTorch's older functions for whole Jacobians: measured, and by backward. `gradcheck` compares the two."""

from __future__ import annotations

import warnings

import numpy

import plugrad
from plugrad import Tensor, autograd

__all__ = ["get_analytical_jacobian", "get_numerical_jacobian", "get_numerical_jacobian_wrt_specific_input"]


def _say_old(name, grad_out) -> None:
    warnings.warn(f"`{name}` was part of PyTorch's private API: use gradcheck instead", FutureWarning, stacklevel=3)
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0.")


def _outputs(value) -> list:
    return [value] if isinstance(value, Tensor) else list(value)


def _measured(call, tensor, eps) -> list:
    """Return the measured Jacobians (elements of the tensor, elements of the output) of all outputs of `call()`."""
    if tensor.is_complex():
        raise NotImplementedError("a Jacobian of complex numbers is two matrices: gradcheck compares both")
    values, rows = tensor.data, []
    for index in numpy.ndindex(tuple(tensor.shape)):
        before = values[index].item()
        ends = []
        for step in (eps, -eps):
            values[index] = before + step
            with plugrad.no_grad():
                ends.append([output.detach().clone().reshape(-1) for output in _outputs(call())])
        values[index] = before
        rows.append([(high - low) / (2 * eps) for high, low in zip(*ends)])
    if not rows:
        return [output.new_zeros((0, output.numel())) for output in _outputs(call())]
    return [plugrad.stack(list(column)) for column in zip(*rows)]


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """Return the measured Jacobians of the first result of `fn(inputs)`.

    Args:
        fn: takes the tuple of inputs, returns a tensor or several.
        inputs: tensors, which are changed and put back.
        target: those to differentiate by; None for all inputs.
        eps: the step.
        grad_out: 1.0.

    Each has a row for each element of an input, and a column for each of the result.
    """
    _say_old("get_numerical_jacobian", grad_out)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    targets = inputs if target is None else _outputs(target)
    return tuple([_measured(lambda: fn(inputs), one, eps)[0] for one in targets if one.requires_grad])


def get_numerical_jacobian_wrt_specific_input(fn, input_idx, inputs, outputs, eps, input=None, is_forward_ad=False):
    """Return the measured Jacobians of all results of `fn(*inputs)` by one input."""
    return tuple(_measured(lambda: fn(*inputs), inputs[input_idx] if input is None else input, eps))


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """Return the Jacobians of an output by backward, and what is known of them.

    Args:
        inputs: tensors that require grad.
        output: a tensor that depends on them.
        nondet_tol: by how much two walks backward may differ.
        grad_out: 1.0.

    Returns (Jacobians, whether two walks agree, whether the gradients have the inputs' sizes, and their dtypes).
    """
    _say_old("get_analytical_jacobian", grad_out)
    inputs = [one for one in _outputs(inputs) if one.requires_grad]
    rows = [[], []]
    for place in range(output.numel()):
        weight = plugrad.zeros(output.numel(), dtype=output.dtype, device=output.device)
        weight[place] = 1
        for walk in rows:
            walk.append(
                autograd.grad(output, inputs, weight.reshape(output.shape), retain_graph=True, allow_unused=True)
            )
    first, second = (
        tuple([
            plugrad.stack([
                (plugrad.zeros_like(one) if grad is None else grad).reshape(-1) for grad in column
            ], 1) if walk else one.new_zeros((one.numel(), 0))
            for one, column in zip(inputs, zip(*walk) if walk else [()] * len(inputs))
        ])
        for walk in rows
    )  # fmt: skip
    same = all(bool(((one - other).abs() <= nondet_tol).all()) for one, other in zip(first, second))
    grads = [(one, grad) for row in rows[0] for one, grad in zip(inputs, row) if grad is not None]
    sizes = all(grad.shape == one.shape for one, grad in grads)
    return first, same, sizes, all(grad.dtype is one.dtype for one, grad in grads)
