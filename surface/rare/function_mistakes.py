"""What calls of custom Functions seldom need: words for mistakes, gradients of nested arguments, the old style."""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings

from plugrad import Tensor, nest
from plugrad.autograd import Function


def _is_any(one, others) -> bool:
    return any([one is other for other in others])


def check_marked(node, inputs, written) -> None:
    """Warn if forward wrote, unsaid, to an input that requires grad: its gradient is taken as if it had not."""
    marked = [tensor._type.backend.storage(tensor._raw) for tensor in node.attributes.get("_dirty", ())]
    for tensor in written:
        if not _is_any(tensor._type.backend.storage(tensor._raw), marked):
            number = next(i for i, other in enumerate(inputs) if other is tensor)
            what = f"input number {number} ({tensor.dtype} {list(tensor.shape)}) in place without saying so"
            hint = "write ctx.mark_dirty(x) and return x, or work on x.clone()"
            warnings.warn(
                f"{node.user.__name__}.forward changed its {what}, and gets gradients as if it had not: {hint}",
                stacklevel=5,
            )


def gradients_of_hook(hook, result, gradients) -> tuple:
    """Return what a hook of a node made of the gradients of the node's inputs; None: what they were.

    Raises TypeError unless it is a tuple of Tensors and None, and RuntimeError if it has another length.
    """
    if result is None:
        return gradients
    if not isinstance(result, tuple):
        hint = "return None, or a tuple with a gradient for each input"
        raise TypeError(f"expected tuple, but hook returned {type(result).__name__!r}: {hint}")
    if len(result) != len(gradients):
        name, counts = getattr(hook, "__name__", "hook"), f"got {len(result)}, but expected {len(gradients)}"
        raise RuntimeError(f"hook '{name}' has returned an incorrect number of values: {counts}")
    for item in result:
        if item is not None and not isinstance(item, Tensor):
            raise TypeError(f"expected Variable, but hook returned {type(item).__name__!r}: return Tensors or None")
    return result


def no_answer(answer) -> Exception:
    """Return the error for a hook that runs after a gradient was accumulated, and returned something."""
    if isinstance(answer, Tensor):
        return RuntimeError("Tensor post accumulate grad hooks should return None.")
    return TypeError(f"expected Variable, but hook returned {type(answer).__name__!r}: return None")


def check_returned(context, inputs, outputs) -> None:
    """Raise RuntimeError if a tensor that was marked as dirty is no output; warn of one that was no input.

    What is marked and no Tensor is refused, too.
    """
    dirty = context._dirty
    for name, marked in ("mark_dirty", dirty), ("mark_non_differentiable", context._not_differentiable):
        for number, one in enumerate(marked):
            if not isinstance(one, Tensor):
                what = f"but argument {number} is of type {type(one).__name__}: write ctx.{name}(x, y)"
                raise RuntimeError(f"{name} can only accept variables, {what}")
    if not all([_is_any(tensor, inputs) for tensor in dirty]):
        warnings.warn(
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors should be given to "
            "ctx.mark_dirty(): what forward makes itself needs no mark.",
            stacklevel=4,
        )
    if not all([_is_any(tensor, outputs) for tensor in dirty]):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
            "modified inplace must all be outputs of the Function."
        )


def refuse_to_save(given, error):
    """Raise an error, which is completed, for what a Function was to save among its tensors and is none."""
    number = next(i for i, one in enumerate(given) if one is not None and not isinstance(one, Tensor))
    what = f"argument {number} is of type {type(given[number]).__name__}: keep other things as attributes of ctx"
    raise type(error)(error.args[0] + what)


def the_vjp(user):
    """Return the `vjp` of a Function, which is another name for `backward`; RuntimeError if it has both."""
    if user.backward is not Function.backward:
        raise RuntimeError(
            f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement "
            f"one of them: they are two names of the same, and {user.__name__} has both."
        )
    return user.vjp


def saved_once(node) -> tuple:
    """Return the tensors that a node saved, and have it keep them no longer; RuntimeError the second time."""
    if node.attributes.get("_cleared"):
        raise RuntimeError(
            "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the "
            "autograd.Function. Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
        )
    saved = node.saved_tensors
    if "_to_save" not in node.attributes:  # forward is over
        node.saved, node.attributes["_cleared"] = None, True
    return saved


def refuse_changed_gradient(node) -> None:
    """Raise RuntimeError, for a backward that wrote to what it was given."""
    raise RuntimeError(
        f"{node.user.__name__}.backward changed a gradient that it was given in place; other paths may share "
        "its memory: work on grad.clone(), or write the operation out of place"
    )


def checked_gradient(node, number, grad, ttype):
    """Return a gradient that backward returned for an input of a tensor type, None for one that requires none.

    Raises RuntimeError for what is no tensor, for another device, and for complex numbers in the place of real ones.
    """
    if not isinstance(grad, Tensor):
        hint = ": return a tuple, with a gradient for each argument of forward" if isinstance(grad, list) else ""
        raise RuntimeError(
            f"function {node.name()} returned a gradient at index {number} of type {type(grad).__name__}: "
            f"expected Variable or None (got {type(grad).__name__}){hint}"
        )
    if ttype is None:
        return grad
    have, what = grad._type, f"Function {node.name()} returned an invalid gradient at index {number} - expected"
    if have.device is not ttype.device:
        if grad.ndim:
            raise RuntimeError(f"{what} device {ttype.device} but got {have.device}: move it with .to()")
        grad = grad.to(ttype.device)
    if not have.dtype.is_floating_point and have.dtype.is_complex is not ttype.dtype.is_complex:
        raise RuntimeError(f"{what} {ttype.dtype} but got {have.dtype}: take its .real part, or convert it")
    return grad


def needs_by_argument(needs, counts) -> tuple:
    """Return for each argument whether it is, or has in it, a tensor that requires grad, of `needs` for each tensor."""
    rest = iter(needs)
    return tuple([next(rest) if count is None else any([*itertools.islice(rest, count)]) for count in counts])


def gradients_of_nested(node, grads) -> list:
    """Return one gradient for each tensor among the arguments, of what backward returned for the arguments."""
    while len(grads) > len(node.counts) and grads[-1] is None:
        grads.pop()
    if len(grads) != len(node.counts):
        counts = f"expected {len(node.counts)}, one or None for each argument of forward, got {len(grads)}"
        raise RuntimeError(f"function {node.name()} returned an incorrect number of gradients ({counts})")
    flat = []
    for number, (count, grad) in enumerate(zip(node.counts, grads)):
        if count is None:
            flat.append(grad)
        elif count:
            inner = [None] * count if grad is None else [*nest.leaves(grad)]
            if len(inner) != count:
                what = f"{len(inner)} gradients for argument {number}, which holds {count} tensors"
                raise RuntimeError(f"function {node.name()} returned {what}")
            flat += inner
        elif grad is not None:
            where = f"at position {number + 1}, but the corresponding forward input was not a Variable"
            raise RuntimeError(f"function {node.name()} returned a gradient different from None {where}")
    return flat


_signature = functools.lru_cache(maxsize=256)(inspect.signature)


def with_defaults(forward, args, kwargs) -> tuple:
    """Return the arguments of a call of a Function's forward in the order of its parameters, defaults among them."""
    bound = _signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def warn_of_old_style(name: str) -> None:
    """Warn of a Function of which an instance is called."""
    warnings.warn(
        f"{name}(...)(...) is the old style of a Function: make forward and backward static methods whose first "
        f"parameter is ctx, and write {name}.apply(...); `plugrad migrate FILE` rewrites it",
        DeprecationWarning,
        stacklevel=3,
    )


def saved_variables(context) -> tuple:
    """Return the saved tensors of a Function's context, with a warning of the name that they were asked by."""
    warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=3)
    return context.saved_tensors


def not_written(node, number: int) -> str:
    """Return why an output that shares memory can't be written: its history would no longer be the Function."""
    return (
        f"Output {number} of {node.user.__name__} is a view and is being modified inplace. This view was created "
        "inside a custom Function (or because an input was returned as-is): clone() it first."
    )
