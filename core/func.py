"""`plugrad.func`: functions of functions (grad, vjp, jvp, jacrev, hessian, vmap) and modules with other parameters.

All of them run the function on tensors that are recorded, so they nest, and what a function closes over takes part.
Arguments and results may be nested lists, tuples and dicts of tensors.
"""

from __future__ import annotations

import functools

import plugrad
from plugrad import engine, random, tree
from plugrad.nn.utils.stateless import functional_call, stack_module_state
from plugrad.tensor import Tensor

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "stack_module_state",
    "value_and_grad", "vjp", "vmap",
]  # fmt: skip


# ---------------------------------------------------------------------------------------------------- recording


class _Recorded:
    """Arguments of which some are to be differentiated by, ready for a recorded call.

    `inputs` are the tensors to differentiate by: connected to the graph of those that require grad, else leaves, marked
    with the transform that they belong to. A context manager: the transform is active inside.
    """

    active = True

    def __init__(self, arguments):
        found = [*tree.leaves(arguments)]
        for leaf in found:
            if not isinstance(leaf, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        self.outer = any(tensor.requires_grad for tensor in found)
        with engine.enable_grad():
            self.inputs = [
                tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_() for tensor in found
            ]
        for tensor in self.inputs:
            tensor.__dict__["_transform"] = self
        self.arguments = tree.rebuild(arguments, iter(self.inputs))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.active = False

    def lasting(self, outputs) -> bool:
        """Whether gradients of the outputs depend on more than the inputs, so that they must be recorded too."""
        if self.outer:
            return True
        seen: set = set()
        waiting = [output.grad_fn or output for output in outputs if output.requires_grad]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, Tensor):
                owner = node.__dict__.get("_transform")
                if owner is None or owner is not self and owner.active:
                    return True
            else:
                waiting += [edge for edge in node.edges if edge is not None]
        return False


def _gradients(outputs, inputs, weights, create_graph, retain_graph=None):
    """Return the gradients of the outputs; zeros where there is no dependence."""
    pairs = [(output, weight) for output, weight in zip(outputs, weights) if output.requires_grad]
    found = [None] * len(inputs)
    if pairs:
        found = engine.grad(
            [output for output, _ in pairs], inputs, [weight for _, weight in pairs], create_graph=create_graph,
            retain_graph=retain_graph or create_graph, allow_unused=True,
        )  # fmt: skip
    return [plugrad.zeros_like(tensor) if grad is None else grad for grad, tensor in zip(found, inputs)]


def _select(args, argnums, name):
    """Return the arguments that `argnums` names, and a function that puts others in their places."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"{name}: Got argnum={number}, but only {len(args)} positional inputs")
    numbers = tuple(number % len(args) for number in numbers)

    def put(values):
        changed = list(args)
        for number, value in zip(numbers, values):
            changed[number] = value
        return changed

    return tuple(args[number] for number in numbers), put


def _detached(value, lasting):
    """Return results for the caller: with their history only where something outside takes part in it."""
    if lasting:
        return value
    return tree.change(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, value)


def grad_and_value(func, argnums=0, has_aux=False):
    """Return the function that computes (gradient, value) of a scalar function.

    Args:
        func: the function; its result is a tensor of one element, or (that, anything) with `has_aux`.
        argnums: number, or numbers, of the arguments to differentiate by.
        has_aux: return (gradient, (value, the other result)).

    Raises RuntimeError for other results.

    >>> import plugrad as torch
    >>> torch.func.grad_and_value(lambda x: x**2)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def transformed(*args, **kwargs):
        chosen, put = _select(args, argnums, "grad")
        with _Recorded(chosen) as recorded, engine.enable_grad():
            value = func(*put(recorded.arguments), **kwargs)
            aux = None
            if has_aux:
                if not (isinstance(value, tuple) and len(value) == 2):
                    raise RuntimeError(
                        "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux)"
                    )
                value, aux = value
            if not isinstance(value, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}")
            if value.ndim:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                    f"{value.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            lasting = recorded.lasting([value])
            found = _gradients([value], recorded.inputs, [plugrad.ones_like(value)], lasting)
        grads = tree.rebuild(chosen, iter(found))
        grads = grads[0] if isinstance(argnums, int) else grads
        value = _detached(value, lasting)
        return grads, (value, _detached(aux, lasting)) if has_aux else value

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


def vjp(func, *primals, has_aux=False):
    """Return `func(*primals)` and the function from cotangents to gradients.

    >>> import plugrad as torch
    >>> value, pull = torch.func.vjp(lambda x: x**2, torch.tensor([1.0, 2.0]))
    >>> pull(torch.tensor([1.0, 1.0]))
    (tensor([2., 4.]),)
    """
    with _Recorded(primals) as recorded, engine.enable_grad():
        value = func(*recorded.arguments)
        value, aux = value if has_aux else (value, None)
        outputs = [*tree.leaves(value)]
        lasting = recorded.lasting(outputs)

    def pull(cotangents):
        weights = [*tree.leaves(cotangents)]
        if len(weights) != len(outputs) or isinstance(cotangents, Tensor) != isinstance(value, Tensor):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
                "the function: "
                f"there are {len(outputs)} outputs and {len(weights)} cotangents"
            )
        create = engine.is_grad_enabled() and (lasting or any(weight.requires_grad for weight in weights))
        with engine.enable_grad():
            found = _gradients(outputs, recorded.inputs, weights, create, retain_graph=True)
        return tree.rebuild(primals, iter(found))

    shown = _detached(value, lasting)
    return (shown, pull, aux) if has_aux else (shown, pull)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """Return `func(*primals)` and its derivative in the direction of the tangents.

    By two reverse passes: the gradient of the vector-Jacobian product by its vector, J. Townsend, "A new trick for
    calculating Jacobian vector products", 2017.

    >>> import plugrad as torch
    >>> torch.func.jvp(lambda x: x**2, (torch.tensor(3.0),), (torch.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to be a tuple: write (x,) for one primal")
    given, directions = [*tree.leaves(primals)], [*tree.leaves(tangents)]
    if len(given) != len(directions):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure: there are "
            f"{len(given)} and {len(directions)} tensors in them"
        )
    for tensor, direction in zip(given, directions):
        if tensor.shape != direction.shape:
            raise RuntimeError(f"jvp: a tangent has size {list(direction.shape)}, its primal {list(tensor.shape)}")
    with _Recorded(primals) as recorded, engine.enable_grad():
        value = func(*recorded.arguments)
        value, aux = value if has_aux else (value, None)
        outputs = [*tree.leaves(value)]
        lasting = recorded.lasting(outputs) or any(direction.requires_grad for direction in directions)
        weights = [plugrad.zeros_like(output).requires_grad_() for output in outputs]
        pulled = _gradients(outputs, recorded.inputs, weights, True)
        found = _gradients(pulled, weights, directions, lasting)
    results = _detached(value, lasting), tree.rebuild(value, iter(_detached(found, lasting)))
    return (*results, aux) if has_aux else results


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """Return the function that computes the Jacobian of a function.

    Its sizes are those of the result, then those of the argument.

    Args:
        func: the function.
        argnums: number, or numbers, of the arguments to differentiate by.
        has_aux: func returns (result, anything); return (Jacobian, that).
        chunk_size: accepted; rows are computed one by one.

    >>> import plugrad as torch
    >>> torch.func.jacrev(lambda x: x**2)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def transformed(*args, **kwargs):
        chosen, put = _select(args, argnums, "jacrev")
        with _Recorded(chosen) as recorded, engine.enable_grad():
            value = func(*put(recorded.arguments), **kwargs)
            value, aux = value if has_aux else (value, None)
            outputs = [*tree.leaves(value)]
            for output in outputs:
                if not isinstance(output, Tensor):
                    raise RuntimeError(f"jacrev: expected f(*args) to return Tensors, got {type(output)}")
            lasting = recorded.lasting(outputs)
            blocks = [_jacobian(output, recorded.inputs, lasting) for output in outputs]
        found = []
        for block in blocks:
            nest = tree.rebuild(chosen, iter(block))
            found.append(nest[0] if isinstance(argnums, int) else nest)
        result = tree.rebuild(value, iter(found))
        return (result, _detached(aux, lasting)) if has_aux else result

    return transformed


def _jacobian(output, inputs, lasting):
    """Return the Jacobians of one output by all inputs, row by row."""
    rows = []
    for number in range(output.numel()):
        weight = plugrad.zeros(output.numel(), dtype=output.dtype, device=output.device)
        weight[number] = 1
        rows.append(_gradients([output], inputs, [weight.reshape(output.shape)], lasting, retain_graph=True))
    if not rows:
        return [plugrad.zeros((*output.shape, *t.shape), dtype=output.dtype, device=output.device) for t in inputs]
    return [plugrad.stack(column).reshape((*output.shape, *tensor.shape)) for column, tensor in zip(zip(*rows), inputs)]


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """Return the same as jacrev: there is no forward mode here."""
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func, argnums=0):
    """Return the function that computes the second derivatives of a function.

    >>> import plugrad as torch
    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)


# ---------------------------------------------------------------------------------------------------- vmap


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """Return the function that applies `func` to slices and stacks the results.

    A loop: as general as Python, and not faster than one.

    Args:
        func: takes slices.
        in_dims: dimension along which each argument is sliced, None for one that is passed whole; nested as the
            arguments are.
        out_dims: dimension along which each result is stacked.
        randomness: 'same' draws the same random numbers for each slice; otherwise they differ.
        chunk_size: accepted.

    Raises ValueError when sizes differ or there is nothing to slice.

    >>> import plugrad as torch
    >>> torch.func.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    @functools.wraps(func)
    def transformed(*args, **kwargs):
        name = f"vmap({getattr(func, '__name__', func)}, in_dims={in_dims}, ...)(<inputs>)"
        if not isinstance(in_dims, (int, tuple, list)):
            raise ValueError(
                f"{name}: expected `in_dims` to be int or a (potentially nested) tuple matching the inputs"
            )
        if isinstance(in_dims, (tuple, list)) and len(in_dims) != len(args):
            raise ValueError(
                f"{name}: in_dims is not compatible with the structure of `inputs`: {len(in_dims)} dims for "
                f"{len(args)} inputs"
            )
        values = [*tree.leaves(args)]
        dims = [*_spread(in_dims, args)]
        size = _size(values, dims, name)
        slices = [value if dim is None else value.unbind(dim) for value, dim in zip(values, dims)]
        # Keyword arguments are sliced along their first dimension.
        named = {key: value.unbind(0) if isinstance(value, Tensor) else value for key, value in kwargs.items()}
        results = []
        state = random.get_rng_state() if randomness == "same" else None
        for number in range(size):
            if state is not None and number:
                random.set_rng_state(state)
            items = (part if dim is None else part[number] for part, dim in zip(slices, dims))
            chosen = {key: part[number] if isinstance(part, tuple) else part for key, part in named.items()}
            results.append(func(*tree.rebuild(args, items), **chosen))
        return _stacked(results, out_dims, func)

    return transformed


def _spread(dims, value):
    """Yield the dim of every leaf; one number serves all that are below it."""
    if isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _spread(dims[number] if isinstance(dims, (list, tuple)) else dims, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _spread(dims[key] if isinstance(dims, dict) else dims, item)
    else:
        yield dims


def _size(values, dims, name) -> int:
    sizes = []
    for value, dim in zip(values, dims):
        if dim is None:
            continue
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{name}: Got in_dim={dim} for an input but the input is of type {type(value)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -value.ndim <= dim < value.ndim:
            raise ValueError(
                f"{name}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                f"{value.ndim} so "
                f"expected in_dim to satisfy -{value.ndim} <= in_dim < {value.ndim}."
            )
        sizes.append(value.shape[dim])
    if not sizes:
        raise ValueError(f"{name}: at least one input must have an in_dim that is not None")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for "
            "the mapped "
            "dimension"
        )
    return sizes[0]


def _stacked(results, out_dims, func):
    if not results:
        raise NotImplementedError(
            "vmap over a dimension of size 0: the function is never called, so shapes are not known"
        )
    first = results[0]
    columns = []
    for parts, dim in zip(zip(*map(tree.leaves, results)), _spread(out_dims, first)):
        if not isinstance(parts[0], Tensor):
            name = getattr(func, "__name__", func)
            raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(parts[0])}.")
        columns.append(parts[0] if dim is None else plugrad.stack(parts, dim))
    return tree.rebuild(first, iter(columns))
