"""`plugrad.autograd.functional`: Jacobians, Hessians and their products, of functions of several tensors."""

from __future__ import annotations

import plugrad
from plugrad import Tensor, autograd, enable_grad, nest
from plugrad.autograd.forward_ad import leaf_of
from plugrad.func import jacfwd

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _tensors(given, what):
    """Return (the tensors as a tuple, whether it was one); TypeError, which says `what` they are, for anything else."""
    single = not isinstance(given, tuple)
    values = (given,) if single else tuple(given)
    for position, value in enumerate(values):
        if not isinstance(value, Tensor):
            which = f"the given one has type {type(value)}" if single else f"the value at index {position} has type"
            raise TypeError(
                f"The {what} must be either a Tensor or a tuple of Tensors but "
                + (which if single else f"{which} {type(value)}")
                + "."
            )
    return values, single


def _inputs(inputs, create_graph, name):
    """Return (inputs of the function `name` as a tuple of tensors that require grad, whether it was one tensor)."""
    values, single = _tensors(inputs, f"inputs given to {name}")
    if create_graph:
        return tuple(v.view_as(v) if v.requires_grad else v.detach().requires_grad_() for v in values), single
    return tuple(v.detach().requires_grad_() for v in values), single


def _outputs(outputs, name):
    return _tensors(outputs, f"outputs of the user-provided function given to {name}")


def _scalar(outputs, name):
    """Return (the outputs of a function whose result must be a number, whether it was one tensor)."""
    values, one = _outputs(outputs, name)
    if not one:
        raise RuntimeError(f"The function given to {name} should return a single Tensor, not a tuple of {len(values)}.")
    if values[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element, but its shape is "
            f"{list(values[0].shape)}."
        )
    return values, one


def _vectors(vectors, like, name, whose="the user-provided function returns"):
    """Return `v` of the function `name` as a tuple of tensors of the shapes of others; None is 1 for a number."""
    if vectors is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {whose} a single Tensor with a single element.")
        return tuple(value.detach().clone().fill_(1) for value in like)
    vectors, single = _tensors(vectors, f"v given to {name}")
    if len(vectors) != len(like):
        if len(like) == 1:
            raise RuntimeError(f"The given v should contain a single Tensor, but it contains {len(vectors)}.")
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for position, (vector, value) in enumerate(zip(vectors, like)):
        if vector.shape != value.shape:
            entry = "v" if single else f"Entry {position} in v"
            raise RuntimeError(f"{entry} has invalid size: should be {value.shape} but got {vector.shape}.")
    return tuple([vector.clone() for vector in vectors])  # a product may be the vector: it is not the caller's


_OF_INPUT = "the input to the user-provided function is"


_INDEPENDENT = {
    "outputs": "Output {} of the user-provided function does not require gradients. It must be computed in a "
    "differentiable manner from the input",
    "jacobian": "The jacobian of the user-provided function with respect to input {} is independent of the input: the "
    "function must be twice differentiable, and not linear",
    "gradient": "The gradient with respect to input {} is independent of the inputs of the user-provided function",
    "input": "The output of the user-provided function is independent of input {}",
    "graph": "The jacobian of the user-provided function is independent of input {}. It has no history, which "
    "create_graph=True asks for",
}


def _check(values, what) -> None:
    """Raise RuntimeError, in strict mode, for the first of some tensors that is None or has no history."""
    for number, value in enumerate(values):
        if value is None or not value.requires_grad:
            why = _INDEPENDENT.get(what, what).format(number)
            raise RuntimeError(f"{why}. This is not allowed in strict mode.")


def _grads(outputs, inputs, weights, create_graph, strict, what="outputs", independent="input", constant="graph"):
    """Return the gradients of outputs by inputs, zeros where there are none; the weight None is 1 for a real number.

    For the errors of strict mode: `what` the outputs are, what to say where one is `independent` of an input, and
    where a gradient is `constant`.
    """
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
        _check([None if g is None else value for g, value in zip(grads, inputs)], independent)
    if strict and create_graph:
        _check(grads, constant)
    return tuple(v.detach().clone().fill_(0) if g is None else g for g, v in zip(grads, inputs))


def _result(values, single, create_graph):
    values = tuple(value if create_graph else value.detach() for value in values)
    return values[0] if single else values


def _construct_standard_basis_for(tensors, tensor_numels):
    """Return for each tensor its columns, joined, of the identity matrix of all elements of all tensors.

    Args:
        tensors: a tuple of tensors.
        tensor_numels: how many elements each of them has.
    """
    rows, start, basis = sum(tensor_numels), 0, []
    for tensor, columns in zip(tensors, tensor_numels, strict=True):
        block = plugrad.zeros(rows, columns, dtype=tensor.dtype, device=tensor.device)
        block.diagonal(-start).fill_(1)
        basis.append(block)
        start += columns
    return tuple(basis)


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
        inputs, single = _inputs(inputs, create_graph, "vjp")
        outputs, one = _outputs(func(*inputs), "vjp")
        grads = _grads(outputs, inputs, _vectors(v, outputs, "vjp"), create_graph, strict)
    return _result(outputs, one, create_graph), _result(grads, single, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """Return func(inputs) and the product of the Jacobian with `v`, by two vjps.

    >>> import plugrad as torch
    >>> torch.autograd.functional.jvp(lambda x: x**2, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))[1]
    tensor([2., 0.])
    """
    with enable_grad():
        inputs, _ = _inputs(inputs, create_graph, "jvp")
        vectors = _vectors(v, inputs, "jvp", _OF_INPUT)
        outputs, one = _outputs(func(*inputs), "jvp")
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
    name, vectorize = "torch.autograd.functional.jacobian", bool(vectorize)
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
        values, single = _inputs(inputs, False, "jacobian")
        argnums = 0 if single else tuple(range(len(values)))
        result = jacfwd(lambda *given: _plain(func(*given)), argnums)(*[value.detach() for value in values])
        return nest.change(Tensor.detach, result)
    with enable_grad():
        inputs, single = _inputs(inputs, create_graph, "jacobian")
        outputs, one = _outputs(func(*inputs), "jacobian")
        if strict:
            _check(outputs, "outputs")
        blocks = []
        for number, output in enumerate(outputs):
            why = f"Output {number} of the user-provided function is independent of input {{}}"
            rows = [
                _grads((item,), inputs, (None,), create_graph, strict, independent=why)
                for item in output.reshape(-1)
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
    values, one = _outputs(outputs, "jacobian")
    return values[0] if one else values


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """Return the Hessian of a scalar function of tensors.

    >>> import plugrad as torch
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _check_strategy(outer_jacobian_strategy)
    _, single = _tensors(inputs, "inputs given to hessian")

    def gradient(*values):
        values = [value if value.requires_grad else leaf_of(value) for value in values]
        outputs, _ = _scalar(func(*values), "hessian")
        grads = _grads(outputs, values, (None,), True, strict, independent="jacobian", constant="jacobian")
        return grads[0] if single else grads

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """Return func(inputs) and the product of `v` with the scalar function's Hessian."""
    return _hessian_product(func, inputs, v, create_graph, strict, "vhp")


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """Return func(inputs) and the product of the scalar function's Hessian with `v`."""
    return _hessian_product(func, inputs, v, create_graph, strict, "hvp")


def _hessian_product(func, inputs, v, create_graph, strict, name):
    with enable_grad():
        inputs, single = _inputs(inputs, create_graph, name)
        vectors = _vectors(v, inputs, name, _OF_INPUT)
        outputs, one = _scalar(func(*inputs), name)
        first = _grads(outputs, inputs, (None,), True, strict, constant="jacobian")
        products = _grads(first, inputs, vectors, create_graph, strict, "jacobian")
    return _result(outputs, one, create_graph), _result(products, single, create_graph)
