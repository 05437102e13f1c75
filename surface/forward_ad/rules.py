"""How tangents go forward through one call of an op: by its declared rule, by its gradient formula, or by two pulls."""

from __future__ import annotations

import plugrad
from plugrad import Tensor, autograd, enable_grad, is_grad_enabled
from plugrad.autograd.rare.wrong_results import check_tangents
from plugrad.dispatch.formulas import F, output_number
from plugrad.dispatch.source import compile_function


def way(op) -> str:
    """Return how tangents of an op's results are computed: a word."""
    if op.runs_on == "tensors":
        return "composite"
    if op.jvps:
        return "declared"
    if not op.formulas:
        return "none"
    if op.is_view:
        return "linear"
    # With a `dim` the elements of a line may depend on one another, as in a cross product.
    return "elementwise" if op.broadcasts and "dim" not in op.index else "derived"


def push(op, values, outputs, hidden, directions, state) -> list:
    """Return, for each output, the tuple of its tangents in all directions, None where it is zero or does not exist.

    `hidden` knows the tangents of the arguments; `state` is that of the random numbers before the call.
    """
    how = way(op)
    floats = [is_float(output) for output in outputs]
    if how == "none" or not any(floats):
        return [(None,) * directions for _ in outputs]
    along = [[hidden.of(value, direction) for value in values] for direction in range(directions)]
    try:
        pushed = _pushed(how, op, values, outputs, along, state)
    except NotImplementedError as error:
        what = f"Trying to use forward AD with {op.name} that does not support it because it has not been implemented"
        raise NotImplementedError(f"{what} yet: {error}") from error
    columns = []
    for number, output in enumerate(outputs):
        column = [tangents[number] if floats[number] else None for tangents in pushed]
        column = [_fitted(op, *pair, output) for pair in zip(column, along)]
        if len(outputs) == 1 and floats[0]:  # a gradient of zeros, as random numbers have, is no missing one
            moved = [_moves(op, tangents) for tangents in along]
            column = [plugrad.zeros_like(output) if t is None and m else t for t, m in zip(column, moved)]
        columns.append(tuple(column))
    return columns


def _pushed(how, op, values, outputs, along, state) -> list:
    """Return, for each direction, the tangents of the outputs."""
    pushed = None
    if how == "elementwise" and not any(_is_complex(item) for item in (*values, *outputs)):
        pushed = _elementwise(op, values, outputs, along)
    if pushed is None and how in ("declared", "linear"):
        one = _declared if how == "declared" else _linear
        pushed = [_as_tuple(one(op, values, outputs, tangents), len(outputs)) for tangents in along]
    if pushed is None:
        pushed = _by_pulls(op, values, along, state)
    return pushed


def _moves(op, tangents) -> bool:
    """Whether an argument that the op has a gradient for has a tangent."""
    names = [name for formula in op.formulas for name in formula.inputs]
    return any(isinstance(tangents[op.index[name]], Tensor) for name in names)


def is_float(value) -> bool:
    """Whether a value is a tensor that can have a tangent."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _is_complex(value) -> bool:
    return isinstance(value, Tensor) and value.is_complex()


def _as_tuple(result, count: int) -> tuple:
    if result is None:
        return (None,) * count
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _fitted(op, tangent, given, output):
    """Return a tangent with the shape and dtype of its output; RuntimeError if it can't be.

    It has memory of its own as the output has: a rule may hand on one of those that were `given`, or a view of it.
    """
    if tangent is None:
        return None
    if tangent.dtype is not output.dtype:
        tangent = tangent.to(output.dtype)
    fits = tangent.shape == output.shape
    try:
        tangent = tangent if fits else tangent.expand(output.shape)
    except RuntimeError:
        raise RuntimeError(
            f"the jvp of op {op.qualname!r} returned a tangent of shape {list(tangent.shape)}, its result has "
            f"{list(output.shape)}"
        ) from None
    if not op.is_view and (not fits or any(_root(one) is _root(tangent) for one in given)):
        return tangent.clone()
    if tangent.requires_grad and (tangent.is_leaf or not is_grad_enabled()):  # one that was handed on as it is
        return tangent.view_as(tangent)
    return tangent


def _lies_as(tangent, primal) -> bool:
    """Whether a tangent lies in its memory as the primal does, so that a view of one is a view of the other."""
    if plugrad.strided is not tangent.layout or plugrad.strided is not primal.layout:
        return True
    if tangent.is_conj() is not primal.is_conj() or tangent.storage_offset() != primal.storage_offset():
        return False
    steps = zip(primal.shape, primal.stride(), tangent.stride())
    return _held(tangent) == _held(primal) and all([one == other or n < 2 for n, one, other in steps])


def _held(tensor) -> int:
    """Return how many elements the memory holds that a tensor sees."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def laid_out_as(tangent, primal) -> Tensor:
    """Return a tangent that lies in its memory as the primal does: itself, or a copy, which leads to it."""
    if _lies_as(tangent, primal):
        return tangent
    memory = tangent.new_zeros(_held(primal))
    return memory.as_strided(primal.shape, primal.stride(), primal.storage_offset()).data.copy_(tangent)


def _root(value):
    """Return the tensor whose memory a tensor sees."""
    return value._base if isinstance(value, Tensor) and value._is_view() else value


def _ops(op):
    return F if op.trusted else F._within[op.scope]


def _wanted(op, formula, values, outputs, needs) -> list:
    """Return what a formula asks for by name."""
    wanted = []
    for name in formula.asks:
        number = output_number(name)
        if name == "needs":
            wanted.append(needs)
        elif name in op.index:
            wanted.append(values[op.index[name]])
        elif number is not None:
            wanted.append(tuple(outputs) if number < 0 and len(outputs) > 1 else outputs[max(number, 0)])
        else:
            base, _, what = name.rpartition("_")
            value = values[op.index[base]]
            wanted.append(getattr(value, what, ()) if what == "shape" else getattr(value, "dtype", None))
    return wanted


def _declared(op, values, outputs, tangents):
    """Return the sum of what the declared rules give."""
    total = None
    for formula in op.jvps:
        given = [tangents[op.index[name]] for name in formula.inputs]
        if all(tangent is None for tangent in given):
            continue
        needs = tuple(tangent is not None for tangent in given)
        part = formula.function(_ops(op), *given, *_wanted(op, formula, values, outputs, needs))
        part = part if op.trusted else check_tangents(op, part, len(outputs))
        total = part if total is None else _sum(total, part)
    return total


def _sum(one, other):
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, (tuple, list)):
        return tuple([_sum(*pair) for pair in zip(one, other)])
    return one + other


def _linear(op, values, outputs, tangents):
    """Return the view of the tangent that is what the result is of the first argument."""
    return None if tangents[0] is None else op.call((tangents[0], *values[1:]))


def _elementwise(op, values, outputs, along):
    """Return tangents by the gradient formulas, which multiply by the diagonal of a Jacobian; None if one does not."""
    y, pushed = outputs[0], []
    for tangents in along:
        total = None
        for formula in op.formulas:
            for number, name in enumerate(formula.inputs):
                tangent = tangents[op.index[name]]
                if tangent is None:
                    continue
                needs = tuple(one == name for one in formula.inputs)
                g = tangent if tangent.dtype is y.dtype else tangent.to(y.dtype)
                g = g if g.shape == y.shape else g.expand(y.shape)
                part = formula.function(_ops(op), g, *_wanted(op, formula, values, outputs, needs))
                part = part[number] if len(formula.inputs) > 1 else part
                if part is not None and part.shape != y.shape:
                    return None
                total = _sum(total, part)
        pushed.append((total,))
    return pushed


def random_state():
    """Return the state of the random numbers of the CPU, so that a call can be made again with the same ones."""
    return plugrad.random.get_rng_state()


class Linearized:
    """One call, linear in its tangents: the gradient of the vector-Jacobian product by its vector.

    J. Townsend, "A new trick for calculating Jacobian vector products", 2017.

    Args:
        call: the function of the arguments.
        values: these, in flat sequences at most.
        along: for each direction the tangents of all arguments.
        differentiable: whether a gradient of an argument, by its position, may be asked for.
    """

    def __init__(self, call, values, along, differentiable):
        self.recorded = is_grad_enabled()
        self.inputs: list = []  # (position, place in the sequence or None, leaf)
        with enable_grad():
            values = [
                self._argument(position, value, along) if differentiable(position) else value
                for position, value in enumerate(values)
            ]
            outputs = call(values)
            self.outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
            leaves = [leaf for *_, leaf in self.inputs]
            self.weights = [plugrad.ones_like(y).requires_grad_() if _needs(y) else None for y in self.outputs]
            pairs = [(y, w) for y, w in zip(self.outputs, self.weights) if w is not None]
            self.pulled = [None] * len(leaves)
            if pairs:
                self.pulled = autograd.grad(
                    [y for y, _ in pairs], leaves, [w for _, w in pairs], create_graph=True, allow_unused=True
                )

    def _argument(self, position, value, along):
        """Return an argument as the call gets it: a leaf, or a view, for one that has tangents."""
        if type(value) in (list, tuple):
            return type(value)([self._leaf(position, place, item, along) for place, item in enumerate(value)])
        return self._leaf(position, None, value, along)

    def _leaf(self, position, place, value, along):
        if isinstance(value, Tensor) and value.is_inference():
            value = value.clone()  # a normal tensor, which a graph may hold
        if not is_float(value) or all(self._given(position, place, tangents) is None for tangents in along):
            return value
        leaf = value.view_as(value)
        if not leaf.requires_grad:
            leaf.requires_grad_()
        self.inputs.append((position, place, leaf))
        return leaf

    def _given(self, position, place, tangents):
        """Return the tangent of one leaf."""
        tangent = tangents[position]
        return tangent if place is None or tangent is None else tangent[place]

    def push(self, tangents) -> tuple:
        """Return the tangents of all outputs along one direction; RuntimeError if a gradient has none itself."""
        given = [self._given(position, place, tangents) for position, place, _ in self.inputs]
        connected = [(g, t) for g, t in zip(self.pulled, given) if g is not None and t is not None and g.requires_grad]
        weights = [weight for weight in self.weights if weight is not None]
        if not connected or not weights:
            return (None,) * len(self.outputs)
        outer = [tangent for tangent in given if tangent is not None]
        outer += [leaf for *_, leaf in self.inputs if not leaf.is_leaf]
        with enable_grad():
            results = autograd.grad(
                [g for g, _ in connected], weights, [t for _, t in connected], retain_graph=True, allow_unused=True,
                create_graph=self.recorded and any(one.requires_grad for one in outer),
            )  # fmt: skip
        if not self.recorded:  # nor is what was handed on as it is a part of a graph
            results = [one.detach().clone() if one is not None and one.requires_grad else one for one in results]
        results = iter(results)
        return tuple([None if weight is None else next(results) for weight in self.weights])


def _needs(output) -> bool:
    return isinstance(output, Tensor) and output.requires_grad


def _by_pulls(op, values, along, state) -> list:
    """Return the tangents of all outputs of an op for each direction, by two reverse passes."""

    def call(values):
        with plugrad.random.fork_rng(devices=[]):
            plugrad.random.set_rng_state(state)
            return op.call(tuple(values))

    linear = Linearized(call, values, along, lambda position: op.parameters[position] in op.inputs)
    try:
        return [linear.push(tangents) for tangents in along]
    except RuntimeError as error:
        raise NotImplementedError(
            f"Trying to use forward AD with {op.qualname} that does not support it: it has no jvp, and its gradient "
            f"can't be differentiated, from which that would follow: declare @{op.name}.jvp"
        ) from error


# ---------------------------------------------------------------------------------------------------- transposition


def transposed(op) -> None:
    """Declare the gradient of an op that has a jvp only: the transpose of that linear map."""
    for formula in op.jvps:
        names = dict.fromkeys([*formula.inputs, *[name for name in formula.asks if name != "needs"]])
        arguments = ", ".join(names)
        given = ", ".join(f"{name!r}: {name}" for name in names)
        text = f"def {op.name}_transposed(F, g, needs, {arguments}):\n"
        text += f"    return _transpose(_op, _formula, F, g, needs, {{{given}}})\n"
        function = compile_function(
            text, f"{op.name}_transposed", f"transposed jvp of {op.qualname}",
            {"_transpose": transpose, "_op": op, "_formula": formula},
        )  # fmt: skip
        op.vjp(*formula.inputs)(function)


def transpose(op, formula, ops, g, needs, values):
    """Return the gradients of the inputs of a jvp rule, whose transpose is its own gradient."""
    recorded = ops._recorded
    several = isinstance(g, tuple)

    def tensor(value):
        if isinstance(value, tuple):
            return tuple(map(tensor, value))
        is_raw = not recorded and hasattr(value, "dtype") and hasattr(value, "shape")
        return Tensor._from_raw(value) if is_raw else value

    values = {name: tensor(value) for name, value in values.items()}
    with enable_grad():
        tangents = [
            plugrad.zeros_like(values[name]).detach().requires_grad_() if needed else None
            for name, needed in zip(formula.inputs, needs)
        ]
        asked = [needs if name == "needs" else values[name] for name in formula.asks]
        results = formula.function(_ops(op), *tangents, *asked)
        pairs = list(zip(results if several else (results,), tensor(g) if several else (tensor(g),)))
        pairs = [(result, grad) for result, grad in pairs if result is not None and grad is not None]
        if any(not result.requires_grad for result, _ in pairs):
            raise RuntimeError(
                f"op {op.qualname!r} has a jvp and no vjp, and the jvp can't be transposed: it computes with something "
                f"that has no gradient. Write it with ops that have one, or declare @{op.name}.vjp"
            )
        wanted = [tangent for tangent in tangents if tangent is not None]
        grads = autograd.grad(
            [result for result, _ in pairs], wanted, [grad for _, grad in pairs], create_graph=recorded,
            allow_unused=True,
        ) if pairs else [None] * len(wanted)  # fmt: skip
    given = iter(grads)
    gradients = [None if tangent is None else next(given) for tangent in tangents]
    if not recorded:
        gradients = [None if grad is None else grad._raw for grad in gradients]
    return gradients if len(gradients) > 1 else gradients[0]
