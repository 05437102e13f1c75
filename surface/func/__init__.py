"""`plugrad.func`: functions of functions (grad, vjp, jvp, jacrev, hessian, vmap) and modules with other parameters.

All of them run the function on tensors that are recorded, so they nest, and what a function closes over takes part.
Arguments and results may be nested lists, tuples and dicts of tensors.
"""

from __future__ import annotations

import functools

import plugrad
from plugrad import (
    Tensor,
    autograd,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    nest,
    no_grad,
)
from plugrad.arguments import is_int
from plugrad.autograd.forward_ad import Level, leaf_of, without_history
from plugrad.func.batching import check_randomness, vmap
from plugrad.func.further import debug_unwrap, functionalize, rearrange, replace_all_batch_norm_modules_
from plugrad.nn.utils import _calls

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "value_and_grad", "vjp", "vmap",
]  # fmt: skip

functional_call, stack_module_state = _calls.functional_call, _calls.stack_module_state


# ---------------------------------------------------------------------------------------------------- recording


class _Recorded:
    """Arguments of which some are to be differentiated by, ready for a recorded call.

    `inputs` are the tensors to differentiate by: connected to the graph of those that require grad, else leaves, marked
    with the transform that they belong to. A context manager: the transform is active inside.
    """

    active = True

    def __init__(self, arguments):
        tensors = [*nest.leaves(arguments)]
        for leaf in tensors:
            if not isinstance(leaf, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        self.outer = any(tensor.requires_grad for tensor in tensors)
        self.kept = is_grad_enabled()  # whether the results are recorded for whoever calls the transform
        with enable_grad():
            tensors = [t.clone() if t.is_inference() else t for t in tensors]
            self.inputs = [t.view_as(t) if t.requires_grad else leaf_of(t) for t in tensors]
        for tensor in self.inputs:
            tensor.__dict__["_transform"] = self
        self.arguments = nest.rebuild(arguments, iter(self.inputs))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.active = False

    def lasting(self, outputs) -> bool:
        """Whether gradients of the outputs depend on more than the inputs, so that they must be recorded too."""
        if self.outer or not self.kept:
            return self.kept
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


def _dependence(outputs, inputs, weights, create_graph, retain_graph=None):
    """Return the gradients of the outputs; None where there is no dependence."""
    pairs = [(output, weight) for output, weight in zip(outputs, weights) if output.requires_grad]
    if not pairs:
        return [None] * len(inputs)
    return autograd.grad(
        [output for output, _ in pairs], inputs, [weight for _, weight in pairs], create_graph=create_graph,
        retain_graph=retain_graph or create_graph, allow_unused=True,
    )  # fmt: skip


def _gradients(outputs, inputs, weights, create_graph, retain_graph=None):
    """Return the gradients of the outputs; zeros where there is no dependence."""
    grads = _dependence(outputs, inputs, weights, create_graph, retain_graph)
    return [plugrad.zeros_like(tensor) if grad is None else grad for grad, tensor in zip(grads, inputs)]


def _with_aux(value, has_aux, name) -> tuple:
    """Return (the result of a function, what came beside it)."""
    if not has_aux:
        return value, None
    if not (isinstance(value, tuple) and len(value) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return value


def _results(value, has_aux, name):
    """Return (the result of a function, its tensors, what came beside it)."""
    value, aux = _with_aux(value, has_aux, name)
    outputs = [*nest.leaves(value)]
    for output in outputs:
        if not isinstance(output, Tensor):
            raise RuntimeError(f"{name}: expected f to return only tensors, got unsupported type {type(output)}")
    return value, outputs, aux


def _refuse_complex(tensors, what, name):
    """Raise RuntimeError for complex tensors: a Jacobian of theirs is two matrices, not one."""
    for number, tensor in enumerate(tensors):
        if tensor.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what}s to be real but received complex tensor at flattened {what} idx: "
                f"{number}; use torch.view_as_real"
            )


def _select(args, argnums, name):
    """Return the arguments that `argnums` names, and a function that puts others in their places."""
    if not is_int(argnums) and not (isinstance(argnums, tuple) and all(map(is_int, argnums))):
        raise RuntimeError(f"{name}: argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if len(set(numbers)) < len(numbers):
        raise RuntimeError(f"{name}: argnums elements must be unique, got {argnums}")
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
    return nest.change(lambda leaf: without_history(leaf) if isinstance(leaf, Tensor) else leaf, value)


def _outside_inference(function):
    """Have a transform record what it differentiates in inference mode, too; its results can be written later."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not is_inference_mode_enabled():
            return function(*args, **kwargs)
        with inference_mode(False), no_grad():
            return function(*args, **kwargs)

    return call


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

    @_outside_inference
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        chosen, put = _select(args, argnums, "grad")
        with _Recorded(chosen) as recorded, enable_grad():
            value, aux = _with_aux(func(*put(recorded.arguments), **kwargs), has_aux, "grad_and_value(f)(*args)")
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
            gradients = _gradients([value], recorded.inputs, [plugrad.ones_like(value)], lasting)
        grads = nest.rebuild(chosen, iter(gradients))
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


@_outside_inference
def vjp(func, *primals, has_aux=False):
    """Return `func(*primals)` and the function from cotangents to gradients.

    >>> import plugrad as torch
    >>> value, pull = torch.func.vjp(lambda x: x**2, torch.tensor([1.0, 2.0]))
    >>> pull(torch.tensor([1.0, 1.0]))
    (tensor([2., 4.]),)
    """
    with _Recorded(primals) as recorded, enable_grad():
        value, outputs, aux = _results(func(*recorded.arguments), has_aux, "vjp(f, *primals)")
        lasting = recorded.lasting(outputs)

    @_outside_inference
    def pull(cotangents, retain_graph=True, create_graph=None):
        weights = [*nest.leaves(cotangents)]
        if len(weights) != len(outputs) or isinstance(cotangents, Tensor) != isinstance(value, Tensor):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
                "the function: "
                f"there are {len(outputs)} outputs and {len(weights)} cotangents"
            )
        create = create_graph
        if create is None:
            create = is_grad_enabled() and (lasting or any(weight.requires_grad for weight in weights))
        with enable_grad():
            grads = _gradients(outputs, recorded.inputs, weights, create, retain_graph)
        return nest.rebuild(primals, iter(grads))

    shown = _detached(value, lasting)
    return (shown, pull, _detached(aux, lasting)) if has_aux else (shown, pull)


class _Linearized:
    """A function at a point: its value, and tangents of that for tangents of the point.

    By two reverse passes: the gradient of the vector-Jacobian product by its vector, J. Townsend, "A new trick for
    calculating Jacobian vector products", 2017. The first is done here, the second for each tangent.
    """

    def __init__(self, func, primals, has_aux, name):
        with _Recorded(primals) as recorded, enable_grad():
            self.value, self.outputs, self.aux = _results(func(*recorded.arguments), has_aux, name)
            self.lasting = recorded.lasting(self.outputs)
            self.floats = [y for y in self.outputs if y.is_floating_point() or y.is_complex()]
            # Ones: the first pass is linear in them, but a formula may look for zeros in the gradient it is given.
            self.weights = [plugrad.ones_like(y).requires_grad_() for y in self.floats]
            self.pulled = _gradients(self.floats, recorded.inputs, self.weights, True)

    def push(self, tangents):
        """Return the tangents of all outputs, a list; zeros for what is constant."""
        create = self.lasting or is_grad_enabled() and any(tangent.requires_grad for tangent in tangents)
        with enable_grad():
            given = iter(_dependence(self.pulled, self.weights, tangents, create, True))
        pairs = ((y, next(given) if y.is_floating_point() or y.is_complex() else None) for y in self.outputs)
        results = [plugrad.zeros_like(y) if tangent is None else tangent for y, tangent in pairs]
        return results if create else _detached(results, False)


def _forward(func, primals, directions, has_aux, name) -> tuple:
    """Run a function with tangents; return (value, its tensors, their tangents in all directions, what came beside it).

    `directions` are lists of the tangents of all primals, None for zeros; an output's tangents are a tuple, or None.
    """
    with Level(len(directions)) as level:
        duals = []
        for number, tensor in enumerate(nest.leaves(primals)):
            dual = tensor.view_as(tensor)
            level.put_on(dual, tuple([tangents[number] for tangents in directions]))
            duals.append(dual)
        value, outputs, aux = _results(func(*nest.rebuild(primals, iter(duals))), has_aux, name)
        return value, outputs, [level.of(output) for output in outputs], aux


def _checked_tangents(primals, tangents, name):
    """Return the tensors of the tangents; RuntimeError unless they fit the primals."""
    given, directions = [*nest.leaves(primals)], [*nest.leaves(tangents)]
    if len(given) != len(directions):
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure: there are {len(given)} and "
            f"{len(directions)} tensors in them"
        )
    for number, (tensor, direction) in enumerate(zip(given, directions)):
        if not isinstance(tensor, Tensor):
            raise RuntimeError(f"{name}: primal {number} must be a Tensor, not {type(tensor).__name__}")
        if not isinstance(direction, Tensor) or tensor.shape != direction.shape:
            size = list(direction.shape) if isinstance(direction, Tensor) else type(direction)
            raise RuntimeError(f"{name}: tangent {number} has size {size}, its primal {list(tensor.shape)}")
    return directions


@_outside_inference
def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """Return `func(*primals)` and its derivative in the direction of the tangents.

    Tangents go forward with the call of func, which is not recorded for that: by the rules that ops and Functions
    declare (`@op.jvp`, `Function.jvp`), else by their gradient formulas.

    Args:
        func: returns tensors, nested; results of integers have tangents of zeros.
        primals, tangents: tuples of the same structure and sizes.
        strict: raise RuntimeError for a result that does not depend on the primals.
        has_aux: func returns (result, anything), which is handed on as third result.

    >>> import plugrad as torch
    >>> torch.func.jvp(lambda x: x**2, (torch.tensor(3.0),), (torch.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple: write (x,) for one primal")
    directions = _checked_tangents(primals, tangents, name)
    value, outputs, pushed, aux = _forward(func, primals, [directions], has_aux, name)
    if strict and any(tangents is None for tangents in pushed):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    tangents = [plugrad.zeros_like(y) if given is None else given[0] for y, given in zip(outputs, pushed)]
    results = value, nest.rebuild(value, iter(tangents))
    return (*results, aux) if has_aux else results


@_outside_inference
def linearize(func, *primals):
    """Return `func(*primals)` and its derivative, a function of the tangents.

    The function runs once, however many tangents follow.

    >>> import plugrad as torch
    >>> value, push = torch.func.linearize(lambda x: x**2, torch.tensor(3.0))
    >>> value, push(torch.tensor(1.0)), push(torch.tensor(2.0))
    (tensor(9.), tensor(6.), tensor(12.))
    """
    name = "linearize(f, *primals)"
    at = _Linearized(func, primals, False, name)

    @_outside_inference
    def push(*tangents):
        return nest.rebuild(at.value, iter(at.push(_checked_tangents(primals, tangents, name))))

    return _detached(at.value, at.lasting), push


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

    if chunk_size is not None and not is_int(chunk_size):
        raise TypeError(f"jacrev(): argument 'chunk_size' must be int, not {type(chunk_size).__name__}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @_outside_inference
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        chosen, put = _select(args, argnums, "jacrev")
        with _Recorded(chosen) as recorded, enable_grad():
            _refuse_complex(recorded.inputs, "input", "jacrev")
            value, outputs, aux = _results(func(*put(recorded.arguments), **kwargs), has_aux, "jacrev(f)(*args)")
            _refuse_complex(outputs, "output", "jacrev")
            lasting = recorded.lasting(outputs)
            blocks = [_jacobian(output, recorded.inputs, lasting) for output in outputs]
        jacobians = []
        for block in blocks:
            columns_of = nest.rebuild(chosen, iter(block))
            jacobians.append(columns_of[0] if isinstance(argnums, int) else columns_of)
        result = nest.rebuild(value, iter(jacobians))
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

    @_outside_inference
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        chosen, put = _select(args, argnums, "jacfwd")
        inputs = [*nest.leaves(chosen)]
        for tensor in inputs:
            if not (tensor.is_floating_point() or tensor.is_complex()):
                raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
        _refuse_complex(inputs, "input", "jacfwd")
        directions = [tangents for number in range(len(inputs)) for tangents in _unit_tangents(inputs, number)]
        value, outputs, pushed, aux = _forward(
            lambda *values: func(*put(values), **kwargs), chosen, directions, has_aux, "jacfwd(f)(*args)"
        )
        _refuse_complex(outputs, "output", "jacfwd")
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
