"""Identity nodes at a module's inputs and outputs, on which backward hooks hang."""

from __future__ import annotations

import warnings

from plugrad import Tensor, is_grad_enabled
from plugrad.autograd import Function

__all__ = ["BackwardHook", "BackwardHookFunction"]


class BackwardHookFunction(Function):
    """The identity on several tensors, as one node that sees all their gradients."""

    @staticmethod
    def forward(ctx, seen, materialize, *tensors):
        ctx.seen = seen
        ctx.set_materialize_grads(materialize)
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *ctx.seen(grads)


class BackwardHook:
    """The backward hooks of one call of a module.

    The node at the outputs meets their gradients first: it runs the pre-hooks and keeps the gradients. The
    node at the inputs then runs the hooks. When no input needs a gradient there is no such node, and the
    hooks run early. Old style hooks hang on the node that made the output instead.
    """

    __slots__ = (
        "module",
        "hooks",
        "pre_hooks",
        "last_node_hooks",
        "grad_output",
        "inputs",
        "n_inputs",
        "outputs",
        "n_outputs",
        "args",
    )

    def __init__(self, module, hooks, pre_hooks, last_node_hooks):
        self.module, self.hooks, self.pre_hooks, self.last_node_hooks = (
            module,
            hooks,
            pre_hooks,
            last_node_hooks,
        )
        self.grad_output = self.inputs = self.outputs = None
        self.n_inputs = self.n_outputs = 0
        self.args: tuple = ()

    def setup_input_hook(self, args: tuple) -> tuple:
        """Put the inner node before the tensors of ``args``."""
        self.args = args
        if self.hooks or self.pre_hooks:
            self.n_inputs = len(args)
            args, self.inputs = _tap(args, self._inputs_ready, materialize=True)
        return args

    def setup_output_hook(self, result):
        """Put the outer node behind ``result``, a tensor or a tuple holding some."""
        if self.hooks or self.pre_hooks:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of"
                    f" Tensors but received {type(result)}",
                    stacklevel=4,
                )
            outputs = result if isinstance(result, tuple) else (result,)
            self.n_outputs = len(outputs)
            outputs, self.outputs = _tap(outputs, self._outputs_ready, materialize=False)
            result = outputs if isinstance(result, tuple) else outputs[0]
        if self.last_node_hooks:
            _hook_last_node(self.module, self.last_node_hooks, self.args, result)
        return result

    def _outputs_ready(self, grads):
        grad_output = _spread(self.outputs, grads, self.n_outputs)
        for hook in self.pre_hooks:
            changed = hook(self.module, grad_output)
            if changed is not None:
                grad_output = _checked(changed, grad_output, "pre hook", "grad_output")
        self.grad_output = grad_output
        if self.inputs is None:
            self._run_without_inputs()
        return tuple(grad_output[i] for i in self.outputs)

    def _inputs_ready(self, grads):
        if self.grad_output is None:
            # Reached from within forward and not from the outputs, as in double backward: not the module's.
            return grads
        grad_input = _spread(self.inputs, grads, self.n_inputs)
        for hook in self.hooks:
            changed = hook(self.module, grad_input, self.grad_output)
            if changed is not None:
                grad_input = _checked(changed, grad_input, "hook", "grad_input")
        self.grad_output = None
        return tuple(grad_input[i] for i in self.inputs)

    def _run_without_inputs(self):
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs"
                " since no inputs require gradients.",
                stacklevel=2,
            )
        for hook in self.hooks:
            changed = hook(self.module, (None,) * self.n_inputs, self.grad_output)
            if changed is not None and not (isinstance(changed, tuple) and all(g is None for g in changed)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None"
                    " or None for all gradients."
                )
        self.grad_output = None


def _tap(values: tuple, seen, materialize: bool):
    """Route the tensors of ``values`` through one node; also return their positions."""
    positions = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    tensors = [values[i] for i in positions]
    if not (is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return values, None
    tapped = list(values)
    for i, tensor in zip(positions, BackwardHookFunction.apply(seen, materialize, *tensors)):
        tapped[i] = tensor
    return tuple(tapped) if type(values) is tuple else type(values)(*tapped), positions


def _spread(positions, grads, size: int) -> tuple:
    spread: list = [None] * size
    for i, grad in zip(positions, grads):
        spread[i] = grad
    return tuple(spread)


def _checked(changed, expected, kind: str, what: str):
    if len(changed) != len(expected):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {what}, got {len(changed)}, but expected {len(expected)}"
        )
    for one in changed:
        if not (one is None or isinstance(one, Tensor)):
            raise TypeError(f"expected Variable, but hook returned {type(one).__name__!r}: return Tensors or None")
    return changed


def _hook_last_node(module, hooks, args, result) -> None:
    """Hang old style backward hooks on the node of the first tensor in ``result``."""
    first = _first_tensor(result)
    if first is None or first.grad_fn is None:
        return
    for hook in hooks:
        first.grad_fn.register_hook(
            lambda grad_inputs, grad_outputs, hook=hook: hook(module, grad_inputs, grad_outputs)
        )
    case = _what_last_node_misses(first.grad_fn, args, result)
    if case is not None:
        warnings.warn(
            f"Using {case[0]} is deprecated and will be removed in future versions. This hook will be missing "
            f"{case[1]}. Please use register_full_backward_hook to get the documented behavior.",
            FutureWarning,
            stacklevel=4,
        )


def _what_last_node_misses(node, args, result) -> tuple | None:
    """Return in which case of a module's call its last node has other gradients, and which of them; None in none."""
    outputs = result if isinstance(result, tuple) else (result,)
    inputs = args if isinstance(args, tuple) else (args,)
    if not all(isinstance(value, Tensor) for value in outputs):
        what = "non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors"
        return what, "some of the grad_output"
    if not all(isinstance(value, Tensor) for value in inputs):
        what = "non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors"
        return what, "some of the grad_input"
    if len({value.grad_fn for value in outputs if value.grad_fn is not None}) > 1:
        return "a non-full backward hook when outputs are generated by different autograd Nodes", "some grad_output"
    before = {value.grad_fn for value in inputs if value.grad_fn is not None}
    if before != {function for function, _ in node.next_functions if function is not None}:
        return "a non-full backward hook when the forward contains multiple autograd Nodes", "some grad_input"
    return None


def _first_tensor(value):
    while not isinstance(value, Tensor):
        if isinstance(value, dict):
            value = next((v for v in value.values() if isinstance(v, Tensor)), None)
        elif isinstance(value, (tuple, list)) and value:
            value = value[0]
        else:
            return None
    return value
