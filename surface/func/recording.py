"""What all transforms share: arguments whose calls are recorded, gradients of the results, results for the caller."""

from __future__ import annotations

import functools
import threading
import weakref

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
from plugrad.autograd.forward_ad import leaf_of, without_history
from plugrad.extend.blocks import Restoring
from plugrad.graph.modes import writes


def _storage(tensor):
    return tensor._type.backend.storage(tensor._raw)


class Recorded(Restoring):
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
        self.written: dict = {}  # tensors that had no history before they were written, and what they held, by identity
        self.thread = threading.get_ident()

    def begin(self):
        writes.append(self._note)
        return self

    def end(self):
        writes.remove(self._note)
        self.written.clear()
        self.active = False

    def _note(self, target) -> None:
        base = target if target._base is None else target._base
        if threading.get_ident() == self.thread and base.grad_fn is None and not base.requires_grad:
            self.written.setdefault(id(base), (weakref.ref(base), base.detach().clone()))

    def refuse_captured(self, results) -> None:
        """Raise RuntimeError if the function wrote what depends on its arguments to a tensor that was there before.

        That is one which is there still and is no result. It gets back what it held.
        """
        own = {id(_storage(result)) for result in nest.leaves(results) if isinstance(result, Tensor)}
        late = [(base, old) for ref, old in self.written.values() if (base := ref()) is not None]
        captured = [(base, old) for base, old in late if base.requires_grad and id(_storage(base)) not in own]
        for base, old in captured:
            with no_grad():
                base.detach_().copy_(old)
        if captured:
            raise RuntimeError(
                "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place "
                "operation that would mutate a captured Tensor. This is not supported; please rewrite the function "
                "being transformed to explicitly accept the mutated Tensor(s) as inputs."
            )

    def lasting(self, outputs) -> bool:
        """Whether results are recorded for the caller: where gradients are, and grad mode was on around the call."""
        return self.kept and self.depends(outputs)

    def depends(self, outputs) -> bool:
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


def dependence_of(outputs, inputs, weights, create_graph, retain_graph=None):
    """Return the gradients of the outputs; None where there is no dependence."""
    pairs = [(output, weight) for output, weight in zip(outputs, weights) if output.requires_grad]
    if not pairs:
        return [None] * len(inputs)
    return autograd.grad(
        [output for output, _ in pairs], inputs, [weight for _, weight in pairs], create_graph=create_graph,
        retain_graph=retain_graph or create_graph, allow_unused=True,
    )  # fmt: skip


def gradients_of(outputs, inputs, weights, create_graph, retain_graph=None):
    """Return the gradients of the outputs; zeros where there is no dependence."""
    grads = dependence_of(outputs, inputs, weights, create_graph, retain_graph)
    return [plugrad.zeros_like(tensor) if grad is None else grad for grad, tensor in zip(grads, inputs)]


def with_aux(value, has_aux, name) -> tuple:
    """Return (the result of a function, what came beside it)."""
    if not has_aux:
        return value, None
    if not (isinstance(value, tuple) and len(value) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    for leaf in nest.leaves(value[1]):
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{name}: Expected tensors, got unsupported type {type(leaf)} in aux")
    return value


def results_of(value, has_aux, name):
    """Return (the result of a function, its tensors, what came beside it)."""
    value, aux = with_aux(value, has_aux, name)
    outputs = [] if value is None else [*nest.leaves(value)]
    if not outputs:
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output (got output = {value})")
    for output in outputs:
        if not isinstance(output, Tensor):
            kind = type(output)
            raise RuntimeError(f"{name}: expected f(*primals) to return only tensors, got unsupported type {kind}")
    return value, outputs, aux


def refuse_complex(tensors, what, name):
    """Raise RuntimeError for complex tensors: a Jacobian of theirs is two matrices, not one."""
    for number, tensor in enumerate(tensors):
        if tensor.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what}s to be real but received complex tensor at flattened {what} idx: "
                f"{number}; use torch.view_as_real"
            )


def refuse_integers(outputs):
    """Raise RuntimeError for results of integers or bools, which nothing is to be differentiated of."""
    for tensor in outputs:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{tensor.dtype}: hand it on as aux, by has_aux=True"
            )


def select(args, argnums, name):
    """Return the arguments that `argnums` names, and a function that puts others in their places."""
    if not is_int(argnums) and not (isinstance(argnums, tuple) and all(map(is_int, argnums))):
        raise RuntimeError(f"{name}: argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        raise RuntimeError(f"{name}: argnums must be non-empty: there is nothing to differentiate by")
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"{name}: Got argnum={number}, but only {len(args)} positional inputs")
    numbers = tuple(number % len(args) for number in numbers)
    if len(set(numbers)) < len(numbers):
        raise RuntimeError(f"{name}: argnums elements must be unique, got {argnums}")

    def put(values):
        changed = list(args)
        for number, value in zip(numbers, values):
            changed[number] = value
        return changed

    return tuple(args[number] for number in numbers), put


def detached(value, lasting):
    """Return results for the caller: with their history only where something outside takes part in it."""
    if lasting:
        return value
    return nest.change(lambda leaf: without_history(leaf) if isinstance(leaf, Tensor) else leaf, value)


def apart(results, given) -> list:
    """Return derivatives, copied where one is a direction itself: a write to it must not reach the caller's tensor."""
    return [one.clone() if any([one is direction for direction in given]) else one for one in results]


def outside_inference(function):
    """Have a transform record what it differentiates in inference mode, too; its results can be written later."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not is_inference_mode_enabled():
            return function(*args, **kwargs)
        with inference_mode(False), no_grad():
            return function(*args, **kwargs)

    return call
