"""`plugrad.compile`, and what compilers get: a graph that can be called, and asked which ops it calls.

A compiler is a plugin's function `NAME(graph, example_inputs) -> callable`. It is called once for each signature of
calls: the shapes, dtypes and devices of the tensors, which of them require grad, all other arguments, and whether
gradients are recorded. What it returns is then called in the program's place.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import abc

from plugrad import Tensor, absent, is_grad_enabled, nest, registry
from plugrad.compiler.marks import (
    allow_in_graph,
    altered,
    assume_constant_result,
    cudagraph_mark_step_begin,
    is_exporting,
    nested_compile_region,
    set_stance,
    substitute_in_graph,
)
from plugrad.compiler.programs import Programs, described, everyone
from plugrad.errors import flag
from plugrad.extend import OpHook
from plugrad.nn import Module
from plugrad.regions import declare, mode, region

__all__ = [
    "Graph", "OptimizedModule", "TracedCall", "Value", "allow_in_graph", "assume_constant_result", "compile",
    "cudagraph_mark_step_begin", "disable", "explain", "is_compiling", "is_dynamo_compiling", "is_exporting",
    "list_backends", "nested_compile_region", "on_arrays", "reset", "set_stance", "substitute_in_graph",
]  # fmt: skip

__getattr__ = absent.attributes("compiler")

BEST_FIRST = ("native", "numpy", "eager")
SIGNATURES = 8  # for more of them than this a program is not compiled again, as in PyTorch


class Value:
    """A tensor in a trace: an "input", the result of a "call", or a "constant".

    `index` numbers inputs and results. A constant is a tensor that the program holds itself, such as a parameter;
    `tensor` is the tensor; `shape` is for who traces.
    """

    __slots__ = ("origin", "index", "tensor", "shape")

    def __init__(self, origin, index, tensor):
        self.origin, self.index, self.tensor = origin, index, tensor

    def __repr__(self):
        return f"{self.origin}{self.index}"


class TracedCall:
    """One call of an op in a trace; tensors in it are `Value`s.

    `op` is the record, whose `kernel_for(device)` is what runs; `name` is what was called, `args` a list and `kwargs` a
    dict of its arguments, with lists and dicts in them as they came, `results` the list of its results.
    """

    __slots__ = ("op", "name", "args", "kwargs", "results")

    def __init__(self, op, name, args, kwargs, results):
        self.op, self.name, self.args, self.kwargs, self.results = op, name, args, kwargs, results

    def __repr__(self):
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{', '.join(map(repr, self.results))} = {self.name}({', '.join(given)})"


class Tracer(OpHook):
    """Notes the calls of ops, those of composites where `whole(op)` says so.

    A subclass may have `noted(call, traced)`, which is told of each.
    """

    def __init__(self, inputs, whole=None):
        super().__init__()
        self.whole, self.inside = whole, None  # inside: at which depth a composite is called that is noted whole
        self.calls: list = []
        self.values = {id(tensor): Value("input", i, tensor) for i, tensor in enumerate(inputs)}
        self.counts = {"constant": 0, "call": 0}

    def value(self, tensor, origin="constant"):
        known = self.values.get(id(tensor))
        if known is None:
            known = self.values[id(tensor)] = Value(origin, self.counts[origin], tensor)
            self.counts[origin] += 1
        return known

    def replaced(self, item):
        return nest.change(lambda leaf: self.value(leaf) if isinstance(leaf, Tensor) else leaf, item)

    def before(self, call):
        if self.whole is not None and self.inside is None and call.op.runs_on == "tensors" and self.whole(call.op):
            self.inside = call.depth

    def after(self, call):
        if self.inside == call.depth:
            self.inside = None
        elif self.inside is not None or call.op.runs_on == "tensors":
            return
        args, kwargs = self.replaced(list(call.args)), self.replaced(call.kwargs)
        results = call.result if isinstance(call.result, (tuple, list)) else (call.result,)
        outputs = [self.value(item, "call") for item in results if isinstance(item, Tensor)]
        self.calls.append(TracedCall(call.op, call.name, args, kwargs, outputs))
        self.noted(call, self.calls[-1])

    def noted(self, call, traced):
        """Called with each call that was noted."""


class Graph:
    """A program as a compiler sees it: call it to run it op by op.

    While a compiler runs, `example_args` and `example_kwargs` are the arguments of the first call, whatever they are;
    `graph.trace(*graph.example_args, **graph.example_kwargs)` lists what it does with them.

    >>> import plugrad as torch
    >>> Graph(lambda x: (x * 2).sum()).trace(torch.ones(3))
    [call0 = mul(input0, 2), call1 = sum(call0)]
    """

    def __init__(self, function):
        self.function = function
        self.example_args, self.example_kwargs = (), {}
        self.fullgraph, self.dynamic = False, None

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    forward = __call__

    def trace(self, *args, **kwargs) -> list:
        """Run the program on inputs; return the calls of ops that it made, in order.

        Another input may lead it another way: a program with `if` on values is not its trace.
        """
        tracer = Tracer([leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor)])
        with tracer:
            self.function(*args, **kwargs)
        return tracer.calls


def compile(model=None, *, backend=None, options=None, disable=False, fullgraph=False, dynamic=None, mode=None):
    """Return a function or Module that runs as a compiler makes it.

    Args:
        model: a function or Module; without it the result is a decorator.
        backend: name of a compiler, see `plugrad compilers`, or a function `(graph, example_inputs) -> callable`.
            Without it the best there is: "native", else "numpy", else "eager".
        options: keyword arguments for the compiler.
        disable: return the model as it is.
        fullgraph: raise an error for what a compiler of arrays ("native", "numpy") can't capture, instead of running it
            op by op.
        dynamic: False: each size has a program of its own. Otherwise the second one makes it one for all sizes.
        mode: PyTorch's, accepted.

    A Module comes back inside another one, whose `_orig_mod` it is, as in PyTorch; a class comes back itself, with
    another `forward`. Raises RuntimeError for an unknown compiler or mode, naming the known ones, and for options that
    the compiler does not have.

    >>> import plugrad as torch
    >>> @torch.compile
    ... def double(x):
    ...     return x + x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    for name, value in ("disable", disable), ("fullgraph", fullgraph), ("dynamic", dynamic is not None and dynamic):
        flag(name, value)
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if mode is not None and options:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        options = {"backend": backend, "options": options, "fullgraph": fullgraph, "dynamic": dynamic}
        return functools.partial(compile, disable=disable, **options)
    if not callable(model):
        raise TypeError(f"compile() takes a function or a Module, not {type(model).__name__}")
    if backend is None:
        backend = next(name for name in BEST_FIRST if name in list_backends() or name == BEST_FIRST[-1])
    compiler = _compiler(backend)
    if disable:
        return model
    if options:
        compiler = _with_options(compiler, options)
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", repr(backend))
    if isinstance(model, type):
        return _in_class(model, lambda method: compile(method, backend=compiler, fullgraph=fullgraph, dynamic=dynamic))
    compiled = _Compiled(model, compiler, name, fullgraph, dynamic)
    if isinstance(model, Module):
        return OptimizedModule(model, compiled)
    function = functools.wraps(model)(lambda *args, **kwargs: compiled.call(args, kwargs))
    function._compiled = compiled
    return function


def _in_class(cls, changed):
    """Let the objects of a class run a changed `forward`, or `__call__` where they are no Modules; return the class."""
    name = "forward" if issubclass(cls, Module) else "__call__"
    setattr(cls, name, changed(getattr(cls, name)))
    return cls


_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def _with_options(compiler, options):
    """Return a compiler with options; AttributeError for what is no dict, RuntimeError for what it does not have."""
    if not isinstance(options, abc.Mapping):
        raise AttributeError(f"compile(): options is a dict, not {type(options).__name__}: write {{'name': value}}")
    try:
        inspect.signature(compiler).bind(None, None, **options)
    except TypeError as error:
        raise RuntimeError(f"Unexpected optimization option: the compiler {error}") from None
    except ValueError:  # of a callable without a signature
        pass
    return functools.partial(compiler, **options)


def _compiler(backend):
    if callable(backend):
        return backend
    if not isinstance(backend, str):
        raise TypeError(f"backend must be the name of a compiler or a function, not {backend!r}")
    try:
        return registry.resolve(f"compilers.{backend}")
    except registry.AmbiguousNameError:
        raise
    except AttributeError:
        raise RuntimeError(
            f"there is no compiler named {backend!r}; installed are {', '.join(list_backends())}"
        ) from None


def list_backends(exclude_tags=()) -> list:
    """Return the names of the installed compilers.

    >>> "eager" in list_backends()
    True
    """
    return registry.names_in("compilers")


class _Compiled:
    """A program and what a compiler made of it, by signature."""

    def __init__(self, function, compiler, name, fullgraph, dynamic=None):
        self.graph, self.compiler, self.name = Graph(function), compiler, name
        self.graph.fullgraph, self.graph.dynamic = fullgraph, dynamic
        self.programs: dict = {}
        self.arrays = None  # what knows signatures itself
        self.call = self.run

    def __reduce__(self):  # a copy compiles anew
        return _Compiled, (self.graph.function, self.compiler, self.name, self.graph.fullgraph, self.graph.dynamic)

    def run(self, args, kwargs):
        """Call what the compiler made for such arguments."""
        if altered and (mode.uncompiled or mode.stance == "force_eager"):
            return self.graph(*args, **kwargs)
        leaves = list(nest.leaves((args, kwargs)))
        structure = repr(nest.change(lambda leaf: None, (args, kwargs)))
        key = (is_grad_enabled(), _training(self.graph.function), structure, *map(_described, leaves))
        compiled = self.programs.get(key)
        if compiled is None:
            if mode.stance == "eager_on_recompile":
                return self.graph(*args, **kwargs)
            if mode.stance == "fail_on_recompile":
                raise RuntimeError("a compiled function got a new signature while the stance is fail_on_recompile")
            compiled = self.programs[key] = self._compile(leaves, args, kwargs)
        return compiled(*args, **kwargs)

    def _compile(self, leaves, args, kwargs):
        if len(self.programs) >= SIGNATURES:
            warnings.warn(
                f"the compiler {self.name!r} has served {SIGNATURES} signatures of one program: further ones run op by "
                "op; call it with fewer different shapes",
                stacklevel=4,
            )
            return self.graph
        examples = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        graph = Graph(self.graph.function)
        graph.fullgraph, graph.dynamic = self.graph.fullgraph, self.graph.dynamic
        graph.example_args, graph.example_kwargs = args, kwargs
        try:
            with region(compiling=True):
                compiled = self.compiler(graph, examples)
        except Exception as error:
            error.add_note(f"raised by the compiler {self.name!r}; backend='eager' runs without one")
            raise
        finally:
            graph.example_args, graph.example_kwargs = (), {}  # they would live as long as the program
        if hasattr(compiled, "known"):
            self.arrays, self.call = compiled, compiled.call
        if not callable(compiled):
            raise TypeError(f"the compiler {self.name!r} must return something callable, it returned {compiled!r}")
        return compiled


def _training(function):
    module = getattr(function, "__self__", function)
    return module.training if isinstance(module, Module) else None


def _described(leaf):
    if isinstance(leaf, Tensor):
        return leaf.shape, leaf._type, leaf.requires_grad, type(leaf)
    try:
        hash(leaf)
    except TypeError:
        return type(leaf), id(leaf)
    return type(leaf), leaf


class OptimizedModule(Module):
    """A Module that runs as a compiler made it; `_orig_mod` has the attributes."""

    def __init__(self, module, compiled):
        super().__init__()
        self.__dict__["_compiled"] = compiled
        self._orig_mod = module

    def forward(self, *args, **kwargs):
        return self._compiled.call(args, kwargs)

    @property
    def training(self):
        return self._orig_mod.training

    @training.setter
    def training(self, mode):
        self._orig_mod.training = mode

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)

    def __setattr__(self, name, value):
        super().__setattr__(name, value) if self._has(name) else setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        super().__delattr__(name) if self._has(name) else delattr(self._orig_mod, name)

    def _has(self, name) -> bool:
        """Whether an attribute is its own, not the Module's."""
        own = (self.__dict__, self._parameters, self._buffers, self._modules)
        return name == "_orig_mod" or hasattr(type(self), name) or any(name in table for table in own)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __len__(self):
        return len(self._orig_mod)

    def __bool__(self):
        return bool(self._orig_mod)


declare("compiling")  # a compiler is at work in this thread
declare("uncompiled", False, altered)  # compiled functions run op by op in this thread


def is_compiling() -> bool:
    """Whether a compiler is at work in this thread now."""
    return mode.compiling


is_dynamo_compiling = is_compiling


def on_arrays(graph, lower, name="arrays"):
    """Return the program of a graph as an array compiler runs it.

    Args:
        graph: what the compiler got.
        lower: a function that takes a `plugrad.compiler.graph.Graph` and returns a function `make(memory)`: memory is
            a dict from buffers to flat arrays of bytes. What that returns has `parts`, a function for each part of the
            graph, `give(value, array)` for arguments, `fetch(value)` for results, and `clear()`. If `lower.any_size`
            is true, it gets graphs with a `scope`, too, and what is returned has `resize(size)`. `explain` shows what
            `make` has as `source`, a text, and what `make.remarks()` returns, lines.
        name: of the compiler, for messages.
    """
    return Programs(graph.function, lower, name, graph.fullgraph, graph.dynamic is not False)


def explain(compiled) -> str:
    """Return what was captured of a function or Module, as text.

    For each program there are its steps, its memory, what the compiler tells of its source, and which steps could not
    be done in the way that it chose.

    >>> import plugrad as torch
    >>> double = torch.compile(lambda x: x + x, backend="numpy")
    >>> _ = double(torch.ones(2))
    >>> print(torch.compiler.explain(double).splitlines()[0])
    1 programs by the compiler 'numpy'
    """
    arrays = getattr(getattr(compiled, "_compiled", None), "arrays", None)
    if arrays is None:
        return "nothing was captured of it"
    return described(arrays)


class _Disabled:
    """A program in which compiled functions run op by op."""

    def __init__(self, function):
        self.function = function

    def call(self, args, kwargs):
        with region(uncompiled=True):
            return self.function(*args, **kwargs)


def disable(fn=None, recursive=True):
    """Return a function or Module that runs op by op; a decorator, of classes too."""
    if fn is None:
        return disable
    if isinstance(fn, type):
        return _in_class(fn, disable)
    if isinstance(fn, Module):
        return OptimizedModule(fn, _Disabled(fn))

    return functools.wraps(fn)(lambda *args, **kwargs: _Disabled(fn).call(args, kwargs))


def reset() -> None:
    """Have compilers of arrays forget all programs that they captured."""
    for programs in list(everyone):
        programs.reset()
