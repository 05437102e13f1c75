"""Matrices of derivatives: jacrev by rows, jacfwd by columns, hessian."""

from __future__ import annotations

import functools

import plugrad
from plugrad import enable_grad, nest
from plugrad.arguments import is_int
from plugrad.func.batching import check_randomness
from plugrad.func.forward import forward
from plugrad.func.recording import (
    Recorded,
    detached,
    gradients_of,
    outside_inference,
    refuse_complex,
    refuse_integers,
    results_of,
    select,
)


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """Return the function that computes the Jacobian of a function.

    Its sizes are those of the result, then those of the argument.

    Args:
        func: the function.
        argnums: number, or numbers, of the arguments to differentiate by.
        has_aux: func returns (result, nested tensors); return (Jacobian, that).
        chunk_size, _preallocate_and_copy: accepted; rows are computed one by one.

    >>> import plugrad as torch
    >>> torch.func.jacrev(lambda x: x**2)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    if chunk_size is not None and not is_int(chunk_size):
        raise TypeError(f"jacrev(): argument 'chunk_size' must be int, not {type(chunk_size).__name__}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @outside_inference
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        chosen, put = select(args, argnums, "jacrev")
        with Recorded(chosen) as recorded, enable_grad():
            refuse_complex(recorded.inputs, "input", "jacrev")
            value, outputs, aux = results_of(func(*put(recorded.arguments), **kwargs), has_aux, "jacrev, by vjp(f)")
            recorded.refuse_captured((outputs, aux))
            refuse_integers(outputs)
            refuse_complex(outputs, "output", "jacrev")
            lasting = recorded.lasting(outputs)
            blocks = [_jacobian(output, recorded.inputs, lasting) for output in outputs]
        jacobians = []
        for block in blocks:
            columns_of = nest.rebuild(chosen, iter(block))
            jacobians.append(columns_of[0] if isinstance(argnums, int) else columns_of)
        result = nest.rebuild(value, iter(jacobians))
        return (result, detached(aux, lasting)) if has_aux else result

    return transformed


def _jacobian(output, inputs, lasting):
    """Return the Jacobians of one output by all inputs, row by row."""
    rows = []
    for number in range(output.numel()):
        weight = plugrad.zeros(output.numel(), dtype=output.dtype, device=output.device)
        weight[number] = 1
        rows.append(gradients_of([output], inputs, [weight.reshape(output.shape)], lasting, retain_graph=True))
    if not rows:
        return [plugrad.zeros((*output.shape, *t.shape), dtype=output.dtype, device=output.device) for t in inputs]
    return [plugrad.stack(column).reshape((*output.shape, *tensor.shape)) for column, tensor in zip(zip(*rows), inputs)]


def jacfwd(func, argnums=0, has_aux=False, *, chunk_size=None, randomness="error"):
    """Return the function that computes the Jacobian of a function column by column.

    The result is that of jacrev, after as many passes as the arguments (not the results) have elements.

    Args:
        func, argnums, has_aux: as for jacrev.
        chunk_size, randomness: accepted, the latter as for vmap; columns are computed one by one, and func runs once.

    >>> import plugrad as torch
    >>> torch.func.jacfwd(lambda x: x**2)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    check_randomness(randomness)

    @outside_inference
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        chosen, put = select(args, argnums, "jacfwd")
        inputs = [*nest.leaves(chosen)]
        for tensor in inputs:
            if not isinstance(tensor, plugrad.Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(tensor)}")
            if not (tensor.is_floating_point() or tensor.is_complex()):
                raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
        refuse_complex(inputs, "input", "jacfwd")
        directions = [tangents for number in range(len(inputs)) for tangents in _unit_tangents(inputs, number)]
        value, outputs, pushed, aux = forward(
            lambda *values: func(*put(values), **kwargs), chosen, directions, has_aux, "jacfwd, by jvp(f)"
        )
        refuse_complex(outputs, "output", "jacfwd")
        jacobians = []
        for output, tangents in zip(outputs, pushed):
            columns = iter(tangents or (None,) * len(directions))
            blocks = [_columns(output, [next(columns) for _ in range(tensor.numel())], tensor) for tensor in inputs]
            columns_of = nest.rebuild(chosen, iter(blocks))
            jacobians.append(columns_of[0] if isinstance(argnums, int) else columns_of)
        result = nest.rebuild(value, iter(jacobians))
        return (result, aux) if has_aux else result

    return transformed


def _columns(output, tangents, tensor):
    """Return the derivative of an output by an input, of the tangents for each of the input's elements."""
    shape = (*output.shape, *tensor.shape)
    if all(tangent is None for tangent in tangents):
        return output.new_zeros(shape)
    zero = plugrad.zeros_like(output)
    return plugrad.stack([zero if tangent is None else tangent for tangent in tangents], -1).reshape(shape)


def _unit_tangents(inputs, chosen):
    """Yield tangents of which one element of one input is 1, element by element; None for the other inputs."""
    tensor = inputs[chosen]
    for number in range(tensor.numel()):
        tangents = [None] * len(inputs)
        unit = plugrad.zeros(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
        unit[number] = 1
        tangents[chosen] = unit.reshape(tensor.shape)
        yield tangents


def hessian(func, argnums=0):
    """Return the function that computes the second derivatives of a function.

    >>> import plugrad as torch
    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)
