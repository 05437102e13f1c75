"""Why a parameter received no gradient: where the path from the loss to it ends.

The graph of the loss tells which leaves it leads to, and a walk tells which nodes hand on no gradient. What was cut off
before (`detach`, `no_grad`, `argmax`, a conversion to NumPy) left no trace in the graph; `trace_breaks` writes it
down while the forward pass runs.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections import namedtuple

from plugrad import Tensor, autograd, is_grad_enabled, nest
from plugrad.extend import OpHook, from_raw
from plugrad.extend.blocks import Restoring
from plugrad.graph.modes import mode
from plugrad.interrupts import process_lock

Missing = namedtuple("Missing", "name why")
Missing.__doc__ = "A tensor without gradient: its `name`, and `why` in words."

_active = threading.local()  # .trace: the `trace_breaks` that is on in this thread


def explain_missing(loss, model, trace=None) -> list:
    """Return, for each parameter that gets no gradient from a loss, its name and why.

    Call it before `loss.backward()`: it walks backward itself, with hooks, leaving the graph and every `.grad` as they
    are. To learn where a path was cut off, run the forward pass under `trace_breaks`.

    Args:
        loss: the tensor that `backward` is going to be called on; or a tuple of several.
        model: a Module, a dict of tensors by name, or an iterable of tensors.
        trace: a `trace_breaks` that has ended; by default the one that is on.

    Returns a list of pairs (name, why), empty when all is well.

    >>> import plugrad as torch
    >>> w, b = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    >>> with torch.autograd.trace_breaks():
    ...     loss = (w.detach() + b).sum()
    ...     for name, why in torch.autograd.explain_missing(loss, {"w": w, "b": b}):
    ...         print(name, "-", why.partition(" at ")[0])
    w - its path to the loss ends in detach()
    """
    trace = trace or getattr(_active, "trace", None)
    losses = loss if isinstance(loss, tuple) else (loss,)
    reached = _behind([_edge(loss) for loss in losses])
    named = _named(model)
    with_gradient, ends = _walk(losses, [tensor for _, tensor in named if _edge(tensor) in reached], reached)
    missing = []
    for name, tensor in named:
        edge, why = _edge(tensor), None
        if edge is None:
            why = "its requires_grad is False: call requires_grad_() on it if it is to be trained"
        elif edge in reached:
            if edge in with_gradient:
                continue
            why = _why_none(edge, ends)
        elif trace is not None:
            why = trace.why(edge, losses, reached)
        missing.append(Missing(name, why or _why_unreached(reached, trace)))
    return missing


def warn_missing(loss, model) -> None:
    """Warn of the parameters that `explain_missing` finds."""
    missing = explain_missing(loss, model)
    if missing:
        lines = "".join(f"\n  {name}: {why}" for name, why in missing)
        warnings.warn(f"{len(missing)} parameter(s) receive no gradient from this backward:{lines}", stacklevel=4)


def _edge(tensor):
    """Return the edge at which a walk finds the gradient of a tensor; None if it requires none."""
    return tensor if tensor.is_leaf and tensor.requires_grad else tensor._live_edge()


def _behind(edges) -> dict:
    """Return all edges that some edges lead to, themselves included, as the keys of a dict."""
    reached, stack = {}, [*edges]
    while stack:
        edge = stack.pop()
        if edge is not None and edge not in reached:
            reached[edge] = None
            stack.extend(edge.edges)
    return reached


def _tensors_in(value) -> list:
    return [leaf for leaf in nest.leaves(value) if isinstance(leaf, Tensor)]


def _named(model) -> list:
    """Return (name, tensor) of all tensors of a model; TypeError if it is none."""
    if hasattr(model, "named_parameters"):
        return list(model.named_parameters())
    named = list(model.items() if hasattr(model, "items") else ((f"tensor {n}", one) for n, one in enumerate(model)))
    for name, tensor in named:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a model is a Module, or tensors by name, but {name!r} is a {type(tensor).__name__}")
    return named


def _walk(losses, wanted, reached):
    """Return the edges that get a gradient, and pairs (node, edge) where a custom Function handed on None."""
    if not wanted:
        return set(), []
    nodes = [node for node in reached if node.edges]
    if any(node.saved is None for node in nodes):  # the graph was used up: what arrived is all that is left
        return {_edge(tensor) for tensor in wanted if tensor.grad is not None}, []
    ends, handles = [], []

    def note(node):
        def hook(grad_inputs, grad_outputs):
            ends.extend((node, edge) for edge, g in zip(node.edges, grad_inputs) if edge is not None and g is None)

        return hook

    for node in nodes:
        if hasattr(node, "user"):  # the formulas of ops never leave a gradient out
            handles.append(node.register_hook(note(node)))
    try:
        roots = [loss for loss in losses if _edge(loss) is not None]
        ones = [from_raw(loss._type.ones(loss._raw.shape)) for loss in roots]
        grads = autograd.grad(roots, wanted, ones, retain_graph=True, allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    return {_edge(tensor) for tensor, g in zip(wanted, grads) if g is not None}, ends


def _why_none(edge, ends) -> str:
    names = dict.fromkeys(node.name() for node, start in ends if edge in _behind([start]))
    if names:
        return f"the loss depends on it, but the backward of {', '.join(names)} returned None on the way to it"
    return "the loss depends on it, but no gradient arrived when backward ran"


def _why_unreached(reached, trace) -> str:
    if not reached:
        why = "the loss itself has no history: it does not require grad"
    else:
        why = "the loss does not depend on it"
    if trace is not None:
        return f"{why}; no op that was traced used it"
    return f"{why}, or the path was cut off before (a forward pass under autograd.trace_breaks() tells where)"


# ---------------------------------------------------------------------------------------------------- tracing


class _Break:
    """A place where something that requires grad went in, and something that does not came out."""

    __slots__ = ("what", "why", "where", "edges")

    def __init__(self, what, why, edges):
        self.what, self.why, self.edges, self.where = what, why, edges, _caller()

    def __str__(self):
        return f"{self.what} at {self.where}{self.why and ': ' + self.why}"


class trace_breaks(Restoring, OpHook):
    """Note where history ends in a forward pass: a context, for `explain_missing`.

    Noticed are ops without gradient (`argmax`, comparisons, conversions to integers), ops under `no_grad`, and the
    ways out of the graph: `detach()`, `.data`, `item()`, `tolist()`, `numpy()`. Everything takes the general path
    meanwhile, and what was traced keeps the graph alive. It acts in its thread.

    >>> import plugrad as torch
    >>> layer = torch.nn.Linear(3, 2)
    >>> with torch.autograd.trace_breaks() as breaks:
    ...     loss = layer(torch.ones(1, 3)).argmax(1).float().sum()
    >>> [name for name, why in torch.autograd.explain_missing(loss, layer, breaks) if "argmax" in why]
    ['weight', 'bias']
    """

    def __init__(self):
        super().__init__()
        self.breaks: list[_Break] = []
        # The breaks that are behind a tensor without history, by its id and with a weak reference to it; and those
        # behind the inputs without history of a node.
        self._behind_tensors: dict = {}
        self._behind_nodes: dict = {}
        self._uses: dict = {}  # leaf -> name of the last recorded op that used it

    def begin(self):
        self._previous = getattr(_active, "trace", None)
        _active.trace = self
        _patch(+1)
        return super(Restoring, self).__enter__()

    def end(self):
        super(Restoring, self).__exit__(None, None, None)
        _patch(-1)
        _active.trace = self._previous

    def after(self, call):
        if call.op.runs_on == "tensors":
            return
        inputs, results = _tensors_in((call.args, call.kwargs)), _tensors_in(call.result)
        edges = [edge for edge in map(_edge, inputs) if edge is not None]
        for edge in edges:
            if not edge.edges:
                self._uses[edge] = call.name
        breaks = {known: None for tensor in inputs for known in self._breaks_behind(tensor)}
        result_edges = [edge for edge in map(_edge, results) if edge is not None]
        if edges and not result_edges:
            breaks[self._add(call.name, _reason(call, results), edges)] = None
        if breaks:
            for edge in result_edges:
                self._behind_nodes.setdefault(edge, {}).update(breaks)
            for tensor in results:
                self._behind_tensors[id(tensor)] = weakref.ref(tensor), breaks

    def left(self, tensor, what, result=None) -> None:
        """Note that a tensor left the graph by a method, as a tensor or plain values."""
        edge, breaks = _edge(tensor), self._breaks_behind(tensor)
        if edge is not None:
            breaks = {**breaks, self._add(what, "", [edge]): None}
        if result is not None:
            self._behind_tensors[id(result)] = weakref.ref(result), breaks
        else:
            for known in breaks:
                known.why = f"{what} made plain values of it, which carry no gradient"

    def _add(self, what, why, edges) -> _Break:
        self.breaks.append(_Break(what, why, edges))
        return self.breaks[-1]

    def _breaks_behind(self, tensor) -> dict:
        reference, breaks = self._behind_tensors.get(id(tensor), (None, {}))
        return breaks if reference is not None and reference() is tensor else {}

    def why(self, edge, losses, reached):
        """Return where the path of a leaf ends, in words; None if nothing traced used it."""
        behind_losses = {known for loss in losses for known in self._breaks_behind(loss)}
        for node in reached:
            behind_losses.update(self._behind_nodes.get(node, ()))
        on_its_paths = [known for known in self.breaks if edge in _behind(known.edges)]
        for known in reversed(on_its_paths):
            if known in behind_losses:
                return f"its path to the loss ends in {known}"
        if on_its_paths:
            return f"no gradient leads to it from the loss; its history ends in {on_its_paths[-1]}"
        if edge in self._uses:
            return f"{self._uses[edge]} used it, but the loss does not depend on the result"
        return None


def _reason(call, results) -> str:
    """Return why the results of an op on tensors that require grad have no history."""
    if not is_grad_enabled():
        return "it ran under no_grad()"
    if not call.op.formulas:
        return f"{call.name} has no gradient"
    dtypes = {str(tensor.dtype) for tensor in results}
    return f"its result is {' and '.join(sorted(dtypes))}, and only floating point numbers have gradients"


def _caller() -> str:
    """Return file and line of the innermost frame that is the program's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _is_ours(frame) -> bool:
    """Whether a frame runs code of plugrad or its plugins, or code that was generated from records."""
    module = frame.f_globals.get("__name__") or ""
    return f"{module}.".startswith("plugrad.") or frame.f_code.co_filename.startswith("<plugrad")


_patches = 0
_originals: dict = {}
_lock = process_lock()


def _patch(step: int) -> None:
    """Have the methods that lead out of the graph tell the trace of their thread, while any thread traces."""
    global _patches
    with _lock:
        _patches += step
        if _patches == 1 and step == 1:
            _originals["data"] = Tensor.__dict__["data"]
            Tensor.data = property(_telling(Tensor.data.fget, ".data"), Tensor.data.fset)
            for name in ("detach", "item", "tolist", "_shared"):
                own = Tensor.__dict__.get(name)
                _originals[name] = own
                setattr(Tensor, name, _telling(getattr(Tensor, name), "numpy()" if name == "_shared" else f"{name}()"))
        elif _patches == 0:
            for name, own in _originals.items():
                if own is None:
                    delattr(Tensor, name)
                else:
                    setattr(Tensor, name, own)
            _originals.clear()


def _telling(function, what):
    def method(self, *args, **kwargs):
        result = function(self, *args, **kwargs)
        trace = getattr(_active, "trace", None)
        if trace is not None and not mode.in_hook:
            trace.left(self, what, result if isinstance(result, Tensor) else None)
        return result

    return method
