"""Activations that are computed again in backward instead of kept: time for memory."""

from __future__ import annotations

import contextlib
import warnings

from plugrad import Tensor, autograd, cuda, enable_grad, is_grad_enabled, nest, random
from plugrad.amp import autocast_mode
from plugrad.arguments import checked
from plugrad.autograd.graph import saved_tensors_hooks
from plugrad.extend import OpHook
from plugrad.random import forks
from plugrad.regions import Region, declare, mode
from plugrad.utils.selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType", "GraphExecGroup",
    "SAC_IGNORED_OPS", "SelectiveCheckpointContext", "check_backward_validity", "checkpoint", "checkpoint_sequential",
    "create_selective_checkpoint_contexts", "detach_variable", "get_device_states", "noop_context_fn",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip


_SAVED = object()  # stands for a tensor among the arguments


class CheckpointFunction(autograd.Function):
    """Runs a function unrecorded; backward runs it again, recorded, and walks that."""

    @staticmethod
    def forward(ctx, function, preserve, args, kwargs):
        call = args, kwargs
        ctx.save_for_backward(*[leaf for leaf in nest.leaves(call) if isinstance(leaf, Tensor)])
        ctx.function, ctx.call = function, nest.change(lambda leaf: _SAVED if isinstance(leaf, Tensor) else leaf, call)
        ctx.states = _states(call) if preserve else None
        ctx.autocast = autocast_mode.same_again()
        return function(*args, **kwargs)

    @staticmethod
    def backward(ctx, *grads):
        if not autograd.Variable._execution_engine.is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(), and so with the transforms of torch.func: it walks a graph of its own, to "
                "all leaves. Write use_reentrant=False, or call .backward() without inputs"
            )
        restored = contextlib.nullcontext() if ctx.states is None else random.fork_rng()
        copies: dict = {}
        saved = iter(ctx.saved_tensors)
        given = nest.change(lambda leaf: next(saved) if leaf is _SAVED else leaf, ctx.call)
        args, kwargs = _detached(given, copies)
        with restored, enable_grad():
            if ctx.states is not None:
                forks.set_states_of_all(ctx.states)
            with ctx.autocast:
                outputs = ctx.function(*args, **kwargs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, grads)
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        pairs = [(output, grad) for output, grad in pairs if grad is not None]
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


class _Enough(BaseException):
    """Ends the second run of a function: all that it was run for is there. No handler of errors is meant."""


declare("checkpoint_early_stop", True)
declare("checkpoint_debug", None)
declare("graph_exec_group", None)


class _Setting(Region):
    """A block in which a setting of checkpoints is another one."""

    def __init__(self, **changes):
        self._changes = changes

    def changes(self):
        return self._changes


def set_checkpoint_early_stop(enable: bool):
    """Return a context that says whether a second run ends once it has what it is for."""
    return _Setting(checkpoint_early_stop=bool(enable))


def set_checkpoint_debug_enabled(enabled):
    """Return a context that sets `debug` for all checkpoints in it, unless None."""
    return _Setting(checkpoint_debug=enabled)


class GraphExecGroup(Region):
    """A block of several walks, in which a checkpointed function runs again once.

    These walks must go through different parts of the graph.
    """

    def __init__(self):
        self.values: dict = {}  # checkpointed call -> what its second run saved

    def changes(self):
        if mode.graph_exec_group is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested")
        return {"graph_exec_group": self}

    def __enter__(self):
        super().__enter__()
        return self


def noop_context_fn():
    """Return two contexts that do nothing, as `context_fn` does by default."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class _Names(OpHook):
    """Notes the ops that run."""

    def __init__(self):
        super().__init__()
        self.names: list = []

    def before(self, call):
        self.names.append(f"{'  ' * call.depth}{call.name}")


def _states(values) -> dict:
    """Return the states of the generators that a call with such arguments may draw from.

    While a CUDA graph is captured that is the CPU's; whoever draws on the device again is refused then.
    """
    if cuda.is_current_stream_capturing():
        return {"cpu": random.get_rng_state()}
    return forks.states_of_all({leaf.device for leaf in nest.leaves(values) if isinstance(leaf, Tensor)})


def _described(tensor) -> tuple:
    return tuple(tensor.shape), tensor.dtype, tensor.device


class _Recomputed:
    """What the nodes of one checkpointed call saved: its place is kept, and the call is run again for the values."""

    def __init__(self, function, args, kwargs, preserve, options):
        self.call, self.options = (function, args, kwargs), options
        tensors = [leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor) and not leaf.is_inference()]
        self.versions = [(tensor, tensor._version) for tensor in tensors]
        self.states, self.autocast = _states((args, kwargs)) if preserve else None, autocast_mode.same_again()
        self.saved: list = []  # what is known of each tensor that was saved: shape, dtype, device
        self.ended = False  # whether the first run is over: a gradient taken within it needs only what was saved so far
        self.values: dict = {}  # place -> (tensor, its version), while backward uses them
        self.names = _Names() if options["debug"] else None

    def run(self, context):
        """Run the call the first time."""
        function, args, kwargs = self.call
        with context, saved_tensors_hooks(self.pack, self.unpack), self.names or contextlib.nullcontext():
            result = function(*args, **kwargs)
        self.ended = True
        return result

    def pack(self, tensor):
        self.saved.append(_described(tensor))
        return len(self.saved) - 1

    def unpack(self, place):
        group = mode.graph_exec_group
        values = self.values if group is None else group.values.setdefault(self, {})
        tensor, version = values.pop(place, (None, None))
        if tensor is None or tensor._version != version:  # written since an earlier backward had it computed
            values.update((i, (again, again._version)) for i, again in enumerate(self.run_again()))
            tensor, _ = values.pop(place)
        return tensor

    def run_again(self) -> list:
        """Run the call again, recorded; return what its nodes save."""
        if any(tensor._version != version for tensor, version in self.versions):
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: an "
                "argument of checkpoint(), which can't be computed again"
            )
        kept: list = []
        stops = self.options["early_stop"]

        def keep(tensor):
            kept.append(tensor)
            if stops and len(kept) == len(self.saved):
                raise _Enough
            return tensor

        function, args, kwargs = self.call
        restored = contextlib.nullcontext() if self.states is None else random.fork_rng()
        names = _Names() if self.names else contextlib.nullcontext()
        with (
            restored,
            enable_grad(),
            self.options["context"](),
            saved_tensors_hooks(keep, lambda packed: packed),
            names,
        ):
            if self.states is not None:
                forks.set_states_of_all(self.states)
            with contextlib.suppress(_Enough), self.autocast:
                function(*args, **kwargs)
        if not self.ended:
            del kept[len(self.saved) :]
        wrong = self.difference(kept)
        if wrong is not None:
            told = ""
            if self.names:
                told = "\nYou are seeing this error because you passed `debug=True` to checkpoint."
                told += "\nOps of the first run:\n" + "\n".join(self.names.names)
                told += "\nOps of the second run:\n" + "\n".join(names.names)
            raise CheckpointError(f"torch.utils.checkpoint: {wrong}. The function must do the same both times.{told}")
        return kept

    def difference(self, kept):
        """Return in words how what was saved the second time differs; None if it does not."""
        if len(kept) > len(self.saved):
            return (
                "trying to save more tensors during recomputation than during the original forward pass: a different "
                f"number of tensors was saved, {len(self.saved)} and {len(kept)}"
            )
        if len(kept) != len(self.saved):
            return (
                "A different number of tensors was saved during the original forward and recomputation: "
                f"{len(self.saved)} and {len(kept)}"
            )
        if self.options["determinism_check"] == "none":
            return None
        for place, (before, tensor) in enumerate(zip(self.saved, kept)):
            if before != _described(tensor):
                return (
                    "Recomputed values for the following tensors have different metadata than during the forward pass: "
                    f"tensor {place}, saved as {before}, recomputed as {_described(tensor)}"
                )
        return None


def checkpoint(
    function,
    *args,
    use_reentrant=None,
    preserve_rng_state=True,
    context_fn=noop_context_fn,
    determinism_check="default",
    debug=False,
    early_stop=True,
    **kwargs,
):
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
        context_fn: returns two contexts, for the first run and for the second; see
            `create_selective_checkpoint_contexts`.
        determinism_check: "default" compares shapes, dtypes and devices of both runs, "none" does not.
        debug: show the ops of both runs where these differ.
        early_stop: end the second run as soon as backward has what it needs.

    Raises ValueError for options that need use_reentrant=False, CheckpointError in backward where the runs differ.

    T. Chen, B. Xu, C. Zhang, C. Guestrin, arXiv:1604.06174.

    >>> import plugrad as torch
    >>> from plugrad.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(lambda x: (x * 3).exp(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([60.2566, 60.2566])
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    if use_reentrant is not None and type(use_reentrant) is not bool:
        use_reentrant = bool(use_reentrant)
    if use_reentrant is None:
        use_reentrant = _meant("torch.utils.checkpoint")
    if use_reentrant is not False and (context_fn is not noop_context_fn or debug):
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if use_reentrant is False and not is_grad_enabled():
        return function(*args, **kwargs)
    if use_reentrant is False:
        first, second = context_fn()
        options = {
            "context": lambda: second, "determinism_check": determinism_check,
            "debug": debug if mode.checkpoint_debug is None else mode.checkpoint_debug,
            "early_stop": early_stop and mode.checkpoint_early_stop,
        }  # fmt: skip
        return _Recomputed(function, args, kwargs, preserve_rng_state, options).run(first)
    leaves = [leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    check_backward_validity(leaves)
    if any(leaf.__dict__.get("_tangents") for leaf in leaves):
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD: "
            "checkpoint with use_reentrant=True has none. Write use_reentrant=False"
        )
    return CheckpointFunction.apply(function, preserve_rng_state, args, kwargs)


def check_backward_validity(inputs) -> None:
    """Warn if no tensor among the inputs requires grad."""
    if not any(leaf.requires_grad for leaf in inputs if isinstance(leaf, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)


def detach_variable(inputs) -> tuple:
    """Return a tuple of inputs with each tensor cut off from its history, as a leaf."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple([
        leaf.detach().requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf for leaf in inputs
    ])  # fmt: skip


class DefaultDeviceType:
    """The type of device whose random numbers are put back if no argument lies on one."""

    _type = "cuda"

    @staticmethod
    def set_device_type(device="cuda") -> None:
        """Set the type of device."""
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the type of device."""
        return DefaultDeviceType._type


def get_device_states(*args) -> tuple:
    """Return the numbers of tensors' CUDA devices, and their random states."""
    tensors = [leaf for leaf in nest.leaves(args) if isinstance(leaf, Tensor) and leaf.is_cuda]
    devices = list(dict.fromkeys(tensor.device.index or 0 for tensor in tensors))
    return devices, [cuda.get_rng_state(number) for number in devices]


def set_device_states(devices, states, *, device_type=None) -> None:
    """Put back what `get_device_states` returned."""
    for number, state in zip(devices, states):
        cuda.set_rng_state(state, number)


def _meant(name) -> bool:
    """Return which of the two ways is meant where none was chosen, and warn of it."""
    warnings.warn(
        f"{name}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended; without "
        "it use_reentrant=True is meant.",
        stacklevel=3,
    )
    return True


@checked(segments="int")
def checkpoint_sequential(functions, segments, input, use_reentrant=None, preserve_rng_state=True, **unknown):
    """Run modules one after the other in checkpointed pieces.

    There are `segments`; the last of them is run as it is. Raises ValueError for keywords that it does not know.

    >>> import plugrad as torch
    >>> from plugrad.utils.checkpoint import checkpoint_sequential
    >>> layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    >>> checkpoint_sequential(layers, 2, torch.ones(1, 2), use_reentrant=False).shape
    torch.Size([1, 1])
    """
    if use_reentrant is None:
        use_reentrant = _meant("torch.utils.checkpoint.checkpoint_sequential")
    if unknown:
        known = "write use_reentrant= or preserve_rng_state="
        raise ValueError(f"Unexpected keyword arguments: {','.join(unknown)}; {known}")
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
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
        start += size
    return run(functions[start:])(input)
