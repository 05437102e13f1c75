"""Transforms by a walk backward: grad, grad_and_value, value_and_grad and vjp."""

from __future__ import annotations

import functools

import plugrad
from plugrad import Tensor, enable_grad, is_grad_enabled, nest
from plugrad.func.recording import (
    Recorded,
    detached,
    gradients_of,
    outside_inference,
    refuse_integers,
    results_of,
    select,
    with_aux,
)
from plugrad.utils._pytree import tree_structure


def grad_and_value(func, argnums=0, has_aux=False):
    """Return the function that computes (gradient, value) of a scalar function.

    Args:
        func: the function; its result is a tensor of one element, or (that, nested tensors) with `has_aux`.
        argnums: number, or numbers, of the arguments to differentiate by.
        has_aux: return (gradient, (value, the other result)).

    Raises RuntimeError for other results.

    >>> import plugrad as torch
    >>> torch.func.grad_and_value(lambda x: x**2)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @outside_inference
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        chosen, put = select(args, argnums, "grad")
        with Recorded(chosen) as recorded, enable_grad():
            value, aux = with_aux(func(*put(recorded.arguments), **kwargs), has_aux, "grad_and_value(f)(*args)")
            recorded.refuse_captured((value, aux))
            if not isinstance(value, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}")
            if value.ndim:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                    f"{value.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            if value.is_complex():
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {value.dtype}: take .real or "
                    ".abs() of it, or use vjp"
                )
            lasting = recorded.lasting([value])
            gradients = gradients_of([value], recorded.inputs, [plugrad.ones_like(value)], lasting)
        grads = nest.rebuild(chosen, iter(gradients))
        grads = grads[0] if isinstance(argnums, int) else grads
        value = detached(value, lasting)
        return grads, (value, detached(aux, lasting)) if has_aux else value

    return transformed


def value_and_grad(func, argnums=0, has_aux=False):
    """Return the function that computes (value, gradient); see grad_and_value.

    >>> import plugrad as torch
    >>> torch.func.value_and_grad(lambda x: x**2)(torch.tensor(3.0))
    (tensor(9.), tensor(6.))
    """
    both = grad_and_value(func, argnums, has_aux)
    return functools.wraps(func)(lambda *args, **kwargs: both(*args, **kwargs)[::-1])


def grad(func, argnums=0, has_aux=False):
    """Return the function that computes the gradient of a scalar function.

    The arguments are those of grad_and_value.

    >>> import plugrad as torch
    >>> third = torch.func.grad(torch.func.grad(torch.func.grad(lambda x: x**4)))
    >>> third(torch.tensor(2.0))
    tensor(48.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def transformed(*args, **kwargs):
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return transformed


@outside_inference
def vjp(func, *primals, has_aux=False):
    """Return `func(*primals)` and the function from cotangents to gradients.

    >>> import plugrad as torch
    >>> value, pull = torch.func.vjp(lambda x: x**2, torch.tensor([1.0, 2.0]))
    >>> pull(torch.tensor([1.0, 1.0]))
    (tensor([2., 4.]),)
    """
    with Recorded(primals) as recorded, enable_grad():
        value, outputs, aux = results_of(func(*recorded.arguments), has_aux, "vjp(f, *primals)")
        refuse_integers(outputs)
        recorded.refuse_captured((outputs, aux))
        depends = recorded.depends(outputs)
        lasting = depends and recorded.kept

    @outside_inference
    def pull(cotangents, retain_graph=True, create_graph=None):
        weights = [*nest.leaves(cotangents)]
        if isinstance(value, Tensor) and weights and weights[0] is cotangents and not isinstance(cotangents, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(cotangents).__name__}")
        if len(weights) != len(outputs) or tree_structure(cotangents) != tree_structure(value):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function: there are {len(outputs)} outputs, {tree_structure(value)}, and {len(weights)} cotangents, "
                f"{tree_structure(cotangents)}"
            )
        for weight in weights:
            if not isinstance(weight, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(weight).__name__}")
        create = create_graph
        if create is None:
            create = is_grad_enabled() and (depends or any(weight.requires_grad for weight in weights))
        with enable_grad():
            grads = gradients_of(outputs, recorded.inputs, weights, create, retain_graph)
        return nest.rebuild(primals, iter(grads))

    shown = detached(value, lasting)
    return (shown, pull, detached(aux, lasting)) if has_aux else (shown, pull)
