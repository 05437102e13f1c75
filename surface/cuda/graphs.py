"""CUDA graphs: a step's work is captured once and launched as a whole, which costs the host next to nothing.

What captures a stream is the CUDA plugin (`plugrad.plugins.backends.cuda`); here are PyTorch's names for it, and what
a graph needs when it is launched again: fresh random numbers, and the checks of values in it.
"""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from io import BytesIO

import plugrad
from plugrad import Generator, Tensor
from plugrad.extend import generator_of, held_back
from plugrad.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

_MODES = ("global", "thread_local", "relaxed")
_pools = weakref.WeakValueDictionary()  # by handle; graphs keep theirs
_lock, _handles = threading.Lock(), [0]


def _captures():
    return plugrad.cuda._needed().captures


def is_current_stream_capturing() -> bool:
    """Whether work of the current stream is captured into a graph.

    >>> import plugrad as torch
    >>> torch.cuda.is_current_stream_capturing()
    False
    """
    if not plugrad.cuda.is_initialized() or _captures().here() is None:
        return False
    return plugrad.cuda._runtime().get_current_stream().is_capturing()


def graph_pool_handle() -> tuple:
    """Return a token for memory that several graphs share."""
    with _lock:
        _handles[0] += 1
        return 0, _handles[0]


def _nothing_captured(method):
    return RuntimeError(f"Called CUDAGraph::{method} without a preceding successful capture.")


class CUDAGraph:
    """The work of a capture, to be launched as a whole, as often as one likes.

    It works on the memory that it was captured with: inputs are written there before a launch, results read from
    there afterwards. With `keep_graph`, `raw_cuda_graph()` gives CUDA's own.
    """

    def __init__(self, keep_graph: bool = False):
        if not plugrad.cuda.is_available():
            raise RuntimeError("Tried to instantiate dummy base class CUDAGraph: there is no CUDA device here")
        self._keep, self._debug, self._registered = keep_graph, False, []
        self._capture = self._graph = self._pool = self._handle = None
        self._draws = self._checks = self._kept = ()

    def capture_begin(self, pool=None, capture_error_mode: str = "global") -> None:
        """Begin to capture the current stream, which must not be the default one.

        `pool` is a token of `graph_pool_handle()`, or the `pool()` of another graph, whose memory this one shares:
        then they must be launched in the order of their captures, and never at the same time. The modes are PyTorch's
        and all mean "relaxed". Raises RuntimeError where a capture is under way already, or the graph has one.
        """
        with held_back():
            self._begin(pool, capture_error_mode, lambda: True)

    def _begin(self, pool, mode, alive, stream=None):
        if mode not in _MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {mode}"
            )
        captures = _captures()
        captures.refuse_second()
        if self._graph is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        handle = graph_pool_handle() if pool is None else tuple(pool)
        memory = _pools.get(handle)
        if memory is None:
            memory = _pools[handle] = captures.new_pool()
        generator_of("cuda")  # which a draw in the capture may ask for
        self._capture = captures.begin(memory, alive, stream)
        self._pool, self._handle = memory, handle

    def capture_end(self) -> None:
        """End the capture: from now on the graph can be launched.

        Raises RuntimeError where something spoilt it, on another stream than it began on, or without a capture.
        """
        with held_back():
            captures, capture, self._capture = _captures(), self._capture, None
            if capture is None or captures.capture is not capture:
                raise RuntimeError("capture_end() without a capture that this graph began")
            try:
                graph = captures.end()
                self._draws = [(self._generator(source), *drawn) for source, drawn in capture.draws.items()]
            except BaseException:
                self.reset()
                raise
            self._graph, self._kept, self._checks, self._number = graph, capture.kept, capture.checks, capture.device
            self._plugin = plugrad.cuda._needed()
            self._plugin.faults.of_graphs.update(capture.checks)

    def _generator(self, source):
        """Return the generator whose numbers a draw in the capture took."""
        for generator in (generator_of("cuda"), *self._registered):
            if generator.source is source:
                return generator
        raise RuntimeError(
            "random numbers in a CUDA graph come from a generator that it does not know: call "
            "graph.register_generator_state(generator) before the capture, and do not seed it in there"
        )

    def register_generator_state(self, generator) -> None:
        """Let the capture draw from a generator that is not a device's own."""
        if not isinstance(generator, Generator):
            raise TypeError(f"a generator is wanted, not {type(generator).__name__}")
        self._registered.append(generator)

    def replay(self) -> None:
        """Do the work of the graph, in the current stream.

        Random numbers are those that the same work would draw now; the generators move on by as many.
        """
        if self._graph is None:
            raise _nothing_captured("replay")
        plugin = self._plugin
        plugin.captures.refuse("a graph's replay()", "no graph can hold another one's launch")
        if plugin.current_device() != self._number:
            with plugin.on(self._number):
                return self.replay()
        for generator, state, count in self._draws:
            generator.source.replayed(state, count)
        self._graph.launch()
        if self._checks:
            plugin.faults.replayed = True

    def reset(self) -> None:
        """Forget the graph, and give its memory back, as far as no tensor holds it."""
        self._forget()
        _captures().sweep()

    def _forget(self):
        for number in self._checks:
            self._plugin.faults.of_graphs.pop(number, None)
        self._graph = self._pool = None
        self._draws = self._checks = self._kept = ()

    def __del__(self):
        if getattr(self, "_graph", None) is not None:
            self._forget()

    def pool(self) -> tuple:
        """Return the token of the graph's memory, for other graphs to share."""
        if self._pool is None:
            raise _nothing_captured("pool()")
        return self._handle

    def instantiate(self) -> None:
        """Make the graph ready to be launched: it is, since its capture ended."""
        if self._graph is None:
            raise _nothing_captured("instantiate()")

    def enable_debug_mode(self) -> None:
        """Have `debug_dump` write something."""
        self._debug = True

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph to a file, in DOT, if `enable_debug_mode()` was called."""
        if self._graph is None:
            raise _nothing_captured("debug_dump")
        if self._debug:
            with open(debug_path, "w", encoding="utf-8") as file:
                file.write(self._graph.debug_dot_str())

    def raw_cuda_graph(self) -> int:
        """Return the address of CUDA's own graph; RuntimeError without `keep_graph`."""
        if not self._keep:
            raise RuntimeError("You cannot access the raw cudaGraph_t instance unless CUDAGraph has keep_graph=True")
        if self._graph is None:
            raise _nothing_captured("raw_cuda_graph")
        return self._graph.graph

    def raw_cuda_graph_exec(self) -> int:
        """Return the address of what CUDA launches."""
        if self._graph is None:
            raise _nothing_captured("raw_cuda_graph_exec")
        return self._graph.graphExec


class _Exit:
    """The `__exit__` of a capture, for which a `with` block asks before it enters.

    Ctrl-C may come before that has done anything. Then the block lets go of it, which closes a flag, and whoever next
    computes, asks for memory or waits ends the capture.
    """

    def __get__(self, context, owner=None):
        if context is None:
            return self  # an ExitStack takes it from the class
        leaving, context._flag = functools.partial(graph._leave, context), BytesIO()
        context._let_go = weakref.ref(leaving, context._flag.__exit__)
        return leaving

    def __call__(self, context, *exception):
        return context._leave(*exception)


class graph:
    """A context whose work is captured into a `CUDAGraph`, not done.

    The work is that of `stream`, by default one that is made for it; `pool` and `capture_error_mode` are those of
    `CUDAGraph.capture_begin`. Run the work a few times before, on a side stream: first calls make the state of
    optimizers, and compile. An error in the block ends the capture, and leaves no graph.
    """

    _streams: dict = {}  # of captures for which no other was given, by device

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode: str = "global"):
        if stream is None:
            device = plugrad.cuda.current_device()
            stream = self._streams.get(device) or self._streams.setdefault(device, plugrad.cuda.Stream())
        self.cuda_graph, self.pool, self.capture_stream = cuda_graph, pool, stream
        self.capture_error_mode = capture_error_mode
        self._flag = BytesIO()

    __exit__ = _Exit()

    def __enter__(self):
        _captures().refuse_second()
        plugrad.cuda.synchronize()
        gc.collect()  # so that nothing is freed in the capture that came before it
        plugrad.cuda.empty_cache()
        flag = self._flag
        with held_back():
            stream = self.capture_stream._stream
            self.cuda_graph._begin(self.pool, self.capture_error_mode, lambda: not flag.closed, stream)

    def _leave(self, kind=None, error=None, trace=None):
        with held_back():
            try:
                self.cuda_graph.capture_end()
            except RuntimeError as spoilt:
                if error is None:
                    raise
                error.add_note(f"The capture that it ended: {spoilt}")
            if error is None:
                return
            self.cuda_graph.reset()
            known = _captures().explained(error, "a call, or its backward,") if isinstance(error, Exception) else None
            if known is not None:
                raise known from error


def make_graphed_callables(
    callables, sample_args, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool=None
):
    """Return functions, or Modules, that launch graphs forward and backward.

    Args:
        callables: a function or Module, or a tuple of these, in the order in which the program calls them.
        sample_args: a tuple of tensors that the callable takes, or for a tuple of callables one for each. Their shapes,
            and whether they require grad, must be those of all later calls.
        num_warmup_iters: how often each is run before its capture.
        allow_unused_input: whether an input may be one that no output depends on.
        pool: a token of `graph_pool_handle()`, for memory that other graphs use, too.

    A Module gets another `forward`, for the mode that it is in; in the other it runs as before. Raises AssertionError
    for modules with hooks, buffers that require grad, and arguments that are no tensors; RuntimeError for autocast with
    its cache. Gradients of gradients can't be had.
    """
    if plugrad.is_autocast_enabled() and plugrad.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    single = not isinstance(callables, tuple)
    functions, samples = ((callables,), (sample_args,)) if single else (callables, sample_args)
    parts = [_Part(function, args) for function, args in zip(functions, samples, strict=True)]
    _captures()
    plugrad.cuda.synchronize()
    with plugrad.cuda.stream(plugrad.cuda.Stream()):
        for part in parts:
            part.warm_up(num_warmup_iters, allow_unused_input)
    plugrad.cuda.synchronize()
    pool = graph_pool_handle() if pool is None else pool
    for part in parts:  # in the order in which they are launched, since they share memory
        part.capture_forward(pool)
    for part in parts[::-1]:
        part.capture_backward(pool, allow_unused_input)
    graphed = tuple([part.finished() for part in parts])
    return graphed[0] if single else graphed


class _Part:
    """A function or Module whose forward and backward become graphs."""

    def __init__(self, function, args):
        self.function, self.args = function, args
        self.flat = tuple(_tensors(args))
        module = function if isinstance(function, plugrad.nn.Module) else None
        if module is not None:
            if module._backward_hooks or module._forward_hooks or module._forward_pre_hooks:
                raise AssertionError(
                    "Modules must not have hooks registered at the time they are passed. However, registering hooks on "
                    "modules after passing them through make_graphed_callables is allowed."
                )
            if any([buffer.requires_grad for buffer in module.buffers()]):
                raise AssertionError(
                    "In any torch.nn.Module passed to make_graphed_callables, only parameters may be trainable. All "
                    "buffers must have requires_grad=False."
                )
        self.inputs = self.flat + (() if module is None else tuple(module.parameters()))
        self.wanted = [one for one in self.inputs if one.requires_grad]
        self.forward, self.backward = CUDAGraph(), CUDAGraph()

    def gradients(self, outputs, grads, allow_unused):
        return plugrad.autograd.grad(outputs, self.wanted, grads, allow_unused=allow_unused)

    def warm_up(self, count, allow_unused):
        for _ in range(count):
            outputs = [one for one in _tensors(self.function(*self.args)) if one.requires_grad]
            if outputs:
                self.gradients(outputs, [plugrad.empty_like(one) for one in outputs], allow_unused)

    def capture_forward(self, pool):
        with graph(self.forward, pool=pool):
            result = self.function(*self.args)
        self.outputs, self.spec = tree_flatten(result)
        self.outputs = tuple(self.outputs)

    def capture_backward(self, pool, allow_unused):
        outputs = [one for one in self.outputs if one.requires_grad]
        self.grads = [plugrad.empty_like(one) if one.requires_grad else None for one in self.outputs]
        self.slopes = (None,) * len(self.inputs)
        if outputs:
            with graph(self.backward, pool=pool):
                grads = iter(self.gradients(outputs, [one for one in self.grads if one is not None], allow_unused))
            self.slopes = tuple([next(grads) if one.requires_grad else None for one in self.inputs])
        self.outputs = tuple([one.detach() for one in self.outputs])

    def finished(self):
        """Return the function, or the Module with its new `forward`."""
        step, parameters, spec, module = _launching(self), self.inputs[len(self.flat) :], self.spec, self.function

        def graphed(*args):
            return tree_unflatten(step.apply(*_tensors(args), *parameters), spec)

        if not isinstance(module, plugrad.nn.Module):
            return graphed
        usual, training = module.forward, module.training

        def forward(*args, **options):
            return graphed(*args, **options) if module.training == training else usual(*args, **options)

        module.forward = forward
        return module


def _launching(part):
    """Return the Function whose forward and backward launch the graphs of a part."""

    class Graphed(plugrad.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            for place, given in zip(part.flat, inputs):  # parameters are where they were
                if given.data_ptr() != place.data_ptr():
                    place.copy_(given)
            part.forward.replay()
            return tuple([one.detach() for one in part.outputs])

        @staticmethod
        @plugrad.autograd.function.once_differentiable
        def backward(ctx, *grads):
            for place, given in zip(part.grads, grads):
                if place is not None and place.data_ptr() != given.data_ptr():
                    place.copy_(given)
            part.backward.replay()
            return tuple([None if one is None else one.detach() for one in part.slopes])

    return Graphed


def _tensors(values):
    """Return the leaves of nested arguments; AssertionError where one is no tensor."""
    leaves = tree_leaves(values)
    if not all([isinstance(one, Tensor) for one in leaves]):
        raise AssertionError(
            "In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed."
        )
    return leaves
