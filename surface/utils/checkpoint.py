"""Activations that are computed again in backward instead of kept: time for memory."""

from __future__ import annotations

import contextlib

import plugrad
from plugrad import Tensor, autograd, enable_grad, is_grad_enabled, nest, random

__all__ = ["checkpoint", "checkpoint_sequential"]


class _Recompute(autograd.Function):
    """Runs the function unrecorded; backward runs it again, recorded, and walks back through that."""

    @staticmethod
    def forward(ctx, function, preserve, args, kwargs, anchor):
        ctx.function, ctx.args, ctx.kwargs = function, args, kwargs
        ctx.state = random.get_rng_state() if preserve else None
        return function(*args, **kwargs)

    @staticmethod
    def backward(ctx, *grads):
        restored = contextlib.nullcontext()
        if ctx.state is not None:
            restored = random.fork_rng()
        copies: dict = {}
        args, kwargs = _detached(ctx.args, copies), _detached(ctx.kwargs, copies)
        with restored, enable_grad():
            if ctx.state is not None:
                random.set_rng_state(ctx.state)
            outputs = ctx.function(*args, **kwargs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, grads)
            if isinstance(output, Tensor) and output.requires_grad and grad is not None
        ]
        if pairs:
            autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])
        return None, None, _gradients(ctx.args, copies), _gradients(ctx.kwargs, copies), None


def _detached(value, copies):
    """Return the arguments with each tensor cut off from its history, as a leaf."""

    def cut(leaf):
        if not isinstance(leaf, Tensor):
            return leaf
        copy = copies.get(id(leaf))
        if copy is None:
            copy = copies[id(leaf)] = leaf.detach().requires_grad_(leaf.requires_grad)
        return copy

    return nest.change(cut, value)


def _gradients(value, copies):
    """Return the gradients of the tensors among the arguments; of one that is there twice, once."""
    tensors = [leaf for leaf in nest.leaves(value) if isinstance(leaf, Tensor)]
    return [copies.pop(id(tensor)).grad if id(tensor) in copies else None for tensor in tensors] or None


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """Return `function(*args, **kwargs)`, to be computed again in backward.

    What its backward needs is not kept meanwhile.

    Args:
        function: what to run, twice; it must do the same both times.
        args, kwargs: its arguments; tensors in nested lists, tuples and dicts are tracked.
        preserve_rng_state: draw the same random numbers the second time.
        use_reentrant: accepted; there is one implementation, whose gradients can't be differentiated again.

    T. Chen, B. Xu, C. Zhang, C. Guestrin, arXiv:1604.06174.

    >>> import plugrad as torch
    >>> from plugrad.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(lambda x: (x * 3).exp(), x).sum().backward()
    >>> x.grad
    tensor([60.2566, 60.2566])
    """
    if kwargs.pop("context_fn", None) is not None:
        raise NotImplementedError("checkpoint has no context_fn: put the contexts into the function itself")
    for option in ("determinism_check", "debug", "early_stop"):
        kwargs.pop(option, None)
    if not is_grad_enabled():
        return function(*args, **kwargs)
    # Parameters that `function` closes over need gradients even where no argument does.
    anchor = plugrad.empty(0).requires_grad_()
    return _Recompute.apply(function, preserve_rng_state, args, kwargs, anchor)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **options):
    """Run modules one after the other in checkpointed pieces.

    There are `segments`; the last of them is run as it is.

    >>> import plugrad as torch
    >>> from plugrad.utils.checkpoint import checkpoint_sequential
    >>> layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    >>> checkpoint_sequential(layers, 2, torch.ones(1, 2)).shape
    torch.Size([1, 1])
    """
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def run(part):
        def through(input):
            for function in part:
                input = function(input)
            return input

        return through

    size = max(len(functions) // segments, 1)
    start = 0
    for _ in range(segments - 1):
        input = checkpoint(run(functions[start : start + size]), input, **options)
        start += size
    return run(functions[start:])(input)
