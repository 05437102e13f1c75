"""What gradient formulas of third parties may do wrong, or can't do: errors that name the op and the argument.

Ours are proved by tests. These functions run where a third party's formula is recorded or went wrong, and
`of_other_shape` where a formula returns a constant of a smaller shape.
"""

from __future__ import annotations

from plugrad import is_grad_enabled, nest
from plugrad.autograd.once import Once
from plugrad.autograd.rare.wrong_results import whose
from plugrad.dispatch.formulas import F, TensorOps, array_ops
from plugrad.extend import from_raw
from plugrad.graph.nodes import Outputs

__all__ = ["FormulaOps", "check_gradients", "first_order", "input_of", "of_other_shape", "wrong_count"]


class FormulaOps(TensorOps):
    """The ops of one distribution in its formulas, while backward is recorded: what has no gradient is refused."""

    __slots__ = ()

    def _function(self, record):
        if record.runs_on == "tensors" and not record.trusted:
            return record.raw(F)
        return _refusing(record) if record.undifferentiable and record.runs_on == "arrays" else record.function


def _refusing(record):
    """Return an op without gradient that raises RuntimeError where a gradient of its result would be needed."""

    def call(*args, **kwargs):
        result = record.function(*args, **kwargs)
        if is_grad_enabled() and any(getattr(item, "requires_grad", False) for item in nest.leaves([args, kwargs])):
            if any(item.dtype.is_floating_point or item.dtype.is_complex for item in nest.leaves(result)):
                raise RuntimeError(
                    f"a gradient whose formula calls op {record.qualname!r} is to be differentiated, but that op has "
                    f"no gradient (vjp=None): declare one with @{record.name}.vjp, returning None where it is zero, or "
                    "say once=True of the op whose formula it is, which then has derivatives of first order only"
                )
        return result

    return call


def first_order(node, g, saved, retain):
    """Return the gradients of a node whose op says once=True as Tensors that refuse to be differentiated."""
    given = g.grads if isinstance(g, Outputs) else {0: g}
    raw = {i: grad._raw for i, grad in given.items()}
    raw = Outputs(raw) if isinstance(g, Outputs) else raw[0]
    grads = node.pull(array_ops(raw), raw, node.values(), retain)
    grads = [grad if grad is None else from_raw(grad) for grad in grads]
    sources = [leaf for leaf in nest.leaves([*given.values(), *saved]) if getattr(leaf, "requires_grad", False)]
    if not sources or not is_grad_enabled():
        return grads
    why = (
        f"the gradient of op {node.op.qualname!r} can't be differentiated again: the op is declared with once=True, it "
        "has derivatives of first order only"
    )
    kept = iter(Once.apply(why, [grad for grad in grads if grad is not None], sources))
    return [grad if grad is None else next(kept) for grad in grads]


def wrong_count(op, inputs, given):
    """Return the error for a formula that does not return one gradient for each of its inputs."""
    got = f"{len(given)}" if isinstance(given, (tuple, list)) else f"a {type(given).__name__}"
    each = f"a tuple of {len(inputs)}, one for each" if len(inputs) > 1 else "a tuple of one for each of its tensors"
    return RuntimeError(
        f"the gradient formula of op {op.qualname!r} for {', '.join(inputs)} must return {each}; it returned {got}"
    )


def check_gradients(ops, node, grads) -> None:
    """Raise RuntimeError for what is no gradient; return if nothing is wrong with what a node's formulas returned."""
    if len(grads) != len(node.fit):
        raise RuntimeError(f"Function {node.name()} returned {len(grads)} gradients for {len(node.fit)} tensors")
    for position, g in enumerate(grads):
        kind = getattr(getattr(g, "dtype", None), "kind", "T")  # T: plugrad's dtypes, those of Tensors
        if g is not None and (not hasattr(g, "dtype") or kind in "OSU" or ops._recorded is not (kind == "T")):
            wanted = "a Tensor, computed with `F`" if ops._recorded else "an array, computed with `F` and operators"
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at index {position} ({input_of(node, position)})"
                f": {g!r:.100}, a {type(g).__name__}; the formula must return {wanted}, or None"
            )


def input_of(node, position) -> str:
    """Return the name of the input that an edge of a node is for."""
    names = getattr(type(node), "wanted", None)
    if not names:
        return f"input {position}"
    return f"{names[min(position, len(names) - 1)]} of op {node.op.qualname}{whose(node.op)}"


def of_other_shape(ops, node, g, shape, position):
    """Return a gradient that is a constant of a smaller shape, expanded; RuntimeError for one that does not fit."""
    if node.op is not None and node.op.broadcasts and len(g.shape) <= len(shape):
        if all(m in (1, n) for m, n in zip(g.shape[::-1], shape[::-1])):
            return ops.expand(g, shape)
    raise RuntimeError(
        f"Function {node.name()} returned an invalid gradient at index {position} ({input_of(node, position)}) - got "
        f"{list(g.shape)} but expected shape compatible with {list(shape)}"
    )
