"""`plugrad.autograd.functional`: Jacobians, Hessians and their products, of functions of several tensors."""

from __future__ import annotations

import plugrad
from plugrad import Tensor, autograd, enable_grad, nest
from plugrad.autograd.forward_ad import leaf_of
from plugrad.func import jacfwd

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _inputs(inputs, create_graph):
    """Return (inputs as a tuple of tensors that require grad, whether it was one tensor)."""
    single = not isinstance(inputs, (tuple, list))
    values = (inputs,) if single else tuple(inputs)
    for position, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"the inputs must be Tensors, but the one at index {position} has type {type(value).__name__}"
            )
    if create_graph:
        return tuple(v.view_as(v) if v.requires_grad else v.detach().requires_grad_() for v in values), single
    return tuple(v.detach().requires_grad_() for v in values), single


def _outputs(outputs):
    single = not isinstance(outputs, (tuple, list))
    values = (outputs,) if single else tuple(outputs)
    for value in values:
        if not isinstance(value, Tensor):
            raise TypeError(f"the function must return Tensors, it returned a {type(value).__name__}")
    return values, single


def _vectors(vectors, like, name):
    if vectors is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector {name} can only be None if the user-provided function returns a single Tensor with a "
                "single element."
            )
        return tuple(value.detach().clone().fill_(1) for value in like)
    vectors = vectors if isinstance(vectors, tuple) else (vectors,)
    for vector in vectors:
        if not isinstance(vector, Tensor):
            raise TypeError(
                f"The {name} given must be either a Tensor or a tuple of Tensors, not one with {type(vector).__name__}"
            )
    if len(vectors) != len(like):
        raise RuntimeError(f"{name} must have {len(like)} tensors, it has {len(vectors)}")
    for position, (vector, value) in enumerate(zip(vectors, like)):
        if vector.shape != value.shape:
            raise RuntimeError(
                f"v has invalid size: entry {position} of {name} has shape {list(vector.shape)}, it should be "
                f"{list(value.shape)}"
            )
    return vectors


_INDEPENDENT = {
    "outputs": "Output {} of the user-provided function does not require gradients: it must be computed in a "
    "differentiable manner from the input",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    "input {} is independent of the input: the function must be twice differentiable, and not linear",
    "gradient": "The gradient with respect to input {} is independent of the inputs of the user-provided function",
    "input": "The output of the user-provided function is independent of input {}",
    "graph": "The jacobian of the user-provided function is independent of input {}: it has no history, as "
    "create_graph=True asks for",
}


def _check(values, what) -> None:
    """Raise RuntimeError, in strict mode, for the first of some tensors that has no history."""
    for number, value in enumerate(values):
        if value is None or not value.requires_grad:
            what = "input" if value is None else what
            raise RuntimeError(f"{_INDEPENDENT[what].format(number)}. This is not allowed in strict mode.")


def _grads(outputs, inputs, weights, create_graph, strict, what="outputs"):
    """Return the gradients of outputs by inputs, zeros where there are none; `what` the outputs are, for errors."""
    if strict:
        _check(outputs, what)
    pairs = [(o, w) for o, w in zip(outputs, weights) if o.requires_grad]
    if not pairs:
        return tuple(value.detach().clone().fill_(0) for value in inputs)
    grads = autograd.grad(
        [o for o, _ in pairs],
        inputs,
        [w for _, w in pairs],
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
    )
    if strict:
        _check([None if g is None else value for g, value in zip(grads, inputs)], "input")
    if strict and create_graph:
        _check(grads, "graph")
    return tuple(v.detach().clone().fill_(0) if g is None else g for g, v in zip(grads, inputs))


def _result(values, single, create_graph):
    values = tuple(value if create_graph else value.detach() for value in values)
    return values[0] if single else values


def _check_strategy(strategy) -> None:
    if not isinstance(strategy, str) or strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(f"Expected strategy to be either 'forward-mode' or 'reverse-mode', not {strategy!r}")


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """Return func(inputs) and the product of `v` with the Jacobian.

    >>> import plugrad as torch
    >>> torch.autograd.functional.vjp(lambda x: x**2, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))[1]
    tensor([2., 4.])
    """
    with enable_grad():
        inputs, single = _inputs(inputs, create_graph)
        outputs, one = _outputs(func(*inputs))
        grads = _grads(outputs, inputs, _vectors(v, outputs, "v"), create_graph, strict)
    return _result(outputs, one, create_graph), _result(grads, single, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """Return func(inputs) and the product of the Jacobian with `v`, by two vjps.

    >>> import plugrad as torch
    >>> torch.autograd.functional.jvp(lambda x: x**2, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))[1]
    tensor([2., 0.])
    """
    with enable_grad():
        inputs, _ = _inputs(inputs, create_graph)
        vectors = _vectors(v, inputs, "v")
        outputs, one = _outputs(func(*inputs))
        dummies = tuple(o.detach().clone().fill_(0).requires_grad_() for o in outputs)
        grads = _grads(outputs, inputs, dummies, True, strict)
        products = _grads(grads, dummies, vectors, create_graph, strict, "gradient")
    return _result(outputs, one, create_graph), _result(products, one, create_graph)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """Return the Jacobian of func, each part of its output's shape, then its input's.

    Args:
        func: takes tensors, returns a tensor or a tuple of them.
        inputs: a tensor, or a tuple.
        create_graph: compute the Jacobian in a differentiable way.
        strict: RuntimeError for an output that does not depend on an input.
        vectorize: accepted; rows are computed one after the other. It can't be combined with `strict`.
        strategy: "reverse-mode" goes row by row; "forward-mode" column by column, which is less work for functions of
            few inputs: with `vectorize`, and without `create_graph`.

    >>> import plugrad as torch
    >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_strategy(strategy)
    name = "torch.autograd.functional.jacobian"
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            f"{name}: `create_graph=True` and `strategy='forward-mode'` are not supported together (yet): use "
            "torch.func.jacfwd, which can be differentiated"
        )
    if strict and (vectorize or strategy == "forward-mode"):
        other = "strategy='forward-mode'" if strategy == "forward-mode" else "vectorize=True"
        raise RuntimeError(f"{name}: `strict=True` and `{other}` are not supported together: set one of them to False")
    if strategy == "forward-mode":
        if not vectorize:
            raise NotImplementedError(f"{name}: strategy='forward-mode' is only implemented for `vectorize=True`.")
        values, single = _inputs(inputs, False)
        argnums = 0 if single else tuple(range(len(values)))
        result = jacfwd(lambda *given: _plain(func(*given)), argnums)(*[value.detach() for value in values])
        return nest.change(Tensor.detach, result)
    with enable_grad():
        inputs, single = _inputs(inputs, create_graph)
        outputs, one = _outputs(func(*inputs))
        if strict:
            _check(outputs, "outputs")
        blocks = []
        for output in outputs:
            rows = [
                _grads((item,), inputs, (plugrad.ones_like(item),), create_graph, strict) for item in output.reshape(-1)
            ]
            columns = [
                plugrad.stack([row[i] for row in rows]).reshape(output.shape + value.shape)
                if rows
                else value.new_zeros(output.shape + value.shape)
                for i, value in enumerate(inputs)
            ]
            blocks.append(_result(columns, single, create_graph))
    return blocks[0] if one else tuple(blocks)


def _plain(outputs):
    values, one = _outputs(outputs)
    return values[0] if one else values


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """Return the Hessian of a scalar function of tensors.

    >>> import plugrad as torch
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _check_strategy(outer_jacobian_strategy)
    single = not isinstance(inputs, (tuple, list))

    def gradient(*values):
        values = [value if value.requires_grad else leaf_of(value) for value in values]
        outputs, one = _outputs(func(*values))
        if not one or outputs[0].numel() != 1:
            raise RuntimeError("The function given to hessian should return a single Tensor with a single element.")
        grads = _grads(outputs, values, (outputs[0].detach().clone().fill_(1),), True, strict)
        if strict:
            _check(grads, "jacobian")
        return grads[0] if single else grads

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """Return func(inputs) and the product of `v` with the scalar function's Hessian."""
    with enable_grad():
        inputs, single = _inputs(inputs, create_graph)
        vectors = _vectors(v, inputs, "v")
        outputs, one = _outputs(func(*inputs))
        if not one or outputs[0].numel() != 1:
            raise RuntimeError("The function given to vhp should return a single Tensor with a single element.")
        first = _grads(outputs, inputs, (outputs[0].detach().clone().fill_(1),), True, strict)
        products = _grads(first, inputs, vectors, create_graph, strict, "jacobian")
    return _result(outputs, one, create_graph), _result(products, single, create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """Return func(inputs) and the product of the scalar function's Hessian with `v`."""
    return vhp(func, inputs, v, create_graph, strict)
