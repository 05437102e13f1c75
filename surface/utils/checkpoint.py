"""Activations that are computed again in backward instead of kept: time for memory."""

from __future__ import annotations

import contextlib
import warnings

from plugrad import Tensor, autograd, enable_grad, is_grad_enabled, nest, random
from plugrad.amp import autocast_mode

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]


_SAVED = object()  # stands for a tensor among the arguments


class CheckpointFunction(autograd.Function):
    """Runs a function unrecorded; backward runs it again, recorded, and walks that."""

    @staticmethod
    def forward(ctx, function, preserve, args, kwargs):
        call = args, kwargs
        ctx.save_for_backward(*[leaf for leaf in nest.leaves(call) if isinstance(leaf, Tensor)])
        ctx.function, ctx.call = function, nest.change(lambda leaf: _SAVED if isinstance(leaf, Tensor) else leaf, call)
        ctx.state = random.get_rng_state() if preserve else None
        ctx.autocast = autocast_mode.same_again()
        return function(*args, **kwargs)

    @staticmethod
    def backward(ctx, *grads):
        restored = contextlib.nullcontext()
        if ctx.state is not None:
            restored = random.fork_rng()
        copies: dict = {}
        saved = iter(ctx.saved_tensors)
        given = nest.change(lambda leaf: next(saved) if leaf is _SAVED else leaf, ctx.call)
        args, kwargs = _detached(given, copies)
        with restored, enable_grad():
            if ctx.state is not None:
                random.set_rng_state(ctx.state)
            with ctx.autocast:
                outputs = ctx.function(*args, **kwargs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, grads)
            if isinstance(output, Tensor) and output.requires_grad and grad is not None
        ]
        if pairs:
            autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])
        return None, None, _gradients(given[0], copies), _gradients(given[1], copies)


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


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function saved other tensors than the first."""


class _Recomputed:
    """What the nodes of one checkpointed call saved: its place is kept, and the call is run again for the values."""

    def __init__(self, function, args, kwargs, preserve):
        self.call = function, args, kwargs
        tensors = [leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor) and not leaf.is_inference()]
        self.versions = [(tensor, tensor._version) for tensor in tensors]
        self.state, self.autocast = random.get_rng_state() if preserve else None, autocast_mode.same_again()
        self.count = 0
        self.values: dict = {}  # place -> tensor, while backward uses them

    def pack(self, tensor):
        self.count += 1
        return self.count - 1

    def unpack(self, place):
        if place not in self.values:
            self.run_again()
        return self.values.pop(place)

    def run_again(self) -> None:
        """Run the call again, recorded, and keep what its nodes save."""
        if any(tensor._version != version for tensor, version in self.versions):
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: an "
                "argument of checkpoint(), which can't be computed again"
            )
        kept: list = []
        function, args, kwargs = self.call
        restored = contextlib.nullcontext() if self.state is None else random.fork_rng()
        with restored, enable_grad(), autograd.graph.saved_tensors_hooks(kept.append, lambda packed: packed):
            if self.state is not None:
                random.set_rng_state(self.state)
            with self.autocast:
                function(*args, **kwargs)
        if len(kept) != self.count:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation: {self.count} and {len(kept)}. The function must do the same both times."
            )
        self.values = dict(enumerate(kept))


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """Return `function(*args, **kwargs)`, to be computed again in backward.

    What its backward needs is not kept meanwhile.

    Args:
        function: what to run, twice; it must do the same both times.
        args, kwargs: its arguments; tensors in nested lists, tuples and dicts are tracked.
        preserve_rng_state: draw the same random numbers the second time.
        use_reentrant: False records the call as it is, and computes again what its nodes saved: tensors that the
            function closes over get gradients, and gradients can be differentiated again. True runs the function
            unrecorded, and again in a backward of its own; at least one argument must require grad. Without it a
            warning says that it is True.

    T. Chen, B. Xu, C. Zhang, C. Guestrin, arXiv:1604.06174.

    >>> import plugrad as torch
    >>> from plugrad.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(lambda x: (x * 3).exp(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([60.2566, 60.2566])
    """
    if kwargs.pop("context_fn", None) is not None:
        raise NotImplementedError("checkpoint has no context_fn: put the contexts into the function itself")
    for option in ("determinism_check", "debug", "early_stop"):
        kwargs.pop(option, None)
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended; without it use_reentrant=True is meant.",
            stacklevel=2,
        )
    if not is_grad_enabled():
        return function(*args, **kwargs)
    if use_reentrant is False:
        saved = _Recomputed(function, args, kwargs, preserve_rng_state)
        with autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
            return function(*args, **kwargs)
    if not any(leaf.requires_grad for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
    return CheckpointFunction.apply(function, preserve_rng_state, args, kwargs)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **options):
    """Run modules one after the other in checkpointed pieces.

    There are `segments`; the last of them is run as it is.

    >>> import plugrad as torch
    >>> from plugrad.utils.checkpoint import checkpoint_sequential
    >>> layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    >>> checkpoint_sequential(layers, 2, torch.ones(1, 2), use_reentrant=False).shape
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
        part = run(functions[start : start + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, **options)
        start += size
    return run(functions[start:])(input)
